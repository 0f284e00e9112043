"""Names of kernel addresses, from /proc/kallsyms and from the code that perf saw loaded (eBPF programs)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cnibench.errors import MissingError

_DIGITS, _KIND, _NAME, _SPACE = 16, 17, 19, ord(" ")  # where things stand in a line: 16 digits, the type, the name, a tab and the module
_PADDING = frozenset((b"__pfx_", b"__cfi_"))  # no code of their own: the bytes before a function's entry
_SUFFIX = re.compile(r"\.(?:isra|constprop|part|cold|llvm|lto_priv|localalias)\b.*$")
UNKNOWN = "[unknown]"
_LARGEST = 1 << 20  # bytes: no function is longer, so a larger gap belongs to no one


def base_name(name: str) -> str:
    """A function's name without what the compiler appended to its clones."""
    return _SUFFIX.sub("", name) if "." in name else name


class Symbols:
    """Sorted, non-overlapping [start, end) ranges of kernel text, and their names."""

    def __init__(self, ranges: Sequence[tuple[int, int, str]]) -> None:
        ordered = sorted(ranges)
        self._starts = np.array([start for start, _, _ in ordered], dtype=np.uint64)
        self._ends = np.array([end for _, end, _ in ordered], dtype=np.uint64)
        self._names = [name for _, _, name in ordered]

    def names(self, addresses: NDArray[np.uint64]) -> list[str]:
        """The function around each address, ``[unknown]`` where there is none."""
        if not len(self._starts):
            return [UNKNOWN] * len(addresses)
        at = np.searchsorted(self._starts, addresses, side="right") - 1
        inside = (at >= 0) & (addresses < self._ends[at])
        names = self._names
        return [names[index] if ok else UNKNOWN for index, ok in zip(at.tolist(), inside.tolist(), strict=True)]

    def covering(self, addresses: NDArray[np.uint64]) -> list[tuple[int, int, str]]:
        """The ranges that these addresses fall into: enough to name them again without the machine."""
        if not len(self._starts):
            return []
        at = np.searchsorted(self._starts, addresses, side="right") - 1
        used = np.unique(at[(at >= 0) & (addresses < self._ends[at])])
        return [(int(self._starts[index]), int(self._ends[index]), self._names[index]) for index in used]


def from_kallsyms(text: bytes, addresses: NDArray[np.uint64], loaded: Iterable[tuple[int, int, str]] = ()) -> Symbols:
    """The symbols around ``addresses``. ``text`` is /proc/kallsyms, ``loaded`` perf's (address, length, name).

    Raises MissingError when the kernel hides the addresses.
    """
    lines = _text_lines(text)
    if not lines or lines[-1].startswith(b"0" * _DIGITS):
        raise MissingError("the kernel hides its symbols' addresses", "as root: sysctl -w kernel.kptr_restrict=0")
    found = {start: (start, start + length, name) for start, length, name in loaded if length}
    own = sorted(found)
    for address in addresses.tolist():
        at = bisect_right(lines, b"%016x~" % address)  # '~' sorts behind whatever follows an address
        if at == 0:
            continue
        start = int(lines[at - 1][:_DIGITS], 16)
        if start not in found:
            end = min(int(lines[at][:_DIGITS], 16) if at < len(lines) else start + _LARGEST, start + _LARGEST)
            later = bisect_right(own, start)
            found[start] = (start, min(end, own[later]) if later < len(own) else end, _best(lines, at))
    return Symbols(list(found.values()))


@lru_cache(maxsize=2)
def _text_lines(text: bytes) -> list[bytes]:
    """The lines of functions, sorted by address (of one width, so that bytes sort as numbers do); kept from one sample to the next."""
    kinds = frozenset(b"tTwW")
    return sorted(
        line
        for line in text.split(b"\n")
        if len(line) > _NAME and line[_KIND] in kinds and line[_NAME : _NAME + 6] not in _PADDING and line[_DIGITS] == _SPACE
    )


def _best(lines: list[bytes], end: int) -> str:
    """Of all names of the address before ``end`` the one that perf shows too: not weak, global, few leading underscores, long."""
    address, best = lines[end - 1][:_DIGITS], (False, False, -_LARGEST, 0, b"")
    while end > 0 and lines[end - 1].startswith(address):
        end -= 1
        kind, name = lines[end][_KIND : _KIND + 1], lines[end][_NAME:].split(b"\t", 1)[0].rstrip()
        best = max(best, (kind not in b"wW", kind == b"T", len(name.lstrip(b"_")) - len(name), len(name), name))
    return best[-1].decode(errors="replace")
