"""The lines of a run's files that its events commit. What differs from that is searched for what is
intact, and named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.rundir.chain import Chain, Problem, Segment, digest
from cnibench.rundir.reading.documents import WHOLE
from cnibench.rundir.reading.findings import Findings
from cnibench.rundir.schema import ATTESTATIONS, EVENTS, LONGEST_LINES, LONGEST_PIECE, SAMPLES
from cnibench.rundir.writing import recovery
from cnibench.system.files import open_beneath

_PIECE = 2 << 20  # bytes that are decoded together
_TAIL = 16 << 20  # bytes that a sample in flight may have written


class CommittedLines:
    """The files of lines in the run directory ``path``. ``grows`` says whether a live run has
    written events since those of ``chain`` were read. ``complete`` names the files that were read
    to their end, and so verified.
    """

    def __init__(
        self, path: Path, chain: Chain, findings: Findings, grows: Callable[[], bool]
    ) -> None:
        self._path, self._chain, self._findings, self._grows = path, chain, findings, grows
        self.complete: set[str] = set()

    def pieces(self, name: str) -> Iterator[tuple[int, bytes]]:
        """(number of the first line, whole lines) of all lines of the file that the chain vouches
        for.
        """
        try:
            descriptor = open_beneath(self._path, name)
        except FileNotFoundError:
            if self._chain.segments.get(name):
                self._findings.add(Problem(kind="lost", file=name, detail="the file is missing"))
            return
        except OSError as error:
            raise InputError(
                f"{self._path / name}: {error.strerror}", "check the path and its permissions"
            ) from None
        with open(descriptor, "rb", buffering=1 << 18) as file:
            if os.fstat(descriptor).st_size > LONGEST_LINES:
                raise InputError(
                    f"{self._path / name}: is larger than {LONGEST_LINES:,} bytes",
                    "is this really a run directory?",
                )
            try:
                yield from (
                    self._chained(name, file)
                    if self._chain.chained
                    else self._unchained(name, file)
                )
                self.complete.add(name)
            except OSError as error:
                raise InputError(
                    f"{self._path / name}: {error.strerror}", "check the disk, or take another copy"
                ) from None

    def _chained(self, name: str, file: Any) -> Iterator[tuple[int, bytes]]:
        known = self._chain
        segments = known.segments.get(name, [])
        again = known.again > 0
        at = line = 0
        start, held, length = 1, list[bytes](), 0
        for number, segment in enumerate(segments):
            sound = segment.at == at and 0 <= segment.bytes <= LONGEST_PIECE
            data = file.read(segment.bytes) if sound else b""
            if not sound or digest(data) != segment.sha256:
                if held:
                    yield start, b"".join(held)
                yield from self._recovered(
                    name, segments[number:], data + file.read(LONGEST_PIECE), line + 1
                )
                return
            at, line = at + segment.bytes, line + segment.lines
            old = not segment.cell and name != ATTESTATIONS
            if old or (again and known.superseded(segment)):
                if held:
                    yield start, b"".join(held)
                start, held, length = line + 1, [], 0
                if old:
                    yield from self._of_old_version(line - segment.lines + 1, data)
                continue
            held.append(data)
            length += len(data)
            if length >= _PIECE:
                yield start, b"".join(held)
                start, held, length = line + 1, [], 0
        if held:
            yield start, b"".join(held)
        if tail := file.read(_TAIL + 1):
            self._tail(name, tail, line + 1)

    def _recovered(
        self, name: str, segments: list[Segment], data: bytes, first: int
    ) -> Iterator[tuple[int, bytes]]:
        found, problems = recovery.recover(
            segments, data, first, name, open_end=not self._chain.finished
        )
        for problem in problems:
            self._findings.add(problem)
        for line, piece, segment in found:
            if self._chain.superseded(segment):
                continue
            if not segment.cell and name != ATTESTATIONS:
                yield from self._of_old_version(line, piece)
            else:
                yield line, piece

    def _of_old_version(self, first: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Lines from before the chain, without those of samples that were measured again since."""
        for number, line in enumerate(data.splitlines(keepends=True), first):
            where = recovery.place(line)
            last = None
            if where is not None and where.block is not None:
                last = self._chain.latest.get((where.cell, where.block))
            if last is None or not last.sha256:
                yield number, line

    def _tail(self, name: str, tail: bytes, line: int) -> None:
        """What follows the last committed line: a sample in flight, or lines whose events are
        lost.
        """
        if name not in self._chain.segments and name not in (SAMPLES, ATTESTATIONS):
            return  # a file that this run has never committed a line of is not its own
        lines = tail.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if self._grows():
            return
        if self._chain.finished:
            words = "no event commits these lines; they are left out"
            self._findings.add(
                Problem(
                    kind="not chained",
                    file=name,
                    line=line,
                    last=line + len(lines) - 1,
                    detail=words,
                )
            )
        elif len(tail) > _TAIL or not self._chain.count or not recovery.in_flight(lines):
            words = (
                f"{name} has {len(lines)} lines of several samples that no event commits; they are"
                " left out"
            )
            self._findings.add(
                Problem(kind="lost", file=EVENTS, line=self._chain.count + 1, detail=words)
            )
        else:
            cut = "" if tail.endswith(b"\n") else ", cut off in the middle"
            words = "of a sample that was being written when the run ended"
            self._findings.warn(f"{self._path / name}, line {line}: {words}{cut}; left out")

    def _unchained(self, name: str, file: Any) -> Iterator[tuple[int, bytes]]:
        """All whole lines: what an older version wrote."""
        line, left = 1, b""
        while data := file.read(_PIECE):
            whole, newline, rest = data.rpartition(b"\n")
            if not newline:
                left += data
                if len(left) > LONGEST_PIECE:
                    raise InputError(
                        f"{self._path / name}, line {line}: is larger than {LONGEST_PIECE:,} bytes",
                        WHOLE,
                    )
                continue
            piece, left = left + whole + newline, rest
            yield line, piece
            line += piece.count(b"\n")
        if left:
            self._findings.warn(
                f"{self._path / name}, line {line}: cut off in the middle; read up to line"
                f" {line - 1}"
            )
