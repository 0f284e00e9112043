"""Names of kernel addresses, from /proc/kallsyms and from the code that perf saw loaded (eBPF programs)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cnibench.errors import MissingError

_LINE = re.compile(rb"^([0-9a-f]+) ([tTwW]) (\S+)", re.MULTILINE)
_PADDING = (b"__pfx_", b"__cfi_")  # no code of their own: the bytes before a function's entry
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


def from_kallsyms(text: bytes, loaded: Iterable[tuple[int, int, str]] = ()) -> Symbols:
    """``text`` is /proc/kallsyms, ``loaded`` perf's (address, length, name). Raises MissingError when the kernel hides the addresses."""
    best = _text_symbols(text)
    if not best or set(best) == {0}:
        raise MissingError("the kernel hides its symbols' addresses", "as root: sysctl -w kernel.kptr_restrict=0")
    lengths = {address: length for address, length, _ in loaded if length}
    names = {address: name for address, length, name in loaded if length}
    names.update(best)
    starts = sorted(names)
    following = [*starts[1:], starts[-1] + _LARGEST]
    return Symbols(
        [(start, min(start + lengths.get(start, _LARGEST), end), names[start]) for start, end in zip(starts, following, strict=True)]
    )


@lru_cache(maxsize=2)
def _text_symbols(text: bytes) -> dict[int, str]:
    """Address to name; kept, because the file stays the same from one sample to the next unless code was loaded."""
    best: dict[int, tuple[bytes, bytes]] = {}
    for address, kind, name in _LINE.findall(text):
        if name.startswith(_PADDING):
            continue
        start = int(address, 16)
        other = best.get(start)
        if other is None or _rank(kind, name) > _rank(*other):
            best[start] = (kind, name)
    return {start: name.decode(errors="replace") for start, (_, name) in best.items()}


def _rank(kind: bytes, name: bytes) -> tuple[bool, bool, int, int]:
    """Of several names of one address the one that perf shows too: not weak, global, few leading underscores, long."""
    return (kind not in b"wW", kind == b"T", len(name.lstrip(b"_")) - len(name), len(name))
