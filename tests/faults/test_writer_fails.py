"""Each system call that a writer makes on its run directory fails once, or is the last one that
its process makes.

A writer ends with an error that says what to do; the run is taken up again, is complete in the end,
and verifies.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import InputError
from cnibench.model.cell import Attestation
from cnibench.rundir.files import FullError
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests.unit._store import CELLS, MANIFEST, measure

CALLS = ("open", "write", "fsync", "rename", "ftruncate", "mkdir", "statvfs", "scandir")
CHECK = Attestation(label="a", profile="a", check="mtu", expected="1", observed="1", passed=True)


class Killed(BaseException):
    """The process has gone: nothing of it is carried out any more."""


class Faults:
    """Counts the calls of os on a run directory; the ``at``-th one raises ``error``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = self.at = 0
        self.error: BaseException | None = None
        self.dead = False
        # Nothing waits for the disk: no test can cut the power.
        monkeypatch.setattr(os, "fsync", os.fstat)
        for name in CALLS:
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*given: Any, **named: Any) -> Any:
            self.count += 1
            if self.error is not None and (self.dead or self.count == self.at):
                self.dead = isinstance(self.error, Killed)
                raise self.error
            return call(*given, **named)

        return failing

    def arm(self, at: int, error: BaseException | None) -> None:
        self.count, self.at, self.error, self.dead = 0, at, error, False


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


def carry_out(path: Path, acknowledged: set[tuple[str, int]]) -> None:
    """Goes on with the run, or begins it, and ends it; ``acknowledged`` is what is stored."""
    begun = os.path.lexists(path)
    done = RunReader(path).done() if begun else set()
    with RunWriter.resume(path) if begun else RunWriter.create(path, MANIFEST) as writer:
        try:
            go_on(writer, done, acknowledged)
        except FullError:
            with suppress(FullError):  # as the runner does
                writer.event("run-failed")
            raise


def go_on(
    writer: RunWriter, done: set[tuple[str, int]], acknowledged: set[tuple[str, int]]
) -> None:
    writer.event("run-resumed" if writer.sessions else "run-started")
    writer.environment({"kernel": "6.1"})
    writer.attestations([CHECK])
    writer.environment({"kernel": "6.1", "more": True})
    for block in range(2):
        if (CELLS[0].id, block) not in done:
            measure(writer, block)
            acknowledged.update((cell.id, block) for cell in CELLS)
    writer.event("run-finished")


def half(path: Path) -> None:
    """A run whose process was killed when it had written lines, but not yet their event."""
    with RunWriter.create(path, MANIFEST) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        writer.attestations([CHECK])
        measure(writer, 0)
        writer.event("run-interrupted")
    for name in ("events", "samples", "cpp", "attestations"):
        with (path / f"{name}.jsonl").open("ab") as file:
            file.write(b'{"schema":2,"torn')


@pytest.mark.parametrize("begun", [False, True], ids=["new", "resumed"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, 0], ids=["EIO", "ENOSPC", "killed"])
def test_a_writer_that_fails_anywhere_is_taken_up_again(
    tmp_path: Path, faults: Faults, error: int, begun: bool
) -> None:
    wrong = []
    at, met = 0, True
    while met:
        at += 1
        path = tmp_path / str(at)
        if begun:
            half(path)
        acknowledged: set[tuple[str, int]] = set()
        faults.arm(at, OSError(error, os.strerror(error)) if error else Killed())
        try:
            carry_out(path, acknowledged)
        except (FullError, InputError) as told:
            if not told.remedy or "defect" in told.message:
                wrong.append(f"{at}: {told.message!r}, {told.remedy!r}")
        except Killed:
            pass
        except BaseException as told:
            wrong.append(f"{at}: {told!r} from {_where(told)}")
        met = faults.count >= at
        faults.arm(0, None)
        if not os.path.lexists(path / "plan.json"):
            continue
        if lost := acknowledged - RunReader(path).done():
            wrong.append(f"{at}: lost {lost}")
        try:
            carry_out(path, acknowledged)
        except (FullError, InputError) as told:
            wrong.append(f"{at}: cannot be taken up: {told.message}")
            continue
        reader = RunReader(path)
        if problems := verify(reader, raw=True):
            wrong.append(f"{at}: {problems}")
        if len(reader.done()) < 4 or not reader.finished:
            wrong.append(f"{at}: not complete")
    assert at > 20
    assert not wrong, "\n".join(wrong)


def _where(told: BaseException) -> str:
    trace, frames = told.__traceback__, []
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " ".join(frames)
