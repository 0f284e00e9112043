"""Names of kernel addresses, from /proc/kallsyms and from the code that perf saw loaded (eBPF programs)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache

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
    """Names of addresses in [start, end) ranges."""

    def __init__(self, ranges: Iterable[tuple[int, int, str]]) -> None:
        self._ranges = sorted(ranges)
        self._starts = [start for start, _, _ in self._ranges]

    def name(self, address: int) -> str:
        """The function around an address, ``[unknown]`` where there is none."""
        found = self.find(address)
        return UNKNOWN if found is None else found[2]

    def find(self, address: int) -> tuple[int, int, str] | None:
        """(start, end, name) of it."""
        at = bisect_right(self._starts, address) - 1
        return self._ranges[at] if at >= 0 and address < self._ranges[at][1] else None


class Kallsyms(Symbols):
    """Names from ``text``, /proc/kallsyms, and perf's ``loaded`` (address, length, name). ``used`` are the ranges asked for so far.

    Raises MissingError when the kernel hides the addresses.
    """

    def __init__(self, text: bytes, loaded: Iterable[tuple[int, int, str]] = ()) -> None:
        super().__init__((start, start + length, name) for start, length, name in loaded if length)
        self._lines = _text_lines(text)
        if not self._lines or self._lines[-1].startswith(b"0" * _DIGITS):
            raise MissingError("the kernel hides its symbols' addresses", "as root: sysctl -w kernel.kptr_restrict=0")
        self.used: set[tuple[int, int, str]] = set()

    def find(self, address: int) -> tuple[int, int, str] | None:
        """(start, end, name); a function ends where the next one begins."""
        found = super().find(address) or self._look_up(address)
        if found is not None:
            self.used.add(found)
        return found

    def _look_up(self, address: int) -> tuple[int, int, str] | None:
        lines = self._lines
        at = bisect_right(lines, b"%016x~" % address)  # '~' sorts behind whatever follows an address
        if at == 0:
            return None
        start = int(lines[at - 1][:_DIGITS], 16)
        end = min(int(lines[at][:_DIGITS], 16) if at < len(lines) else start + _LARGEST, start + _LARGEST)
        later = bisect_right(self._starts, start - 1)
        if later < len(self._starts):  # code that kallsyms no longer has
            end = min(end, self._starts[later]) if self._starts[later] > start else min(end, self._ranges[later][1])
        return (start, end, _best(lines, at)) if address < end else None


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
