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
from cnibench.model.cell import Attestation, Cell, Sample
from cnibench.rundir.chain import STARTED, Chain, Problem
from cnibench.rundir.chain import read as read_chain
from cnibench.rundir.reading import documents, raw_output
from cnibench.rundir.reading.committed_lines import CommittedLines
from cnibench.rundir.reading.completion import finished_samples
from cnibench.rundir.reading.decoded_lines import DecodedLines
from cnibench.rundir.reading.findings import Findings
from cnibench.rundir.schema import (
    ATTESTATIONS,
    EVENTS,
    LONGEST_EVENTS,
    PLAN,
    RAW,
    SAMPLES,
    SEAL,
    Manifest,
    Record,
    check,
    environment_file,
    raw_folder,
    record_file,
)
from cnibench.system.files import read_beneath

STALLS = "stalls"  # the records of what stood still, one a sample
T = TypeVar("T")
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
        self.findings = Findings()
        if not self.path.is_dir():
            raise InputError(
                f"{self.path}: no such run directory", "'cnibench runs' lists the runs"
            )
        self.plan_bytes = documents.content(self.path, PLAN)
        record = documents.decoded(self.path / PLAN, self.plan_bytes)
        schema = record.get("schema")
        self._plan_schema = schema if isinstance(schema, int) else 0
        self.plan = documents.converted(self.path / PLAN, record, Manifest)
        check(self.plan, str(self.path / PLAN))

    @property
    def warnings(self) -> list[str]:
        return self.findings.warnings

    @property
    def problems(self) -> list[Problem]:
        return self.findings.problems

    @cached_property
    def lines(self) -> CommittedLines:
        """The lines of all files that the chain vouches for."""
        return CommittedLines(self.path, self.chain, self.findings, self.grows)

    @cached_property
    def _decoded(self) -> DecodedLines:
        return DecodedLines(self.path, self.chain, self.findings, self.lines)

    @property
    def whole(self) -> set[str]:
        """The files of which every line was decoded."""
        return self._decoded.whole

    def decoded(self, name: str, kind: type[T]) -> Iterator[list[T]]:
        """The lines of the file, some megabytes at a time. Raises InputError for lines of a newer
        version.
        """
        return self._decoded.decoded(name, kind)

    def readable(self, name: str, kind: type[Any]) -> Iterator[tuple[int, bytes]]:
        """The same lines as ``decoded`` gives, as bytes."""
        return self._decoded.readable(name, kind)

    def done(self, *, retry_failed: bool = False) -> set[tuple[str, int]]:
        """(cell id, block) of all that is finished: what a resumed run leaves out.
        ``retry_failed``: without what failed.
        """
        found = finished_samples(self.chain, self.lines, self._decoded, self.findings)
        if retry_failed:
            events = self.chain.latest.items()
            found -= {key for key, event in events if event.status in ("failed", "timeout")}
        return found

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
        return [
            facts for name in self.environment_files if (facts := documents.facts(self.path, name))
        ]

    @property
    def environment_files(self) -> list[str]:
        """The names of these documents, one a session; some may not be there."""
        return [environment_file(number) for number in range(1, max(1, self.chain.sessions) + 1)]

    @property
    def installed(self) -> Record:
        """By label, the SHA-256 of what its CNI was installed from and runs; of all sessions, the
        first one's word before later ones.
        """
        found: Record = {}
        for facts in reversed(self.environments):
            said = facts.get("installed")
            found |= said if isinstance(said, dict) else {}
        return found

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

    @property
    def unsealed(self) -> bool:
        """Did it finish, and is seal.json missing?"""
        return bool(self.chain.sealed) and not os.path.lexists(self.path / SEAL)

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
                self.findings.add(
                    Problem(
                        kind="not chained",
                        file=EVENTS,
                        line=found.count + 1,
                        detail="the line is incomplete",
                    )
                )
            else:
                self.findings.warn(
                    f"{self.path / EVENTS}, line {found.count + 1}: cut off in the middle; read up"
                    f" to line {found.count}"
                )
        for problem in found.problems:
            self.findings.add(problem)
        if not found.chained:
            self.findings.warn(
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
        is reported in ``problems``.
        """
        identity = cell if isinstance(cell, str) else cell.id
        return raw_output.content(self.path, self.chain, self.findings, identity, block, name)

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
        self.findings.warn(
            f"{self.path}: the run is still in progress; later samples are not included"
        )
        return True


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
