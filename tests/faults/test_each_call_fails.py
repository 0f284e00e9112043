"""Every write, fsync, open, rename and mkdir that a run makes on its run directory fails once.

Whatever fails: no acknowledged sample is lost, the command ends with a message, ``--resume``
completes the run, ``verify`` finds nothing wrong before and after it, and nothing is left on the
machine. Each point is printed (``pytest -s``).
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from calls import CASES, Calls, failing, injected, traced
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

AT_MOST = 1  # point of a group and an error, unless all are asked for
TRIES = 6
LOG = f"{WORK}/calls"
Carried = Callable[[tuple[str, ...]], Outcome]  # a fresh run under that tracer


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path) as machine:
        yield machine


def chosen(
    points: list[tuple[str, int]], what: str, part: int, parts: int
) -> list[tuple[str, int]]:
    every = FULL or len(points) <= AT_MOST
    drawn = points if every else sorted(random.Random(f"{SEED} {what}").sample(points, AT_MOST))
    return drawn[part::parts]


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


def calls_of(folder: Path, carried_out: Carried) -> Calls:
    """The calls of a run of which no sample failed: on a busy machine one may."""
    for _ in range(TRIES):
        if (outcome := carried_out(traced(LOG))).status == 0:
            return Calls(folder / "calls")
    pytest.fail(f"{TRIES} runs failed without a fault: {outcome.said[-800:]}")


def problems_of(
    machine: Machine,
    folder: Path,
    carried_out: Carried,
    calls: Calls,
    points: list[tuple[str, int]],
    error: str,
    acknowledged_before: dict[tuple[str, int], list[str]],
) -> list[str]:
    """What is wrong at these points. A run whose sample fails by itself may not come to one: it is
    repeated.
    """
    before = machine.listing()
    problems = []
    for call, n in points:
        for _ in range(TRIES):
            outcome = carried_out(failing(LOG, call, n, error, calls.files))
            if injected(folder / "calls"):
                break
        else:
            problems.append(f"{call} {n} {error} did not fail: {outcome.said[-500:]}")
            continue
        found = judged(machine, folder, outcome, acknowledged_before) + machine.left(before)
        print(f"POINT {call} {n} {error}: {found or 'ok'}", file=sys.stderr, flush=True)
        problems += [f"{call} {n} {error}: {problem}" for problem in found]
        if found:  # named once: the next point is compared with what is there now
            before = machine.listing()
    return problems


@pytest.mark.timeout(14400 if FULL else 3600)
@pytest.mark.parametrize("method", ["windows", "slices"])
@pytest.mark.parametrize(("group", "error", "part", "parts"), CASES)
def test_of_a_new_run(
    machine: Machine, tmp_path: Path, group: str, error: str, part: int, parts: int, method: str
) -> None:
    def carried_out(tracer: tuple[str, ...]) -> Outcome:
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        (tmp_path / "runs").mkdir()
        return carry_out(machine, *SHORTEST, "--method", method, tracer=tracer)

    calls = calls_of(tmp_path, carried_out)
    assert group == "remove" or calls.points(group)
    points = chosen(calls.points(group), f"new {method} {group} {error}", part, parts)
    problems = problems_of(machine, tmp_path, carried_out, calls, points, error, {})
    assert not problems, "\n\n".join(problems)


@pytest.mark.timeout(14400 if FULL else 3600)
@pytest.mark.parametrize(("group", "error", "part", "parts"), CASES)
def test_of_a_resumed_run(
    machine: Machine, tmp_path: Path, group: str, error: str, part: int, parts: int
) -> None:
    """One that ended with lines of the second cell written and not acknowledged."""
    run = half_a_run(machine, tmp_path)
    kept = tmp_path / "half"
    shutil.copytree(run, kept)
    before = acknowledged(kept)

    def carried_out(tracer: tuple[str, ...]) -> Outcome:
        shutil.rmtree(run)
        shutil.copytree(kept, run)
        return resume(machine, run, tracer=tracer)

    calls = calls_of(tmp_path, carried_out)
    points = chosen(calls.points(group), f"resumed {group} {error}", part, parts)
    problems = problems_of(machine, tmp_path, carried_out, calls, points, error, before)
    assert not problems, "\n\n".join(problems)


def half_a_run(machine: Machine, folder: Path) -> Path:
    """A run whose second cell's event did not reach the disk."""

    def carried_out(tracer: tuple[str, ...]) -> Outcome:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        (folder / "runs").mkdir()
        return carry_out(machine, *SHORTEST, tracer=tracer)

    calls_of(folder, carried_out)
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
    for _ in range(TRIES):
        outcome = carried_out(failing(LOG, "write", finished, "EIO", {"events.jsonl"}))
        assert outcome.status == 1, outcome.said
        run = the_run(folder)
        assert run is not None
        if injected(folder / "calls") and len(acknowledged(run)) == 1:
            return run
    pytest.fail(f"no run ended at the event of its last cell: {outcome.said[-800:]}")
