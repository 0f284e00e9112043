"""Writing a run directory: lines are only appended, each write goes to the disk, a crash loses at
most the sample in flight.

The lines of a sample are committed by its ``cell-finished`` event, which carries their hashes
(chain.py). What stands behind the last committed line when a run is taken up again belongs to the
sample that was in flight, and is moved to NAME.orphan-N.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from cnibench.errors import InputError, MeasureError, UsageError
from cnibench.model.cell import SCHEMA, Attestation, Cell, Sample
from cnibench.rundir.chain import (
    ADOPTED,
    CALIBRATED,
    CREATED,
    FINISHED,
    RESUMED,
    STARTED,
    Chain,
    Segment,
    digest,
    link,
)
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import (
    ATTESTATIONS,
    CALIBRATION,
    ENVIRONMENT,
    EVENTS,
    LOG,
    LONGEST_DOCUMENT,
    PLAN,
    RAW,
    SAMPLES,
    SEAL,
    Manifest,
    Record,
    coordinates,
    environment_file,
    now,
    raw_folder,
    record_file,
)
from cnibench.rundir.verification import verify
from cnibench.system.files import make_beneath, open_beneath, read_beneath, replace_beneath

_log = logging.getLogger(__name__)
_ROOM = 64 * 1024  # bytes
_CHUNK = 1 << 20


class FullError(MeasureError):
    """The run directory cannot be written any more; what is finished is kept, the run can be
    resumed.
    """


class RunWriter:
    """One run directory, written by one process at a time (flock on events.jsonl). Use ``create``
    or ``resume``; a context manager.

    ``attempts`` is the last attempt at each (cell id, block). Raises FullError when the disk is
    full, UsageError when another process writes this run.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.attempts: dict[tuple[str, int], int] = {}
        self.sessions = 0  # that have begun
        self._open: dict[str, int] = {}
        self._sizes: dict[str, int] = {EVENTS: 0}  # committed bytes
        self._last = ""  # hash of the last event
        self._count = 0  # lines of events.jsonl
        self._facts = b""
        self._promised: dict[str, str] = {}  # documents that an event names, not yet written
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
            raise InputError(
                f"{path}: {error.strerror}", "give --out a folder that can be written"
            ) from None
        writer = cls(path, manifest)
        try:
            writer._document(PLAN, _formatted(manifest))
            writer._begin()
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
        if not os.access(path, os.W_OK):
            raise InputError(
                f"{path}: is read-only",
                "copy the run to a folder that can be written, and resume the copy",
            )
        if not (path / EVENTS).exists() and not (path / EVENTS).is_symlink() and _has_lines(path):
            raise InputError(
                f"{path}: {EVENTS} is missing, so nothing says which samples are complete", _RESTORE
            )
        writer = cls(path, first.plan)
        try:
            reader = RunReader(path)  # nobody else writes any more
            if problems := verify(reader):
                more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
                raise InputError(
                    f"{path}: the run is damaged and cannot be resumed: {problems[0]}{more}",
                    _RESTORE,
                )
            writer.manifest = reader.plan
            writer._take_up(reader.chain)
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
        self._document(earlier, before)
        self.manifest = manifest
        content = _formatted(manifest)
        self.event("plan-narrowed", documents={earlier: digest(before), PLAN: digest(content)})
        self._promised = {PLAN: digest(content)}
        self._document(PLAN, content)

    def environment(self, facts: Record) -> None:
        """Writes env.json, whole each time more is known; in a later session env-N.json, so that
        the first one stays.
        """
        name = environment_file(self.sessions)
        content = _formatted({"schema": SCHEMA, **facts})
        if content == self._facts:
            return
        self.event("environment", documents={name: digest(content)})
        self._promised = {name: digest(content)}
        self._document(name, content)
        self._facts = content

    def calibration(self, facts: Record) -> None:
        """Writes calibration.json: what a finished run of ``cnibench calibrate`` found."""
        content = _formatted(facts)
        self.event(CALIBRATED, documents={CALIBRATION: digest(content)})
        self._promised = {CALIBRATION: digest(content)}
        self._document(CALIBRATION, content)

    def event(self, kind: str, **what: Any) -> None:
        """One line of events.jsonl."""
        told = {name: value for name, value in what.items() if name not in _BULKY}
        _log.info("event %s%s", kind, "".join(f" {name}={told[name]}" for name in told))
        self._events([{"event": kind, **what}])
        if kind in (STARTED, RESUMED):
            self.sessions += 1
            self._facts = b""
        elif kind in (FINISHED, CALIBRATED):
            seal = {"schema": SCHEMA, "lines": self._count, "sha256": self._last}
            self._document(SEAL, msgspec.json.encode(seal) + b"\n")

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
            attempt = self.attempts.get((cell.id, block), 0) + 1
            where = coordinates(cell, block, attempt)
            for name, record in records:
                if clash := where.keys() & record.keys():
                    raise MeasureError(
                        f"a record of '{name}' has the reserved keys {', '.join(sorted(clash))}",
                        "report this as a defect",
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
            self.hashes(raw_folder(cell.id, block, self.attempts.get((cell.id, block), 0) + 1))
            for cell, _, _ in given
        ]
        committed: list[dict[str, Segment]] = [{} for _ in given]
        for name, lots in files.items():
            for number, segment in enumerate(self._append_all(name, lots)):
                if segment.lines:
                    committed[number][name] = segment
        events = []
        for number, (cell, samples, _) in enumerate(given):
            attempt = self.attempts.get((cell.id, block), 0) + 1
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
        self._events(events)
        for cell, _, _ in given:
            self.attempts[cell.id, block] = self.attempts.get((cell.id, block), 0) + 1

    def raw(self, cell: Cell, block: int) -> Path:
        """A new, empty folder for the raw output; what an interrupted attempt left there is kept
        beside it.
        """
        name = raw_folder(cell.id, block, self.attempts.get((cell.id, block), 0) + 1).rpartition(
            "/"
        )[2]
        folder = self.path / RAW / cell.id / name
        self.room()
        try:
            at = make_beneath(self.path, Path(RAW) / cell.id)
            try:
                if _there(at, name):
                    number = 1
                    while _there(at, aside := f"{name}.interrupted-{number}"):
                        number += 1
                    os.rename(name, aside, src_dir_fd=at, dst_dir_fd=at)
                os.mkdir(name, dir_fd=at)
            finally:
                os.close(at)
        except OSError as error:
            raise self._failed(folder, error) from None
        return folder

    def hashes(self, folder: str) -> dict[str, str]:
        """The SHA-256 of every regular file in raw/``folder``, by its name in it. The files are on
        the disk then: an event must not outlive what it vouches for.
        """
        found: dict[str, str] = {}
        with self.storing(self.path / RAW / folder):
            for name in sorted(_regular(self.path / RAW / folder)):
                with open(
                    open_beneath(self.path, f"{RAW}/{folder}/{name}"), "rb", buffering=0
                ) as file:
                    content = sha256()
                    while piece := file.read(_CHUNK):
                        content.update(piece)
                    os.fsync(file.fileno())
                found[name] = content.hexdigest()
            if found:
                for above in {Path(RAW, folder, name).parent for name in found}:
                    self._sync_folder(above)
                self._sync_folder(Path(RAW, folder).parent)
                self._sync_folder(Path(RAW))
        return found

    def room(self) -> None:
        """Raises FullError when the disk has no room for another sample: tools whose output is cut
        off there say so in many ways.
        """
        with self.storing(self.path):
            left = os.statvfs(self.path)
        if left.f_bavail * left.f_frsize < _ROOM:
            raise self.full()

    def full(self) -> FullError:
        """The error for a full disk."""
        return FullError(
            f"{self.path}: the disk is full; the run ends, every finished sample is kept",
            f"free disk space, then: cnibench run --resume {self.path}",
        )

    def close(self) -> None:
        """Ends the writing and frees the lock; may be called twice."""
        while self._open:
            with suppress(OSError):  # all that was written had to be on the disk at once
                os.close(self._open.popitem()[1])

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor(EVENTS), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"{self.path}: another cnibench writes this run",
                "wait for it, or end it with Ctrl-C",
            ) from None
        except FullError as error:
            raise InputError(
                error.message, "copy the run to a folder that can be written, and resume the copy"
            ) from None
        except OSError as error:
            self.close()
            raise InputError(
                f"{self.path / EVENTS}: it cannot be locked: {error.strerror}",
                "copy the run to a local disk",
            ) from None

    def _take_up(self, chain: Chain) -> None:
        """Goes on where the events end. The lines of a run of an older version are hashed as they
        are now.
        """
        self._last, self._count, self.sessions = chain.last, chain.kept_lines, chain.sessions
        self.attempts = {key: event.attempt for key, event in chain.latest.items()}
        for name, segments in chain.segments.items():
            self._sizes[name] = segments[-1].at + segments[-1].bytes
        self._sizes[EVENTS] = chain.kept if chain.chained else chain.whole
        self._promised = dict(chain.events[-1].documents) if chain.events else {}
        aside = {}
        if chain.chained:
            for name in self._sizes:
                self._descriptor(name)
            for name in self._sizes:
                if moved := self._set_aside(name):
                    aside[name] = moved
        else:
            aside = self._adopt(chain)
        if not self._count:
            self._begin()
        if aside:
            self.event("set-aside", orphans=aside)

    def _begin(self) -> None:
        """The first event: it follows the plan."""
        with self.storing(self.path / PLAN):
            self._last = digest(read_beneath(self.path, PLAN, LONGEST_DOCUMENT))
        self.event(CREATED, documents={PLAN: self._last})

    def _adopt(self, chain: Chain) -> dict[str, str]:
        """Begins a chain behind the lines of an older version. The old events say up to which size
        its files were complete.
        """
        sizes: dict[str, int] = {SAMPLES: 0}
        for line in chain.lines:
            told = msgspec.json.decode(line).get("sizes")
            sizes.update(
                {str(name): int(size) for name, size in told.items()}
                if isinstance(told, Mapping)
                else {}
            )
        self._sizes.update({name: size for name, size in sizes.items() if size})
        aside, files = {}, {}
        for name in [EVENTS, *(name for name in self._sizes if name != EVENTS)]:
            descriptor = self._descriptor(name)
            if os.fstat(descriptor).st_size < self._sizes[name]:
                raise InputError(f"{self.path / name}: has lost its end", _RESTORE)
            if moved := self._set_aside(name):
                aside[name] = moved
            with self.storing(self.path / name), open(open_beneath(self.path, name), "rb") as file:
                data = file.read()
            files[name] = Segment(
                at=0, bytes=len(data), lines=data.count(b"\n"), sha256=digest(data)
            )
        documents = {}
        for name in (PLAN, ENVIRONMENT, CALIBRATION):
            if found := self._found(name):
                documents[name] = found
        self._last = documents[PLAN]
        self.event(ADOPTED, files=files, documents=documents)
        return aside

    def _set_aside(self, name: str) -> str:
        """Moves what stands behind the committed lines to NAME.orphan-N; its name, '' when there is
        nothing.
        """
        descriptor, size = self._open[name], self._sizes.get(name, 0)
        if os.fstat(descriptor).st_size <= size:
            return ""
        number = 1
        while os.path.lexists(self.path / (orphan := f"{name}.orphan-{number}")):
            number += 1
        with self.storing(self.path / orphan):
            kept = open_beneath(self.path, orphan, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with open(open_beneath(self.path, name), "rb") as source, open(kept, "wb") as target:
                source.seek(size)
                while piece := source.read(_CHUNK):
                    target.write(piece)
                target.flush()
                os.fsync(target.fileno())
            self._sync_folder()
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        return orphan

    def _descriptor(self, name: str) -> int:
        if name not in self._open:
            with self.storing(self.path / name):
                self._open[name] = open_beneath(
                    self.path, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT
                )
            if os.fstat(self._open[name]).st_nlink > 1:
                raise InputError(
                    f"{self.path / name}: has another hard link, in a copy of the run perhaps, and"
                    " new lines would be in both",
                    "copy the run with 'cp -a', and resume the copy",
                )
        return self._open[name]

    def _events(self, records: Sequence[Record]) -> None:
        lines, time, last = [], now(), self._last
        if self._promised:  # what was not written when a writer ended is vouched for as it is
            found = {name: self._found(name) for name in self._promised}
            kept = {name: have for name, have in found.items() if have != self._promised[name]}
            if kept:
                first = {**records[0], "documents": {**kept, **records[0].get("documents", {})}}
                records = [first, *records[1:]]
        for record in records:
            line, last = link({"schema": SCHEMA, "time": time, **record}, last)
            lines.append(line + b"\n")
        size, count = self._write(EVENTS, b"".join(lines)), self._count + len(lines)
        # No call stands between these, so that no signal parts the size from the hash.
        self._sizes[EVENTS], self._last, self._count, self._promised = size, last, count, {}

    def _append(self, name: str, lines: Sequence[Any]) -> Segment:
        return self._append_all(name, [lines])[0]

    def _append_all(self, name: str, lots: Sequence[Sequence[Any]]) -> list[Segment]:
        """All lines of the lots by one write(2), then fsync(2); where each lot is then."""
        pieces = [b"".join(msgspec.json.encode(line) + b"\n" for line in lines) for lines in lots]
        if name not in self._open:
            self._descriptor(name)
            self._set_aside(name)  # of a sample in flight, the first that had such records
        at = self._sizes.get(name, 0)
        self._sizes[name] = self._write(name, b"".join(pieces))
        found = []
        for piece, lines in zip(pieces, lots, strict=True):
            found.append(Segment(at=at, bytes=len(piece), lines=len(lines), sha256=digest(piece)))
            at += len(piece)
        return found

    def _write(self, name: str, content: bytes) -> int:
        """The size of the file with it. When the disk takes only a part of it, none of it stays: it
        was not acknowledged.
        """
        data = memoryview(content)
        descriptor, before = self._descriptor(name), self._sizes.get(name, 0)
        try:
            if os.fstat(descriptor).st_size != before:
                raise FullError(
                    f"{self.path / name}: somebody else has changed it; the run ends",
                    f"cnibench verify {self.path}",
                )
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
            if not before:
                self._sync_folder()
        except OSError as error:
            with suppress(
                OSError
            ):  # what stays is behind the last committed line: a resumed run moves it aside
                os.ftruncate(descriptor, before)
            raise self._failed(self.path / name, error) from None
        return before + len(content)

    def _document(self, name: str, content: bytes) -> str:
        """A whole file at once: it is either the old or the new one, whatever happens meanwhile.
        Its hash.
        """
        with self.storing(self.path / name):
            replace_beneath(self.path, name, content)
        self._promised.pop(name, None)
        return digest(content)

    def _found(self, name: str) -> str:
        """The hash of a document as it is; '' when there is none."""
        with self.storing(self.path / name), suppress(FileNotFoundError):
            return digest(read_beneath(self.path, name, LONGEST_DOCUMENT))
        return ""

    def _sync_folder(self, below: Path = Path()) -> None:
        at = make_beneath(self.path, below) if below.parts else _opened(self.path)
        try:
            os.fsync(at)
        finally:
            os.close(at)

    @contextmanager
    def storing(self, path: Path) -> Iterator[None]:
        """What fails there ends the run with a FullError."""
        try:
            yield
        except OSError as error:
            raise self._failed(path, error) from None

    def _failed(self, path: Path, error: OSError) -> FullError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return self.full()
        return FullError(
            f"{path}: {error.strerror}; the run ends",
            f"fix that, then: cnibench run --resume {self.path}",
        )


_BULKY = ("files", "documents", "raw")  # hashes, which events.jsonl has


def open_log(path: Path) -> int:
    """A descriptor that appends to the log of the run directory ``path``. Only its owner may read
    it: it names machines and addresses.

    Raises FullError when it cannot be written, InputError when it is a link or no regular file.
    """
    try:
        return open_beneath(path, LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise FullError(
            f"{path / LOG}: {error.strerror}; the run ends",
            f"make it writable, then: cnibench run --resume {path}",
        ) from None


_RESTORE = (
    "restore it from a copy; 'cnibench verify' names all that is wrong, 'cnibench report' shows"
    " what is intact"
)


def _formatted(content: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _has_lines(path: Path) -> bool:
    try:
        return os.stat(path / SAMPLES, follow_symlinks=False).st_size > 0
    except OSError:
        return False


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _there(at: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _regular(folder: Path, below: str = "") -> Iterator[str]:
    """Names of the regular files in the folder and in those below it; links are left out."""
    try:
        entries = list(os.scandir(folder / below))
    except FileNotFoundError:
        return
    for entry in entries:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from _regular(folder, f"{below}{entry.name}/")
        elif stat.S_ISREG(mode):
            yield f"{below}{entry.name}"
