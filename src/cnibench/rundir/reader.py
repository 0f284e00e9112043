"""Reading a run directory: a copied one, a read-only one, one that a crash cut off, one that
somebody changed.

Figures are only ever made of lines that the chain of events vouches for; what is left out is named
in ``problems``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cnibench.errors import InputError
from cnibench.model.cell import SCHEMA, Attestation, Cell, Sample
from cnibench.rundir import recovery
from cnibench.rundir.chain import STARTED, Chain, Problem, Segment, digest
from cnibench.rundir.chain import read as read_chain
from cnibench.rundir.schema import (
    ATTESTATIONS,
    EVENTS,
    LONGEST_DOCUMENT,
    LONGEST_EVENTS,
    LONGEST_LINES,
    LONGEST_PIECE,
    LONGEST_RAW,
    PLAN,
    RAW,
    SAMPLES,
    Manifest,
    Record,
    check,
    environment_file,
    migrate,
    raw_folder,
    record_file,
)
from cnibench.system.files import open_beneath, read_beneath

STALLS = "stalls"  # the records of what stood still, one a sample
T = TypeVar("T")
_PIECE = 2 << 20  # bytes that are decoded together
_TAIL = 16 << 20  # bytes that a sample in flight may have written
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)
_WHOLE = "take the file from a complete copy of the run"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")  # of a record file


class RunReader:
    """One run directory; nothing is written, no link in it is followed, nothing but regular files
    is opened.

    ``warnings`` tells what is usual in a run that was cut off or is of an older version.
    ``problems`` names what is lost, changed, doubled, out of order or not chained in the files that
    were read so far; ``verify`` reads all of them.

    Raises InputError when it is no run directory or was written by a newer version.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.warnings: list[str] = []
        self.problems: list[Problem] = []
        self.complete: set[str] = set()  # files that were read to their end, and so verified
        self.whole: set[str] = set()  # files of which every line was decoded
        if not self.path.is_dir():
            raise InputError(
                f"{self.path}: no such run directory", "'cnibench runs' lists the runs"
            )
        self._plan_bytes = self._bytes(PLAN)
        record = self._object(PLAN, self._plan_bytes)
        schema = record.get("schema")
        self._plan_schema = schema if isinstance(schema, int) else 0
        self.plan = self._converted(PLAN, record, Manifest)
        check(self.plan, str(self.path / PLAN))

    @property
    def id(self) -> str:
        return self.plan.id

    @property
    def environment(self) -> Record:
        """env.json, or that of a later session where the first one did not come to write it; empty
        when none did.
        """
        return next(iter(self.environments), {})

    @property
    def environments(self) -> list[Record]:
        """The environment of each session that recorded one: of the first, and of those that
        resumed the run.
        """
        names = [environment_file(number) for number in range(1, max(1, self.chain.sessions) + 1)]
        return [facts for name in names if (facts := self._facts(name))]

    @property
    def started(self) -> str:
        """RFC 3339; when the run was planned if it never started."""
        return next(
            (event.time for event in self.chain.events if event.event == STARTED), self.plan.created
        )

    @property
    def finished(self) -> str:
        """RFC 3339; '' while cells are missing."""
        return self.chain.finished

    @cached_property
    def chain(self) -> Chain:
        """events.jsonl, and what it commits."""
        try:
            data = read_beneath(self.path, EVENTS, LONGEST_EVENTS)
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise InputError(
                f"{self.path / EVENTS}: {error.strerror}", "check the path and its permissions"
            ) from None
        self._events_read = len(data)
        found = read_chain(data, EVENTS, self._plan_schema)
        if found.whole < len(data):
            if found.finished:
                self._tell(
                    Problem(
                        kind="not chained",
                        file=EVENTS,
                        line=found.count + 1,
                        detail="the line is incomplete",
                    )
                )
            else:
                self._warn(
                    f"{self.path / EVENTS}, line {found.count + 1}: cut off in the middle; read up"
                    f" to line {found.count}"
                )
        for problem in found.problems:
            self._tell(problem)
        if not found.chained:
            self._warn(
                f"{self.path}: written before cnibench chained its files: what is lost or changed"
                " in it is not noticed"
            )
        return found

    def samples(self) -> Iterator[Sample]:
        """Every sample in order, failed ones too, of the last attempt at each cell in each
        block.
        """
        for lines in self.decoded(SAMPLES, Sample):
            yield from lines

    def attestations(self) -> list[Attestation]:
        """Every check in the order of time; a resumed run attests again, so one check may be there
        more than once.
        """
        return [item for lines in self.decoded(ATTESTATIONS, Attestation) for item in lines]

    def events(self) -> list[Record]:
        """{schema, time, event, ...} in the order of time."""
        return [msgspec.json.decode(line) for line in self.chain.lines]

    def records(self, name: str) -> Iterator[Record]:
        """The records of NAME.jsonl (cpp, sizes, ...), each with the coordinates of its sample;
        none when there is no such file.

        Those of disturbed samples are left out; what is stored of the disturbances themselves,
        ``stalls``, is complete. One with coordinates of a wrong type is left out, too, with a
        warning.
        """
        for lines in self.decoded(record_file(name), dict[str, Any]):
            for line in lines:
                if name != STALLS and line.get("disturbed"):
                    continue
                try:
                    msgspec.convert(line, _Coordinates)
                except msgspec.ValidationError as error:
                    words = f"a record of {record_file(name)} is left out: {error}"
                    if words not in self.warnings:
                        self.warnings.append(words)
                    continue
                yield line

    def record_names(self) -> list[str]:
        """The record files that this run has."""
        files = (
            self.chain.segments
            if self.chain.chained
            else [file.name for file in self.path.glob("*.jsonl") if _NAME.fullmatch(file.stem)]
        )
        return sorted(
            name.removesuffix(".jsonl")
            for name in files
            if name not in (SAMPLES, ATTESTATIONS, EVENTS)
        )

    def files(self) -> list[str]:
        """All files of lines that the events commit, and those that every run has; where nothing
        commits any, all that are there.
        """
        others = () if self.chain.chained else map(record_file, self.record_names())
        return sorted({SAMPLES, ATTESTATIONS, *self.chain.segments, *others} - {EVENTS})

    def raw(self, cell: Cell | str, block: int) -> Path:
        """The folder with the raw output of that sample."""
        identity = cell if isinstance(cell, str) else cell.id
        last = self.chain.latest.get((identity, block))
        return self.path / RAW / raw_folder(identity, block, last.attempt if last else 1)

    def raw_bytes(self, cell: Cell | str, block: int, name: str) -> bytes:
        """A raw file of that sample. Raises InputError when it is not there; one that was changed
        is told in ``problems``.
        """
        identity = cell if isinstance(cell, str) else cell.id
        last = self.chain.latest.get((identity, block))
        folder = f"{RAW}/{raw_folder(identity, block, last.attempt if last else 1)}"
        file = f"{folder}/{name}"
        known = last.raw.get(name) if last else None
        try:
            data = read_beneath(self.path, file, LONGEST_RAW)
        except OSError as error:
            if known:
                self._tell(
                    Problem(
                        kind="lost",
                        file=file,
                        detail="the raw file is missing",
                        cell=identity,
                        block=block,
                    )
                )
            raise InputError(
                f"{self.path / file}: {error.strerror}", "this needs the run's raw folder"
            ) from None
        if self.chain.chained and digest(data) != known:
            self._tell(
                Problem(
                    kind="changed",
                    file=file,
                    detail="it is not what was recorded",
                    cell=identity,
                    block=block,
                )
            )
            raise InputError(
                f"{self.path / file}: is not what was recorded",
                "'cnibench verify' names all that is wrong",
            )
        return data

    def done(self, *, retry_failed: bool = False) -> set[tuple[str, int]]:
        """(cell id, block) of all that is finished: what a resumed run leaves out.
        ``retry_failed``: without what failed.
        """
        known = self.chain.latest
        found = {key for key, event in known.items() if event.sha256}
        for _ in self.pieces(SAMPLES):
            pass
        damaged = [problem for problem in self.problems if problem.file == SAMPLES]
        found -= {(problem.cell, problem.block) for problem in damaged}
        if len(found) < len(known):
            found |= self._done_before_the_chain()
        if retry_failed:
            found -= {
                key
                for key, event in self.chain.latest.items()
                if event.status in ("failed", "timeout")
            }
        return found

    def pieces(self, name: str) -> Iterator[tuple[int, bytes]]:
        """(number of the first line, whole lines) of all lines of the file that the chain vouches
        for.
        """
        try:
            descriptor = open_beneath(self.path, name)
        except FileNotFoundError:
            if self.chain.segments.get(name):
                self._tell(Problem(kind="lost", file=name, detail="the file is missing"))
            return
        except OSError as error:
            raise InputError(
                f"{self.path / name}: {error.strerror}", "check the path and its permissions"
            ) from None
        with open(descriptor, "rb", buffering=1 << 18) as file:
            if os.fstat(descriptor).st_size > LONGEST_LINES:
                raise InputError(
                    f"{self.path / name}: is larger than {LONGEST_LINES:,} bytes",
                    "is this really a run directory?",
                )
            try:
                yield from (
                    self._chained(name, file) if self.chain.chained else self._unchained(name, file)
                )
                self.complete.add(name)
            except OSError as error:
                raise InputError(
                    f"{self.path / name}: {error.strerror}", "check the disk, or take another copy"
                ) from None

    def decoded(self, name: str, kind: type[T]) -> Iterator[list[T]]:
        """The lines of the file, some megabytes at a time. Raises InputError for lines of a newer
        version.
        """
        for first, data, lines in self._decodable(name, kind):
            yield list(self._one_by_one(name, first, data, kind)) if lines is None else lines

    def readable(self, name: str, kind: type[Any]) -> Iterator[tuple[int, bytes]]:
        """The same lines as ``decoded`` gives, as bytes."""
        for first, data, lines in self._decodable(name, kind):
            if lines is None:
                whole = (
                    msgspec.json.encode(line) + b"\n"
                    for line in self._one_by_one(name, first, data, kind)
                )
                yield first, b"".join(whole)
            else:
                yield first, data

    def _decodable(self, name: str, kind: type[T]) -> Iterator[tuple[int, bytes, list[T] | None]]:
        """(first line, bytes, decoded lines) of each piece; None where not all of its lines are as
        they should be.
        """
        decoder = msgspec.json.Decoder(kind)
        has_schema = "schema" in getattr(kind, "__struct_fields__", ())
        versions = decoder if has_schema else msgspec.json.Decoder(_Version)
        for first, data in self.pieces(name):
            lines: list[T] = []
            try:  # the usual case: a whole buffer at once
                lines = decoder.decode_lines(data)
                told: list[Any] = lines if has_schema else versions.decode_lines(data)
                # Version 2 only adds fields, so that lines of version 1 are decoded as they are.
                usual = all(1 <= one.schema <= self._newest for one in told)
            except _UNREADABLE:
                usual = False
            yield first, data, lines if usual else None
        self.whole.add(name)

    def grows(self) -> bool:
        """Has a live run written events since ours were read? Then more is there than they commit,
        and a warning says so.
        """
        try:
            size = os.stat(self.path / EVENTS, follow_symlinks=False).st_size
        except OSError:
            return False
        if size <= self._events_read:
            return False
        self._warn(f"{self.path}: the run goes on; this is what it had measured when it was read")
        return True

    def verify_document(self, name: str, expected: list[str]) -> None:
        """Tells when a file that is written as a whole is not one of those that the events name
        ('': it may be missing).
        """
        try:
            found = digest(
                self._plan_bytes
                if name == PLAN
                else read_beneath(self.path, name, LONGEST_DOCUMENT)
            )
        except FileNotFoundError:
            found = ""
        except OSError as error:
            raise InputError(
                f"{self.path / name}: {error.strerror}", "check the path and its permissions"
            ) from None
        if found not in expected and not self.grows():
            words = "it is not what was written" if found else "the file is missing"
            self._tell(Problem(kind="changed" if found else "lost", file=name, detail=words))

    def tell(self, problem: Problem) -> None:
        """Adds a problem, once."""
        self._tell(problem)

    def _chained(self, name: str, file: Any) -> Iterator[tuple[int, bytes]]:
        known = self.chain
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
            segments, data, first, name, open_end=not self.chain.finished
        )
        for problem in problems:
            self._tell(problem)
        for line, piece, segment in found:
            if self.chain.superseded(segment):
                continue
            if not segment.cell and name != ATTESTATIONS:
                yield from self._of_old_version(line, piece)
            else:
                yield line, piece

    def _of_old_version(self, first: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Lines from before the chain, without those of samples that were measured again since."""
        for number, line in enumerate(data.splitlines(keepends=True), first):
            where = recovery.place(line)
            last = None if where is None else self.chain.latest.get((where.cell, where.block))
            if last is None or not last.sha256:
                yield number, line

    def _tail(self, name: str, tail: bytes, line: int) -> None:
        """What stands behind the last committed line: a sample in flight, or lines whose events are
        lost.
        """
        if name not in self.chain.segments and name not in (SAMPLES, ATTESTATIONS):
            return  # a file that this run has never committed a line of is not its own
        lines = tail.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if self.grows():
            return
        if self.chain.finished:
            words = "no event commits these lines; they are left out"
            self._tell(
                Problem(
                    kind="not chained",
                    file=name,
                    line=line,
                    last=line + len(lines) - 1,
                    detail=words,
                )
            )
        elif len(tail) > _TAIL or not self.chain.count or not recovery.in_flight(lines):
            words = (
                f"{name} has {len(lines)} lines of several samples that no event commits; they are"
                " left out"
            )
            self._tell(Problem(kind="lost", file=EVENTS, line=self.chain.count + 1, detail=words))
        else:
            cut = "" if tail.endswith(b"\n") else ", cut off in the middle"
            words = "of a sample that was being written when the run ended"
            self._warn(f"{self.path / name}, line {line}: {words}{cut}; left out")

    def _unchained(self, name: str, file: Any) -> Iterator[tuple[int, bytes]]:
        """All whole lines: what an older version wrote."""
        line, left = 1, b""
        while data := file.read(_PIECE):
            whole, newline, rest = data.rpartition(b"\n")
            if not newline:
                left += data
                if len(left) > LONGEST_PIECE:
                    raise InputError(
                        f"{self.path / name}, line {line}: is larger than {LONGEST_PIECE:,} bytes",
                        _WHOLE,
                    )
                continue
            piece, left = left + whole + newline, rest
            yield line, piece
            line += piece.count(b"\n")
        if left:
            self._warn(
                f"{self.path / name}, line {line}: cut off in the middle; read up to line"
                f" {line - 1}"
            )

    def _one_by_one(self, name: str, first: int, data: bytes, kind: type[T]) -> Iterator[T]:
        """A piece with a line that cannot be decoded like the others: one that is broken is left
        out and told.
        """
        for number, line in enumerate(data.split(b"\n")[:-1], first):
            try:
                record = msgspec.json.decode(line, type=dict[str, Any])
                version = record.get("schema")
                if isinstance(version, int) and self._newest < version <= SCHEMA:
                    self._tell(
                        Problem(
                            kind="not chained",
                            file=name,
                            line=number,
                            detail="its events are missing",
                        )
                    )
                    continue
                migrated = migrate(f"{self.path / name}, line {number}", record)
                yield msgspec.json.decode(msgspec.json.encode(migrated), type=kind)
            except _UNREADABLE as error:
                self._tell(
                    Problem(
                        kind="changed",
                        file=name,
                        line=number,
                        detail=f"left out, it cannot be read: {error}",
                    )
                )

    def _done_before_the_chain(self) -> set[tuple[str, int]]:
        """An older version committed samples by the number of their lines."""
        lines: dict[tuple[str, int], int] = {}
        for places in self.decoded(SAMPLES, _Place):
            for place in places:
                lines[place.cell, place.block] = lines.get((place.cell, place.block), 0) + 1
        old = {key: event.lines for key, event in self.chain.latest.items() if not event.sha256}
        return {key for key, wanted in old.items() if lines.get(key, 0) >= wanted}

    def _facts(self, name: str) -> Record:
        try:
            data = self._bytes(name)
        except _Missing:
            return {}
        return self._converted(name, self._object(name, data), dict[str, Any])

    def _bytes(self, name: str) -> bytes:
        path = self.path / name
        try:
            return read_beneath(self.path, name, LONGEST_DOCUMENT)
        except FileNotFoundError:
            raise _Missing(
                f"{self.path}: not a run directory, there is no {name} in it",
                "'cnibench runs' lists the runs",
            ) from None
        except OSError as error:
            raise InputError(
                f"{path}: {error.strerror}", "check the path and its permissions"
            ) from None

    def _object(self, name: str, data: bytes) -> Record:
        path = self.path / name
        try:
            record = msgspec.json.decode(data)
        except _UNREADABLE as error:
            raise InputError(f"{path}: not JSON: {error}", _WHOLE) from None
        if not isinstance(record, dict):
            raise InputError(f"{path}: expected an object", "is this a run directory of cnibench?")
        return record

    def _converted(self, name: str, record: Record, kind: type[T]) -> T:
        try:
            return msgspec.convert(migrate(str(self.path / name), record), kind)
        except _UNREADABLE as error:
            raise InputError(f"{self.path / name}: {error}", _WHOLE) from None

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _tell(self, problem: Problem) -> None:
        if problem not in self._told:
            self._told.add(problem)
            self.problems.append(problem)

    @property
    def _newest(self) -> int:
        """The newest version that a line of this run may have."""
        return SCHEMA if self.chain.chained else 1

    @cached_property
    def _told(self) -> set[Problem]:
        return set()


class _Missing(InputError):
    """A document is not there."""


class _Coordinates(msgspec.Struct, gc=False):
    """What a record says about where it belongs, as far as it says it."""

    cell: str = ""
    block: int = 0
    profile: str = ""
    label: str = ""
    placement: str = ""
    path: str = ""
    workload: str = ""
    params: dict[str, Any] = {}
    ip: int = 4
    mtu: int = 0
    cpus: str = ""
    pair: int = 0
    window: str = ""


class _Version(msgspec.Struct):
    schema: int


class _Place(msgspec.Struct, frozen=True, gc=False):
    """As much of a Sample as says where it belongs."""

    schema: int
    cell: str
    block: int
