"""The shortest real run, and what has to hold of a run directory whatever happened to it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host import REPOSITORY, WORK, Machine

# The names of the run and of drafts are fixed: strace wants to know the files' names beforehand.
NAME = "20260101-000000-feed"
PROGRAM = [
    sys.executable,
    "-c",
    (
        "import secrets, sys; secrets.token_hex = lambda n=None: 'feed'\n"
        f"import cnibench.rundir.schema as schema; schema.new_id = lambda name='': {NAME!r}\n"
        "from cnibench.cli.main import main; sys.argv[0] = 'cnibench'; main()"
    ),
]
ENVIRONMENT = f"PYTHONPATH={REPOSITORY / 'src'}"
SHORTEST = [
    "run",
    "--cni",
    "a=veth-baseline,b=veth-baseline",
    "--placement",
    "intra",
    "--method",
    "windows",
    "--workload",
    "tcp-rr",
    "--no-perf",
    "--duration",
    "200ms",
    "--warmup",
    "0s",
    "--blocks",
    "1",
    "--seed",
    "1",
    "--out",
    str(WORK / "runs"),
]
CELLS = 2  # cells times blocks of it
STATES = {0, 1, 2, 3}


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    status: int
    said: str

    def wrong(self) -> list[str]:
        """What its end must not be: [] when it is one that a user understands."""
        found = [
            word
            for word in ("Traceback", "a bug in cnibench", "Exception ignored", "Errno")
            if word in self.said
        ]
        if self.status not in STATES:
            found.append(f"exit status {self.status}")
        if self.status in (2, 3) and "remedy:" not in self.said:
            found.append("no remedy")
        if self.status == 1 and "error:" not in self.said and "failed" not in self.said.lower():
            found.append("exit status 1 without a reason")
        return [f"{problem}: {self.said[-1500:]}" for problem in found]


def carry_out(machine: Machine, *words: str, tracer: tuple[str, ...] = ()) -> Outcome:
    """Runs cnibench on the machine, under ``tracer``."""
    done = machine.run(["env", ENVIRONMENT, *tracer, *PROGRAM, *words])
    return Outcome(done.returncode, done.stdout + done.stderr)


def resume(machine: Machine, run: Path, tracer: tuple[str, ...] = ()) -> Outcome:
    """``run`` is the run directory as the test sees it."""
    return carry_out(machine, "run", "--resume", f"{WORK}/runs/{run.name}", tracer=tracer)


def verified(machine: Machine, run: Path) -> list[str]:
    """What ``cnibench verify`` finds wrong with the run directory; [] when it is intact."""
    outcome = carry_out(machine, "verify", f"{WORK}/runs/{run.name}")
    return [] if outcome.status == 0 else [f"verify: {outcome.status}: {outcome.said[-800:]}"]


def the_run(folder: Path) -> Path | None:
    """The run directory that was begun below the machine's folder: one with a plan."""
    found = [path.parent for path in (folder / "runs").glob("*/plan.json")]
    assert len(found) <= 1, found
    return found[0] if found else None


def acknowledged(run: Path) -> dict[tuple[str, int], list[str]]:
    """Each cell and block that a ``cell-finished`` event on the disk names, with the lines of its
    samples.
    """
    names = [
        (str(event["cell"]), int(event["block"]))
        for event in _lines(run / "events.jsonl")
        if event.get("event") == "cell-finished"
    ]
    samples: dict[tuple[str, int], list[str]] = {name: [] for name in names}
    for sample in _lines(run / "samples.jsonl"):
        key = (str(sample["cell"]), int(sample["block"]))
        if key in samples:
            samples[key].append(json.dumps(sample, sort_keys=True))
    return samples


def _lines(file: Path) -> list[Mapping[str, Any]]:
    """The whole lines of a file; a torn last one is none."""
    if not file.exists():
        return []
    found = []
    for line in file.read_bytes().split(b"\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def lost(before: Mapping[tuple[str, int], list[str]], run: Path) -> list[str]:
    """What was acknowledged before and is not there any more, and what is there twice."""
    now = acknowledged(run)
    found = [
        f"{cell} block {block} is not acknowledged any more"
        for cell, block in before
        if (cell, block) not in now
    ]
    found += [f"{key}: no samples" for key, lines in now.items() if not lines]
    for key, lines in before.items():
        if missing := set(lines) - set(now.get(key, [])):
            found.append(f"{key}: {len(missing)} of {len(lines)} lines lost")
    for key, lines in now.items():
        found += [f"{key}: twice" for _, count in Counter(lines).items() if count > 1]
    return found


def complete(run: Path) -> bool:
    """Is every sample there?"""
    return len(acknowledged(run)) == CELLS and any(
        event.get("event") == "run-finished" for event in _lines(run / "events.jsonl")
    )
