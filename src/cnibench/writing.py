"""Writing a run directory: lines are only appended, each write goes to the disk, a crash loses at most the sample in flight.

All lines of one cell in one block are committed by a ``cell-finished`` event, which carries the sizes that the files have then. What
stands behind the last committed size when a run is taken up again belongs to the sample that was in flight, and is cut away.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from cnibench.cell import SCHEMA, Attestation, Cell, Sample
from cnibench.errors import InputError, MeasureError, UsageError
from cnibench.layout import ATTESTATIONS, ENVIRONMENT, EVENTS, PLAN, RAW, SAMPLES, Manifest, Record, coordinates, now, record_file
from cnibench.reading import RunReader

_ROOM = 64 * 1024  # bytes


class FullError(MeasureError):
    """The run directory cannot be written any more; what is finished is kept, the run can be resumed."""


class RunWriter:
    """One run directory, written by one process at a time (flock on events.jsonl). Use ``create`` or ``resume``; a context manager.

    Raises FullError when the disk is full, UsageError when another process writes this run.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._open: dict[str, int] = {}
        self._lock()

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> RunWriter:
        """A new run directory. Raises InputError when it cannot be made."""
        try:
            path.mkdir(parents=True)
            (path / RAW).mkdir(mode=0o700)
        except FileExistsError:
            raise InputError(f"{path}: is there already", "give --out another folder") from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}", "give --out a folder that can be written") from None
        writer = cls(path, manifest)
        writer._document(PLAN, manifest)
        return writer

    @classmethod
    def resume(cls, path: Path) -> RunWriter:
        """An existing run directory, cut back to the last finished sample. Raises InputError."""
        reader = RunReader(path)
        if not os.access(path, os.W_OK):
            raise InputError(f"{path}: is read-only", "copy the run to a folder that can be written, and resume the copy")
        writer = cls(path, reader.plan)
        writer._cut_back(reader)
        return writer

    def narrow(self, manifest: Manifest) -> None:
        """Replaces the manifest by one with fewer profiles: what could be found out only where the run is carried out."""
        self.manifest = manifest
        self._document(PLAN, manifest)

    def environment(self, facts: Record) -> None:
        """Writes env.json; written again when more is known, always whole."""
        self._document(ENVIRONMENT, {"schema": SCHEMA, **facts})

    def event(self, kind: str, **what: Any) -> None:
        """One line of events.jsonl."""
        self._append(EVENTS, [{"schema": SCHEMA, "time": now(), "event": kind, **what}])

    def attestations(self, found: Iterable[Attestation]) -> None:
        lines = [{"schema": SCHEMA, "time": now(), **msgspec.structs.asdict(item)} for item in found]
        self._append(ATTESTATIONS, lines)
        self.event("attested", passed=all(line["passed"] for line in lines), sizes=self._sizes())

    def finish(self, cell: Cell, block: int, samples: Sequence[Sample], records: Sequence[tuple[str, Record]] = ()) -> None:
        """Everything that one cell gave in one block, committed together. Raises MeasureError before anything is written when a record
        has a key of the coordinates."""
        self.finish_all([(cell, samples, records)], block)

    def finish_all(self, given: Sequence[tuple[Cell, Sequence[Sample], Sequence[tuple[str, Record]]]], block: int) -> None:
        """The same for cells that were measured at the same time: all of them are committed, or none."""
        files: dict[str, list[Any]] = {}
        for cell, _, records in given:
            where = coordinates(cell, block)
            for name, record in records:
                if clash := where.keys() & record.keys():
                    raise MeasureError(f"a record of '{name}' has the reserved keys {', '.join(sorted(clash))}", "report this as a defect")
                files.setdefault(record_file(name), []).append({**where, **record})
        for file, lines in files.items():
            self._append(file, lines)
        self._append(SAMPLES, [sample for _, samples, _ in given for sample in samples])
        sizes, time = self._sizes(), now()
        events = []
        for cell, samples, _ in given:
            status = next((sample.status for sample in samples if sample.status != "ok"), "ok")
            told = {"cell": cell.id, "block": block, "status": status, "lines": len(samples), "sizes": sizes}
            events.append({"schema": SCHEMA, "time": time, "event": "cell-finished", **told})
        self._append(EVENTS, events)

    def raw(self, cell: Cell, block: int) -> Path:
        """A new, empty folder for the raw output; what an interrupted attempt left there is kept beside it."""
        folder = self.path / RAW / cell.id / str(block)
        self.room()
        try:
            if folder.exists():
                number = 1
                while (aside := folder.with_name(f"{block}.interrupted-{number}")).exists():
                    number += 1
                folder.rename(aside)
            folder.mkdir(parents=True)
        except OSError as error:
            raise self._failed(folder, error) from None
        return folder

    def room(self) -> None:
        """Raises FullError when the disk has no room for another sample: tools whose output is cut off there say so in many ways."""
        left = os.statvfs(self.path)
        if left.f_bavail * left.f_frsize < _ROOM:
            raise self.full()

    def full(self) -> FullError:
        """The error for a full disk."""
        return FullError(
            f"{self.path}: the disk is full; the run ends, every finished sample is kept",
            f"make room, then: cnibench run --resume {self.path}",
        )

    def close(self) -> None:
        """Ends the writing and frees the lock; may be called twice."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor(EVENTS), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(f"{self.path}: another cnibench writes this run", "wait for it, or end it with Ctrl-C") from None

    def _descriptor(self, name: str) -> int:
        if name not in self._open:
            try:
                self._open[name] = os.open(self.path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise self._failed(self.path / name, error) from None
        return self._open[name]

    def _append(self, name: str, lines: Sequence[Any]) -> None:
        """All ``lines`` by one write(2), then fsync(2); when the disk takes only a part of them, none of them stays."""
        data = memoryview(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        descriptor = self._descriptor(name)
        before = os.fstat(descriptor).st_size
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        except OSError as error:
            with suppress(OSError):  # what stays is behind the last committed size: a resumed run cuts it away
                os.ftruncate(descriptor, before)
            raise self._failed(self.path / name, error) from None

    def _document(self, name: str, content: Any) -> None:
        """A whole file at once: it is either the old or the new one, whatever happens meanwhile."""
        draft = self.path / f".{name}.new"
        try:
            with draft.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path / name)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise self._failed(self.path / name, error) from None

    def _sizes(self) -> dict[str, int]:
        return {name: os.fstat(descriptor).st_size for name, descriptor in self._open.items() if name != EVENTS}

    def _cut_back(self, reader: RunReader) -> None:
        """To the last committed sizes, and every file to whole lines."""
        committed: dict[str, int] = {}
        for event in reader.events():
            committed.update(event.get("sizes", {}))
        for file in self.path.glob("*.jsonl"):
            limit = file.stat().st_size if file.name == EVENTS else committed.get(file.name, 0)
            whole = file.read_bytes()[:limit].rfind(b"\n") + 1
            if whole < file.stat().st_size:
                os.truncate(file, whole)

    def _failed(self, path: Path, error: OSError) -> FullError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return self.full()
        return FullError(f"{path}: {error.strerror}; the run ends", f"mend that, then: cnibench run --resume {self.path}")
