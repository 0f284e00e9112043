"""The chain of evidence over events.jsonl: each line names the hash of the line before and carries
its own.

The first line's ``before`` is the SHA-256 of plan.json. A line's own ``sha256`` is that of the line
up to this key, so that the last line is protected, too. Events that commit lines of other files
carry the place and the hash of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

import msgspec

from cnibench.errors import InputError
from cnibench.model.cell import SCHEMA
from cnibench.rundir.schema import EVENTS, is_below, is_document, is_lines

Kind = Literal["lost", "changed", "doubled", "out of order", "not chained"]
CREATED, ADOPTED = "run-created", "chain-started"  # the events that a chain begins with
FINISHED, STARTED, RESUMED = "run-finished", "run-started", "run-resumed"
CALIBRATED = "calibrated"
_KEY = b',"sha256":"'
_SUFFIX = len(_KEY) + 64 + 2


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a run directory. ``line`` is the first line that it concerns, 0 where it
    is the whole file.
    """

    kind: Kind
    file: str
    detail: str
    line: int = 0
    last: int = 0
    cell: str = ""
    block: int = -1

    def __str__(self) -> str:
        lines = (
            f", lines {self.line} to {self.last}"
            if self.last > self.line
            else f", line {self.line}"
            if self.line
            else ""
        )
        where = f" ({self.cell}, block {self.block})" if self.cell else ""
        return f"{self.file}{lines}{where}: {self.kind}: {self.detail}"


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A piece of a file that an event commits: ``lines`` whole lines, ``bytes`` long, that begin at
    the offset ``at``.
    """

    at: int
    bytes: int
    lines: int
    sha256: str
    cell: str = ""
    block: int = -1
    attempt: int = 1


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What verification needs of a line of events.jsonl. ``raw`` maps names in raw/``folder`` to
    their SHA-256.

    ``documents`` maps files that are written as a whole to the SHA-256 that they have from now on.
    ``more``: the next event commits samples that were measured at the same time; none of them
    counts without the last.
    """

    schema: int
    time: str
    event: str
    before: str = ""
    sha256: str = ""
    cell: str = ""
    block: int = -1
    attempt: int = 1
    status: str = ""
    lines: int = 0
    more: bool = False
    files: dict[str, Segment] = {}
    documents: dict[str, str] = {}
    folder: str = ""
    raw: dict[str, str] = {}


@dataclass
class Chain:
    """events.jsonl as it can be relied on. ``lines`` are the intact ones, ``events`` the same
    decoded.

    ``chained`` is False for a run of an older version. ``whole`` is the length of the file up to
    its last whole line,
    ``kept`` (in lines ``kept_lines``, with the hash ``last``) up to the last event of a complete
    group.
    """

    chained: bool = True
    lines: list[bytes] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    segments: dict[str, list[Segment]] = field(default_factory=dict)
    raw: dict[tuple[str, int], Event] = field(default_factory=dict)
    latest: dict[tuple[str, int], Event] = field(
        default_factory=dict
    )  # the last attempt of each sample
    finished: str = ""
    sessions: int = 0
    last: str = ""
    count: int = 0
    whole: int = 0
    kept: int = 0
    kept_lines: int = 0
    hashes: dict[int, str] = field(default_factory=dict)

    @property
    def sealed(self) -> int:
        """The number of the last event that a seal names; 0 when the run never finished."""
        return max(
            (
                number
                for number, event in enumerate(self.events, 1)
                if event.event in (FINISHED, CALIBRATED) and event.sha256
            ),
            default=0,
        )

    @property
    def again(self) -> int:
        """How many samples were measured more than once."""
        return sum(event.attempt > 1 for event in self.latest.values())

    def superseded(self, segment: Segment) -> bool:
        """A later attempt has taken the place of this one."""
        last = self.latest.get((segment.cell, segment.block))
        return bool(segment.cell) and last is not None and last.attempt > segment.attempt

    def documents(self) -> dict[str, list[str]]:
        """Each document with the hashes that it may have: one, or two when the run ended while it
        was being written.
        """
        found: dict[str, list[str]] = {}
        for number, event in enumerate(self.events):
            for name, digest in event.documents.items():
                last = number == len(self.events) - 1
                found[name] = [digest, *(found.get(name, [""])[:1] if last else [])]
        return found


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def link(record: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """The line of an event, without its newline, and its hash."""
    body = msgspec.json.encode({**record, "before": before})
    own = digest(body)
    return body[:-1] + _KEY + own.encode() + b'"}', own


def own_hash(line: bytes) -> str:
    """The hash that a line carries when it is the line's; '' when it has none or another."""
    if line[-_SUFFIX:-66] != _KEY:
        return ""
    found = sha256(line[:-_SUFFIX])
    found.update(b"}")
    own = found.hexdigest()
    return own if own.encode() == line[-66:-2] else ""


def read(data: bytes, file: str, plan_schema: int) -> Chain:
    """The chain in ``data``. Raises InputError for a newer schema."""
    chain = Chain(whole=data.rfind(b"\n") + 1)
    lines = data[: chain.whole].split(b"\n")[:-1]
    chain.count = len(lines)
    old = 0
    if plan_schema < 2:
        while old < len(lines) and not own_hash(lines[old]):
            old += 1
        chain.chained = old < len(lines)
    at = _adopt(chain, lines[:old], file)
    _follow(chain, lines[old:], old + 1, file, old)
    _interpret(chain, at, file)
    return chain


def _adopt(chain: Chain, lines: Iterable[bytes], file: str) -> int:
    """The events of an older version, which nothing chains; a broken line is left out and
    reported. The bytes that they take.
    """
    at = 0
    for number, line in enumerate(lines, 1):
        at += len(line) + 1
        event = _decode(chain, line, number, file)
        if event is not None:
            chain.lines.append(line)
            chain.events.append(event)
    return at


def _follow(chain: Chain, lines: list[bytes], first: int, file: str, old: int) -> None:
    owns = [own_hash(line) for line in lines]
    later = {own: number for number, own in enumerate(owns, first) if own}
    seen: set[str] = set()
    before = ""
    for number, (line, own) in enumerate(zip(lines, owns, strict=True), first):
        if not own:
            chain.problems.append(
                Problem(
                    kind="changed",
                    file=file,
                    line=number,
                    detail="the line is not what was written",
                )
            )
            before = ""
            continue
        if own in seen:
            chain.problems.append(
                Problem(kind="doubled", file=file, line=number, detail="the line is there twice")
            )
            continue
        event = _decode(chain, line, number, file)
        if event is None:
            before = own
            continue
        if number == first:
            if event.event != (ADOPTED if old else CREATED) or event.before != event.documents.get(
                "plan.json"
            ):
                chain.problems.append(_gap(event, number, seen, later, file))
        elif event.before != before and before:
            chain.problems.append(_gap(event, number, seen, later, file))
        seen.add(own)
        chain.hashes[number] = own
        chain.lines.append(line)
        chain.events.append(event)
        before = own


def _gap(event: Event, number: int, seen: set[str], later: Mapping[str, int], file: str) -> Problem:
    if event.before in seen or event.before in later:
        return Problem(
            kind="out of order",
            file=file,
            line=number,
            detail="the line does not follow the line before it",
        )
    return Problem(
        kind="lost", file=file, line=number, detail="one or more lines before this one are missing"
    )


def _decode(chain: Chain, line: bytes, number: int, file: str) -> Event | None:
    try:
        event = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        chain.problems.append(
            Problem(kind="changed", file=file, line=number, detail=f"it cannot be read: {error}")
        )
        return None
    if event.schema > SCHEMA:
        raise InputError(
            f"{file}, line {number}: written by a newer cnibench (schema {event.schema}, this one"
            f" reads up to {SCHEMA})",
            "install a newer cnibench",
        )
    if foreign := _foreign(event):
        chain.problems.append(
            Problem(
                kind="changed",
                file=file,
                line=number,
                detail=f"it names a file that is not of a run: {foreign[:80]!a}",
            )
        )
        return None
    return event


def _foreign(event: Event) -> str:
    """A file that the event names and that no event may name; '' when there is none."""
    found = [name for name in event.files if not is_lines(name)]
    found += [name for name in event.documents if not is_document(name)]
    found += [name for name in event.raw if not is_below(name)]
    if event.folder and not is_below(event.folder):
        found.append(event.folder)
    adopted = (EVENTS,) if event.event == ADOPTED else ()
    return next((name for name in found if name not in adopted), "")


_DECODER = msgspec.json.Decoder(Event)


def _interpret(chain: Chain, old: int, file: str) -> None:
    """What the events commit. A group of samples that was cut off before its last event commits
    nothing.
    """
    pending: list[Event] = []
    at = 0
    for number, (line, event) in enumerate(zip(chain.lines, chain.events, strict=True), 1):
        at += len(line) + 1
        pending.append(event)
        if event.more:
            continue
        for one in pending:
            _commit(chain, one)
        pending = []
        chain.kept, chain.kept_lines, chain.last = at, number, event.sha256
    for number, event in enumerate(chain.events):
        covered = event.files.get(file) if event.event == ADOPTED else None
        if event.event == ADOPTED:
            start = sum(len(line) + 1 for line in chain.lines[:number])
            whole = b"".join(line + b"\n" for line in chain.lines[:number])
            if (
                covered is None
                or covered.bytes != old
                or start != old
                or digest(whole) != covered.sha256
            ):
                chain.problems.append(
                    Problem(
                        kind="changed",
                        file=file,
                        detail="the lines before the chain are not what they were",
                    )
                )


def _commit(chain: Chain, event: Event) -> None:
    if event.event == FINISHED:
        chain.finished = event.time
    elif event.event in (STARTED, RESUMED):
        chain.finished = ""
        chain.sessions += 1
    if event.event == "cell-finished":
        chain.latest[event.cell, event.block] = event
    for name, segment in event.files.items():
        chain.segments.setdefault(name, []).append(
            Segment(
                at=segment.at,
                bytes=segment.bytes,
                lines=segment.lines,
                sha256=segment.sha256,
                cell=event.cell,
                block=event.block,
                attempt=event.attempt,
            )
        )
