"""The file that a gate remembers its looks in: JSON lines, one a look, each with the hash of the
line before.

A line has all that the gate uses of the runs that came in at that look (evidence.py), so that the
runs themselves may be gone. A last line without its newline is what a killed command left; it is
left out and overwritten.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

from cnibench.analysis.model import Where
from cnibench.errors import InputError, OutputError
from cnibench.system.files import read_named

SCHEMA = 1
_LARGEST = 256 << 20  # bytes
_REMEDY = "restore the file from a complete copy, or begin a new history in another file"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One metric at one place; ``values`` by the number of the block."""

    where: Where
    window: str
    values: dict[int, float] = {}
    tried: list[int] = []
    failed: list[int] = []
    disturbed: list[int] = []
    reason: str = ""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One label of one run: what it measured, and what must agree (comparability.Circumstances)."""

    id: str
    label: str
    facts: dict[str, Any]
    labels: dict[str, dict[str, Any]]
    places: dict[str, dict[str, Any]]
    settings: str = ""
    cells: list[Cell] = []


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """``base`` and ``candidate`` name the runs that the command named, ``runs`` are those that no
    earlier line has. ``look`` counts the looks at this candidate, ``level`` is that of each of its
    one-sided tests, ``outcome`` the verdict as an exit status.
    """

    schema: int
    before: str  # SHA-256 of the line before, '' in the first
    time: str
    threshold: float
    metrics: list[str]
    how: Literal["blocks", "runs"]
    look: int
    level: float
    outcome: Literal[0, 4, 5]
    base: list[tuple[str, str]]
    candidate: list[tuple[str, str]]
    runs: list[Run]


@dataclass
class History:
    """``whole`` is the length in bytes of the lines that were read, ``last`` the hash of the last
    one. ``cut`` bytes behind them are a line that was never finished.
    """

    path: Path
    looks: list[Look] = field(default_factory=list)
    last: str = ""
    whole: int = 0
    cut: int = 0

    def runs(self) -> Iterator[tuple[int, Run]]:
        """All runs, with the number of their line."""
        for number, look in enumerate(self.looks, 1):
            for run in look.runs:
                yield number, run


def read(path: Path) -> History:
    """The history in ``path``, an empty one where there is no file. Raises InputError for what is
    no history, and for lines that are lost, changed, doubled or out of order.
    """
    try:
        data = read_named(path, _LARGEST)
    except FileNotFoundError:
        return History(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "name a file that can be read") from None
    found = History(path, whole=data.rfind(b"\n") + 1)
    found.cut = len(data) - found.whole
    for number, line in enumerate(data[: found.whole].splitlines(), 1):
        found.looks.append(_look(path, number, line, found.last))
        found.last = sha256(line).hexdigest()
    return found


def append(history: History, look: Look) -> None:
    """Writes one line more; the file is as before if that fails.

    Raises InputError when somebody else wrote to it since it was read, OutputError when it cannot
    be written.
    """
    line = msgspec.json.encode(look) + b"\n"
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(history.path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size != history.whole + history.cut:
                raise InputError(
                    f"{history.path}: had {history.whole + history.cut} bytes when it was read, and"
                    f" {size} now",
                    "let one command at a time use a history, and repeat this one",
                )
            os.ftruncate(descriptor, history.whole)
            try:
                _write(descriptor, line, history.whole)
            except OSError:
                os.ftruncate(descriptor, history.whole)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OutputError(
            f"{history.path}: {error.strerror}",
            "name a regular file in a folder that you can write",
        ) from None


def _write(descriptor: int, line: bytes, at: int) -> None:
    done = 0
    while done < len(line):
        done += os.pwrite(descriptor, line[done:], at + done)
    os.fsync(descriptor)


def _look(path: Path, number: int, line: bytes, before: str) -> Look:
    try:
        look = msgspec.json.decode(line, type=Look)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}, line {number}: {error}", _REMEDY) from None
    if look.schema != SCHEMA:
        raise InputError(
            f"{path}, line {number}: schema {look.schema}, this version knows {SCHEMA}",
            "use the version of cnibench that wrote it",
        )
    if look.before != before:
        raise InputError(
            f"{path}, line {number}: a line before it is lost, changed or duplicated: it follows"
            f" {_short(look.before)}, the line before it is {_short(before)}",
            _REMEDY,
        )
    return look


def _short(digest: str) -> str:
    return digest[:12] or "nothing"


def names(runs: Sequence[tuple[str, str]]) -> str:
    """``run:label, run:label``."""
    return ", ".join(f"{run}:{label}" for run, label in runs)
