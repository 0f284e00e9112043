"""Every write, fsync, open, rename and mkdir that a run makes on its run directory fails once.

Whatever fails: no acknowledged sample is lost, the command ends with a message, ``--resume``
completes the run, ``verify`` finds nothing wrong before and after it, and nothing is left on the
machine. Each point is printed (``pytest -s``).
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from calls import ERRORS, GROUPS, Calls, failing, injected, traced
from extent import FULL, SEED
from host import WORK, Machine
from short_run import (
    SHORTEST,
    Outcome,
    acknowledged,
    carry_out,
    complete,
    lost,
    resume,
    the_run,
    verified,
)

AT_MOST = 4  # points of a group and an error, unless all are asked for
LOG = f"{WORK}/calls"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path) as machine:
        yield machine


def chosen(points: list[tuple[str, int]], what: str) -> list[tuple[str, int]]:
    return (
        points
        if FULL or len(points) <= AT_MOST
        else sorted(random.Random(f"{SEED} {what}").sample(points, AT_MOST))
    )


def judged(
    machine: Machine, folder: Path, outcome: Outcome, before: dict[tuple[str, int], list[str]]
) -> list[str]:
    """What is wrong after a command that met a fault; ``before``: what was acknowledged when it
    started.
    """
    problems = outcome.wrong()
    problems += [
        f"defect.txt: {path.read_text()[-800:]}" for path in folder.glob("runs/*/raw/**/defect.txt")
    ]
    run = the_run(folder)
    if run is None:
        return problems + (
            [f"no run, and exit status 0: {outcome.said[-500:]}"] if outcome.status == 0 else []
        )
    problems += lost(before, run) + verified(machine, run)
    kept = acknowledged(run)
    if outcome.status == 0 and not complete(run):
        problems.append(f"exit status 0, and the run is not complete: {outcome.said[-500:]}")
    again = resume(machine, run)
    now = acknowledged(run)
    failures = any('"status": "ok"' not in line for lines in now.values() for line in lines)
    if again.status != (1 if failures else 0) or not complete(run):
        problems.append(
            f"--resume: exit status {again.status}, complete {complete(run)}: {again.said[-800:]}"
        )
    rest = lost(kept, run) + again.wrong() + verified(machine, run)
    problems += [f"after --resume: {problem}" for problem in rest]
    return problems


@pytest.mark.timeout(14400 if FULL else 3600)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("group", GROUPS)
def test_of_a_new_run(machine: Machine, tmp_path: Path, group: str, error: str) -> None:
    assert carry_out(machine, *SHORTEST, tracer=traced(LOG)).status == 0
    calls = Calls(tmp_path / "calls")
    assert group == "remove" or calls.points(group)
    problems = []
    for call, n in chosen(calls.points(group), f"new {group} {error}"):
        shutil.rmtree(tmp_path / "runs")
        before = machine.listing()
        outcome = carry_out(machine, *SHORTEST, tracer=failing(LOG, call, n, error, calls.files))
        assert injected(tmp_path / "calls"), f"{call} {n} did not fail: {outcome.said[-500:]}"
        found = judged(machine, tmp_path, outcome, {}) + machine.left(before)
        print(f"{call} {n} {error}: {found or 'ok'}", flush=True)
        problems += [f"{call} {n} {error}: {problem}" for problem in found]
        (tmp_path / "runs").mkdir(exist_ok=True)
    assert not problems, "\n\n".join(problems)


@pytest.mark.timeout(14400 if FULL else 3600)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("group", GROUPS)
def test_of_a_resumed_run(machine: Machine, tmp_path: Path, group: str, error: str) -> None:
    """One that ended with lines of the second cell written and not acknowledged."""
    run = half_a_run(machine, tmp_path)
    kept = tmp_path / "half"
    shutil.copytree(run, kept)
    before_all = acknowledged(kept)
    assert len(before_all) == 1
    assert resume(machine, run, tracer=traced(LOG)).status == 0
    calls = Calls(tmp_path / "calls")
    problems = []
    for call, n in chosen(calls.points(group), f"resumed {group} {error}"):
        shutil.rmtree(run)
        shutil.copytree(kept, run)
        before = machine.listing()
        outcome = resume(machine, run, tracer=failing(LOG, call, n, error, calls.files))
        assert injected(tmp_path / "calls"), f"{call} {n} did not fail: {outcome.said[-500:]}"
        found = judged(machine, tmp_path, outcome, before_all) + machine.left(before)
        print(f"{call} {n} {error}: {found or 'ok'}", flush=True)
        problems += [f"{call} {n} {error}: {problem}" for problem in found]
    assert not problems, "\n\n".join(problems)


def half_a_run(machine: Machine, folder: Path) -> Path:
    """A run whose second cell's event did not reach the disk."""
    assert carry_out(machine, *SHORTEST, tracer=traced(LOG)).status == 0
    calls = Calls(folder / "calls")
    writes = [
        line
        for line in (folder / "calls").read_text(errors="replace").splitlines()
        if " write(" in line and "/events.jsonl>" in line
    ]
    whole = the_run(folder)
    assert whole is not None
    events = [json.loads(line)["event"] for line in (whole / "events.jsonl").open()]
    assert len(writes) == len(events)
    finished = max(n for n, event in enumerate(events, start=1) if event == "cell-finished")
    shutil.rmtree(folder / "runs")
    outcome = carry_out(
        machine, *SHORTEST, tracer=failing(LOG, "write", finished, "EIO", {"events.jsonl"})
    )
    assert outcome.status == 1, outcome.said
    assert calls.files
    run = the_run(folder)
    assert run is not None
    return run
