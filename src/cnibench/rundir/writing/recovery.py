"""Finds what is still intact in a file that differs from what its events commit, and names what is
not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import msgspec

from cnibench.rundir.chain import Kind, Problem, Segment, digest

NO_NEWLINE = "the newline at its end is missing; the line itself is intact"
_FEW = 5  # lines of one sample, of which every order is tried


class Place(msgspec.Struct, frozen=True, gc=False):
    """As much of a line as says where it belongs."""

    cell: str = ""
    block: int | None = -1
    attempt: int = 1
    label: str = ""
    placement: str = ""
    workload: str = ""
    window: str = ""


def place(line: bytes) -> Place | None:
    """None for a line that cannot be read."""
    try:
        return _PLACE.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None


def recover(
    segments: Sequence[Segment], data: bytes, first: int, file: str, *, open_end: bool
) -> tuple[list[tuple[int, bytes, Segment]], list[Problem]]:
    """(line, bytes, segment) of all that is intact, in the order of the segments; and the problems.

    ``data`` begins with line ``first``. ``open_end``: what follows the last segment may
    belong to a sample that was being written.
    """
    return _Search(data, first, file).all(segments, open_end)


class _Search:
    def __init__(self, data: bytes, first: int, file: str) -> None:
        self._lines = data.split(b"\n")
        self._ended = not self._lines[-1]  # by a newline
        if self._ended:
            self._lines.pop()
        self._first, self._file = first, file
        self._used = [False] * len(self._lines)
        self._by_place: dict[tuple[str, int, int], list[int]] = {}
        for number, line in enumerate(self._lines):
            found = place(line)
            if found is not None and found.cell and found.block is not None:
                self._by_place.setdefault((found.cell, found.block, found.attempt), []).append(
                    number
                )
        self._problems: list[Problem] = []

    def all(
        self, segments: Sequence[Segment], open_end: bool
    ) -> tuple[list[tuple[int, bytes, Segment]], list[Problem]]:
        found: list[tuple[int, bytes, Segment]] = []
        at = highest = 0
        for segment in segments:
            numbers = list(range(at, min(at + max(segment.lines, 0), len(self._lines))))
            if not self._same(numbers, segment):
                numbers = self._elsewhere(segment, at)
            if not numbers:
                continue
            if numbers[0] < highest:
                self._tell("out of order", numbers, segment, "these lines follow later ones")
            highest = max(highest, numbers[0])
            for number in numbers:
                self._used[number] = True
            found.append((self._first + min(numbers), self._join(numbers), segment))
            at = max(numbers) + 1
            if at == len(self._lines) and not self._ended:
                self._tell("lost", [at - 1], segment, NO_NEWLINE)
        self._rest(at, open_end)
        return found, self._problems

    def _same(self, numbers: Sequence[int], segment: Segment) -> bool:
        return bool(numbers) and digest(self._join(numbers)) == segment.sha256

    def _join(self, numbers: Sequence[int]) -> bytes:
        return b"".join(self._lines[number] + b"\n" for number in numbers)

    def _elsewhere(self, segment: Segment, at: int) -> list[int]:
        """The lines of the segment where they are now; none, and reported, when they are not all
        intact.
        """
        where = (segment.cell, segment.block, segment.attempt)
        mine = self._by_place.get(where, []) if segment.cell else self._window(segment)
        if self._same(mine, segment):
            return mine
        for some in self._without_doubles(mine, segment.lines):
            if self._same(some, segment):
                extra = [number for number in mine if number not in some]
                for number in extra:
                    self._used[number] = True
                self._tell("doubled", extra, segment, "these lines are there more than once")
                return some
        if len(mine) == segment.lines <= _FEW:
            for order in permutations(mine):
                if self._same(order, segment):
                    self._tell(
                        "out of order",
                        mine,
                        segment,
                        "the lines of this sample are in another order",
                    )
                    return list(order)
        for number in mine:
            self._used[number] = True
        missing = segment.lines - len(mine)
        kind: Kind = "lost" if missing > 0 else "changed"
        words = (
            f"{missing} of {segment.lines} lines are missing"
            if missing > 0
            else "it is not what was written"
        )
        self._tell(
            kind,
            mine or [at],
            segment,
            f"{words}; the sample is left out" if segment.cell else words,
        )
        return []

    def _window(self, segment: Segment) -> list[int]:
        """Lines that say nothing about where they belong, attestations for instance: wherever they
        are together.
        """
        for start in range(len(self._lines)):
            numbers = list(range(start, min(start + segment.lines, len(self._lines))))
            if not any(self._used[number] for number in numbers) and self._same(numbers, segment):
                return numbers
        return []

    def _without_doubles(self, numbers: Sequence[int], wanted: int) -> Iterator[list[int]]:
        if len(numbers) <= wanted:
            return
        seen: dict[bytes, int] = {}
        for number in numbers:
            seen.setdefault(self._lines[number], number)
        yield sorted(seen.values())
        for start in range(len(numbers) - wanted + 1):
            yield list(numbers[start : start + wanted])

    def _rest(self, at: int, open_end: bool) -> None:
        """Lines that no event commits. Behind the last segment they may be of a sample in flight,
        if it is only one.
        """
        end = len(self._lines)
        if open_end and in_flight(self._lines[at:]):
            end = at
        strange = [number for number in range(end) if not self._used[number]]
        for numbers in _runs(strange):
            self._tell(
                "not chained", numbers, None, "no event commits these lines; they are left out"
            )

    def _tell(
        self, kind: Kind, numbers: Sequence[int], segment: Segment | None, detail: str
    ) -> None:
        where: dict[str, Any] = (
            {}
            if segment is None or not segment.cell
            else {"cell": segment.cell, "block": segment.block}
        )
        line = self._first + min(numbers) if numbers else 0
        last = self._first + max(numbers) if numbers else 0
        self._problems.append(
            Problem(kind=kind, file=self._file, line=line, last=last, detail=detail, **where)
        )


def in_flight(lines: Sequence[bytes]) -> bool:
    """Can these lines be of samples that were measured at the same time, or of attestations that
    one event commits (those of a deployment, or all those after a block), the last one perhaps cut
    off?
    """
    found: set[tuple[int | str | None, ...]] = set()
    for number, line in enumerate(lines):
        where = place(line)
        if where is None:
            if number < len(lines) - 1:
                return False
            continue
        if where.cell:
            found.add((where.block, where.label, where.placement, where.workload, where.window))
        else:
            found.add((where.block, where.label if where.block is None else ""))
    return len(found) <= 1


def _runs(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Neighbouring numbers together."""
    found: list[int] = []
    for number in numbers:
        if found and number != found[-1] + 1:
            yield found
            found = []
        found.append(number)
    if found:
        yield found


_PLACE = msgspec.json.Decoder(Place)
