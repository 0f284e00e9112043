"""Names of kernel addresses, from /proc/kallsyms and from the code that perf saw loaded (eBPF
programs).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise, takewhile

from cnibench.errors import MeasureError, MissingError

_DIGITS, _KIND, _NAME, _SPACE = (
    16,
    17,
    19,
    ord(" "),
)  # where things are in a line: 16 digits, the type, the name, a tab and the module
_PADDING = frozenset(
    (b"__pfx_", b"__cfi_")
)  # no code of their own: the bytes before a function's entry
_SUFFIX = re.compile(r"\.(?:isra|constprop|part|cold|llvm|lto_priv|localalias)\b.*$")
UNKNOWN = "[unknown]"
_LARGEST = 1 << 20  # bytes: no function is longer, so a larger gap belongs to no one
_CHUNK = 2048  # bytes of text that are parsed together: some forty lines
_KINDS = frozenset(b"tTwW")


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
    """Names from ``text``, /proc/kallsyms, and perf's ``loaded`` (address, length, name). ``used``
    are the ranges asked for so far.

    Raises MissingError when the kernel hides the addresses.
    """

    def __init__(self, text: bytes, loaded: Iterable[tuple[int, int, str]] = ()) -> None:
        super().__init__((start, start + length, name) for start, length, name in loaded if length)
        self._text = _Text(text)
        if self._text.hidden():
            raise MissingError(
                "the kernel hides its symbols' addresses",
                "as root: sysctl -w kernel.kptr_restrict=0",
            )
        self.used: set[tuple[int, int, str]] = set()

    def find(self, address: int) -> tuple[int, int, str] | None:
        """(start, end, name); a function ends where the next one begins."""
        found = super().find(address) or self._look_up(address)
        if found is not None:
            self.used.add(found)
        return found

    def _look_up(self, address: int) -> tuple[int, int, str] | None:
        lines, at = self._text.around(
            b"%016x~" % address
        )  # '~' sorts behind whatever follows an address
        if at == 0:
            return None
        start = _address(lines[at - 1])
        end = min(_address(lines[at]) if at < len(lines) else start + _LARGEST, start + _LARGEST)
        later = bisect_left(self._starts, start)
        if later < len(self._starts):  # code that kallsyms no longer has
            end = min(end, self._starts[later])
        return (start, end, _best(lines, at)) if address < end else None


class _Text:
    """Lines of functions out of the text of /proc/kallsyms, most of which no recording names:
    parsed only around the addresses asked for.

    The kernel's own symbols come first and by address (it searches them by halves itself,
    kernel/kallsyms.c); those of modules and eBPF programs, which have a tab and the module's name,
    follow in any order. All addresses have one width: bytes sort as numbers do.
    """

    def __init__(self, text: bytes) -> None:
        own = text.rfind(b"\n", 0, text.index(b"\t")) + 1 if b"\t" in text else len(text)
        self._text = text
        self._bounds = _bounds(text, own)  # where the chunks begin, and their end
        self._starts = [text[at : at + _DIGITS] for at in self._bounds[:-1]]
        if any(
            one >= other for one, other in pairwise(self._starts)
        ):  # no text of a kernel's: nothing is known of its order
            own, self._starts = 0, []
        self._rest = _functions(text[own:])
        self._parsed: dict[int, list[bytes]] = {}
        self._wider: dict[int, list[bytes]] = {}

    def hidden(self) -> bool:
        """Is there no function, or none that has an address?"""
        lines = (*self._rest, *self._chunk(self._beside(len(self._starts), -1)))
        return all(line.startswith(b"0" * _DIGITS) for line in lines)

    def around(self, key: bytes) -> tuple[list[bytes], int]:
        """Some lines, sorted, and how many of them sort before ``key``: the last of those, with all
        lines of its address, and the first after it are what they would be among all lines."""
        at_chunk = bisect_right(self._starts, key) - 1
        lines = self._chunk(at_chunk)
        at = bisect_right(lines, key)
        if at in (0, len(lines)):
            lines = self._with_neighbours(at_chunk)
            at = bisect_right(lines, key)
        if self._rest:
            before = bisect_right(self._rest, key)
            first = bisect_left(self._rest, self._rest[before - 1][:_DIGITS]) if before else 0
            lines = sorted([*lines, *self._rest[first : before + 1]])
            at = bisect_right(lines, key)
        return lines, at

    def _chunk(self, number: int) -> list[bytes]:
        if number not in self._parsed:
            inside = 0 <= number < len(self._starts)
            self._parsed[number] = (
                _functions(self._text[self._bounds[number] : self._bounds[number + 1]])
                if inside
                else []
            )
        return self._parsed[number]

    def _with_neighbours(self, number: int) -> list[bytes]:
        """Its lines, and those of the nearest chunks on both sides that have functions."""
        if number not in self._wider:
            beside = (self._beside(number, -1), number, self._beside(number, 1))
            self._wider[number] = [line for each in beside for line in self._chunk(each)]
        return self._wider[number]

    def _beside(self, number: int, step: int) -> int:
        number += step
        while 0 <= number < len(self._starts) and not self._chunk(number):
            number += step
        return number


def _bounds(text: bytes, end: int) -> list[int]:
    """Beginnings of lines every _CHUNK bytes or so, and the end; lines of one address are never
    parted.
    """
    bounds = [0]
    while True:
        at = text.find(b"\n", bounds[-1] + _CHUNK) + 1
        address = text[at : at + _DIGITS]
        while at and text.startswith(address, at):
            at = text.find(b"\n", at) + 1
        if not 0 < at < end:
            return [*bounds, end]
        bounds.append(at)


def _address(line: bytes) -> int:
    try:
        return int(line[:_DIGITS], 16)
    except ValueError:
        raise MeasureError(
            f"/proc/kallsyms: expected an address, got {line[:40]!r}", "report the file's text"
        ) from None


def _functions(text: bytes) -> list[bytes]:
    """The lines of functions, sorted by address."""
    return sorted(
        line
        for line in text.split(b"\n")
        if len(line) > _NAME
        and line[_KIND] in _KINDS
        and line[_NAME : _NAME + 6] not in _PADDING
        and line[_DIGITS] == _SPACE
    )


def _best(lines: list[bytes], end: int) -> str:
    """Of all names of the address before ``end`` the one that perf shows too: not weak, global, few
    leading underscores, long.
    """
    address = lines[end - 1][:_DIGITS]
    same = takewhile(lambda line: line.startswith(address), lines[end - 1 :: -1])
    return max(map(_preference, same))[-1].decode(errors="replace")


def _preference(line: bytes) -> tuple[bool, bool, int, int, bytes]:
    """What orders the names of one address, and the name itself."""
    kind, name = line[_KIND : _KIND + 1], line[_NAME:].partition(b"\t")[0]
    underscores = len(name) - len(name.lstrip(b"_"))
    return kind not in b"wW", kind == b"T", -underscores, len(name), name
