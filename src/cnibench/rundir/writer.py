"""Writing a run directory: lines are only appended, each write goes to the disk, a crash loses at
most the sample in flight.

The lines of a sample are committed by its ``cell-finished`` event, which carries their hashes
(chain.py). What follows the last committed line when a run is resumed belongs to the
sample that was in flight, and is moved to NAME.orphan-N.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from cnibench.errors import InputError, MeasureError
from cnibench.model.cell import SCHEMA, Attestation, Cell, Sample
from cnibench.rundir.chain import CALIBRATED, RESUMED, STARTED, Segment, digest
from cnibench.rundir.files import FullError, RunFiles
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import (
    ATTESTATIONS,
    CALIBRATION,
    CROSS_CHECKS,
    EVENTS,
    LONGEST_DOCUMENT,
    PLAN,
    RAW,
    SAMPLES,
    Manifest,
    Record,
    coordinates,
    environment_file,
    now,
    raw_folder,
    record_file,
)
from cnibench.rundir.verification import verify
from cnibench.rundir.writing import raw_folders, resumption
from cnibench.rundir.writing.event_log import EventLog
from cnibench.system.files import read_beneath


class RunWriter:
    """One run directory, written by one process at a time (flock on events.jsonl). Use ``create``
    or ``resume``; a context manager.

    ``attempts`` is the last attempt at each (cell id, block), ``cross_checked`` are the ids of the
    cells that have a cross-check. Raises FullError when the disk is
    full, UsageError when another process writes this run.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.attempts: dict[tuple[str, int], int] = {}
        self.cross_checked: set[str] = set()
        self.files = RunFiles(path)
        self.log = EventLog(self.files)
        self._facts = b""
        self.files.lock()

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> RunWriter:
        """A new run directory. Raises InputError when it cannot be made."""
        try:
            path.mkdir(parents=True)
            (path / RAW).mkdir(mode=0o700)
        except FileExistsError:
            raise InputError(f"{path}: is there already", "give --folder another folder") from None
        except OSError as error:
            raise InputError(
                f"{path}: {error.strerror}", "give --folder a folder that can be written"
            ) from None
        writer = cls(path, manifest)
        try:
            writer.log.document(PLAN, _formatted(manifest))
            writer.log.begin()
        except BaseException:
            writer.close()
            raise
        return writer

    @classmethod
    def resume(cls, path: Path) -> RunWriter:
        """An existing run directory. What no event commits is moved aside; no file that is not the
        run's is opened.

        Raises InputError when the run is damaged, so that lines of different attempts would be
        mixed.
        """
        first = RunReader(path)
        resumption.check(path)
        if not os.path.lexists(path / EVENTS):  # a refused run gets none, and the lock makes it
            resumption.refuse(path, verify(first, raw=True))
        writer = cls(path, first.plan)
        try:
            reader = RunReader(path)  # nobody else writes any more
            problems = verify(reader, raw=True)
            if resumption.restore_newlines(writer.files, problems):
                reader = RunReader(path)
                problems = verify(reader, raw=True)
            resumption.refuse(path, problems)
            writer.manifest = reader.plan
            resumption.take_up(writer.files, writer.log, reader.chain, reader.plan.cells)
            writer.attempts = {key: one.attempt for key, one in reader.chain.latest.items()}
            checks = reader.chain.segments.get(record_file(CROSS_CHECKS), ())
            writer.cross_checked = {segment.cell for segment in checks}
        except BaseException:
            writer.close()
            raise
        return writer

    def narrow(self, manifest: Manifest) -> None:
        """Replaces the manifest by one with fewer profiles: what could be found out only where the
        run is carried out.

        The plan as it was stays in plan-1.json, that before a second time in plan-2.json.
        """
        with self.storing(self.path / PLAN):
            before = read_beneath(self.path, PLAN, LONGEST_DOCUMENT)
        number = 1
        while os.path.lexists(self.path / (earlier := f"plan-{number}.json")):
            number += 1
        self.log.document(earlier, before)
        self.manifest = manifest
        content = _formatted(manifest)
        self.log.announced("plan-narrowed", PLAN, content, **{earlier: digest(before)})

    def environment(self, facts: Record) -> None:
        """Writes env.json, whole each time more is known; in a later session env-N.json, so that
        the first one stays.
        """
        name = environment_file(self.sessions)
        content = _formatted({"schema": SCHEMA, **facts})
        if content == self._facts:
            return
        self.log.announced("environment", name, content)
        self._facts = content

    def calibration(self, facts: Record) -> None:
        """Writes calibration.json: what a finished run of ``cnibench calibrate`` found."""
        content = _formatted(facts)
        self.log.announced(CALIBRATED, CALIBRATION, content)

    def event(self, kind: str, **what: Any) -> None:
        """One line of events.jsonl."""
        self.log.event(kind, **what)
        if kind in (STARTED, RESUMED):
            self._facts = b""

    @property
    def sessions(self) -> int:
        """How many have begun."""
        return self.log.sessions

    def attestations(self, found: Iterable[Attestation]) -> None:
        lines = [
            {"schema": SCHEMA, "time": now(), **msgspec.structs.asdict(item)} for item in found
        ]
        segment = self._append(ATTESTATIONS, lines)
        self.event(
            "attested", passed=all(line["passed"] for line in lines), files={ATTESTATIONS: segment}
        )

    def finish(
        self,
        cell: Cell,
        block: int,
        samples: Sequence[Sample],
        records: Sequence[tuple[str, Record]] = (),
    ) -> None:
        """Everything that one cell gave in one block, committed together. Raises MeasureError
        before anything is written when a record has a key of the coordinates."""
        self.finish_all([(cell, samples, records)], block)

    def finish_all(
        self,
        given: Sequence[tuple[Cell, Sequence[Sample], Sequence[tuple[str, Record]]]],
        block: int,
    ) -> None:
        """The same for cells that were measured at the same time: all of them are committed, or
        none.
        """
        files: dict[str, list[list[Any]]] = {}
        for number, (cell, samples, records) in enumerate(given):
            attempt = self._attempt(cell, block)
            where = coordinates(cell, block, attempt)
            for name, record in records:
                if clash := where.keys() & record.keys():
                    raise MeasureError(
                        f"a record of '{name}' has the reserved keys {', '.join(sorted(clash))}",
                        "report this as a bug",
                    )
                files.setdefault(record_file(name), [[] for _ in given])[number].append(
                    {**where, **record}
                )
            counted = (
                samples
                if attempt == 1
                else [msgspec.structs.replace(sample, attempt=attempt) for sample in samples]
            )
            files.setdefault(SAMPLES, [[] for _ in given])[number].extend(counted)
        files[SAMPLES] = files.pop(
            SAMPLES
        )  # last: what is not there when the samples are has never been
        raw = [
            self.hashes(raw_folder(cell.id, block, self._attempt(cell, block)))
            for cell, _, _ in given
        ]
        committed: list[dict[str, Segment]] = [{} for _ in given]
        for name, lots in files.items():
            for number, segment in enumerate(self._append_all(name, lots)):
                if segment.lines:
                    committed[number][name] = segment
        events = []
        for number, (cell, samples, _) in enumerate(given):
            attempt = self._attempt(cell, block)
            status = next((sample.status for sample in samples if sample.status != "ok"), "ok")
            events.append(
                {
                    "event": "cell-finished",
                    "cell": cell.id,
                    "block": block,
                    "attempt": attempt,
                    "status": status,
                    "lines": len(samples),
                    **({"more": True} if number < len(given) - 1 else {}),
                    "files": committed[number],
                    "raw": raw[number],
                }
            )
        self.log.write(events)
        for cell, _, _ in given:
            self.attempts[cell.id, block] = self._attempt(cell, block)

    def raw(self, cell: Cell, block: int) -> Path:
        """A new, empty folder for the raw output; what an interrupted attempt left there is kept
        beside it.
        """
        return raw_folders.make(self.files, raw_folder(cell.id, block, self._attempt(cell, block)))

    def raw_of_check(self, cell: Cell, block: int) -> Path:
        """The same for the cross-check of a sample that is stored."""
        return raw_folders.make(self.files, self._folder_of_check(cell, block))

    def cross_check(self, cell: Cell, block: int, record: Record) -> None:
        """The record and the raw output of the cross-check of a sample that is stored."""
        attempt, folder = self.attempts[cell.id, block], self._folder_of_check(cell, block)
        raw = self.hashes(folder)
        name = record_file(CROSS_CHECKS)
        segment = self._append(name, [{**coordinates(cell, block, attempt), **record}])
        self.event(
            "cross-checked",
            cell=cell.id,
            block=block,
            attempt=attempt,
            files={name: segment},
            folder=folder,
            raw=raw,
        )
        self.cross_checked.add(cell.id)

    def _folder_of_check(self, cell: Cell, block: int) -> str:
        attempt = self.attempts[cell.id, block]
        return f"{raw_folder(cell.id, block, attempt)}.{CROSS_CHECKS}"

    def _attempt(self, cell: Cell, block: int) -> int:
        """The number of the attempt that is not finished yet."""
        return self.attempts.get((cell.id, block), 0) + 1

    def hashes(self, folder: str) -> dict[str, str]:
        """The SHA-256 of every regular file in raw/``folder``, by its name in it."""
        return raw_folders.hashes(self.files, folder)

    def room(self) -> None:
        """Raises FullError when the disk has no room for another sample."""
        self.files.room()

    def full(self) -> FullError:
        """The error for a full disk."""
        return self.files.full()

    def storing(self, path: Path) -> AbstractContextManager[None]:
        """What fails there ends the run with a FullError."""
        return self.files.storing(path)

    def close(self) -> None:
        """Ends the writing and frees the lock; may be called twice."""
        self.files.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _append(self, name: str, lines: Sequence[Any]) -> Segment:
        return self._append_all(name, [lines])[0]

    def _append_all(self, name: str, lots: Sequence[Sequence[Any]]) -> list[Segment]:
        """All lines of the lots by one write(2), then fsync(2); where each lot is then."""
        pieces = [b"".join(msgspec.json.encode(line) + b"\n" for line in lines) for lines in lots]
        if not self.files.is_open(name):
            # Of a sample in flight, the first that had such records, or not the run's at all.
            self.files.move_aside(name)
        at = self.files.sizes.get(name, 0)
        self.files.sizes[name] = self.files.append(name, b"".join(pieces))
        found = []
        for piece, lines in zip(pieces, lots, strict=True):
            found.append(Segment(at=at, bytes=len(piece), lines=len(lines), sha256=digest(piece)))
            at += len(piece)
        return found


def _formatted(content: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
