"""Mutations of run directories: whatever is done to one, what is read of it is right, or is named
as wrong.

    python -m tests.fuzz.rundirs [--mutations N] [--seconds S] [--seed N] [--jobs N]

One process for each CPU, each in a folder on a tmpfs where there is one. The same seed gives the
same mutations.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from cnibench.errors import CnibenchError, InputError
from cnibench.rundir.chain import Problem
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from tests.fuzz.rundir_mutations import MUTATIONS, Files, keep_events
from tests.fuzz.stored_run import State, build, content_of, files_of, lines_of, state

SLOW = 10.0  # s: a mutation that takes longer counts as a hang


@dataclass
class Tally:
    """What came of the mutations; ``faults`` are those that broke a promise."""

    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        return f"{self.done} mutations in {self.seconds:.0f} s: {counts}; {len(self.faults)} faults"


class Fuzzer:
    """Mutates one run directory, with pieces of another one of the same plan's shape."""

    def __init__(self, folder: Path, seed: int, *, finished: bool = True) -> None:
        self.folder = folder / "run"
        self.random = random.Random(seed)
        build(self.folder, 1, finished=finished)
        build(folder / "other", 2, finished=finished)
        self.files, self.others = files_of(self.folder), files_of(folder / "other")
        reader = RunReader(self.folder)
        if problems := verify(reader, raw=True):
            raise AssertionError(f"the run is wrong before anything is done to it: {problems}")
        self.before, self.other = state(reader), state(RunReader(folder / "other"))
        self.states = list(self._interrupted())  # by the number of events
        self.interrupted = {content_of(one) for one in self.states}
        self.measured = {
            name: lines_of(self.files, name) for name in ("samples.jsonl", "cpp.jsonl")
        }  # earlier attempts, too
        self.foreign = {
            name: lines_of(self.others, name) for name in ("samples.jsonl", "cpp.jsonl")
        }

    def _interrupted(self) -> Iterator[State]:
        """All that a reader may find in this run when it was interrupted anywhere: nobody can tell
        that from a lost end.
        """
        events = self.files["events.jsonl"].splitlines(keepends=True)
        for kept in range(len(events) + 1):
            files = dict(self.files)
            keep_events(files, events[:kept])
            files.pop("seal.json", None)
            changed = {name for name in self.files if self.files[name] != files.get(name)}
            self._write(files, changed, [])
            yield state(RunReader(self.folder))
            self._restore(changed, [])

    def run(self, mutations: int, seconds: float = 1e9) -> Tally:
        """So many mutations, or as many as the time allows."""
        tally = Tally()
        began = time.monotonic()
        for _ in range(mutations):
            self.one(tally)
            tally.seconds = time.monotonic() - began
            if tally.seconds >= seconds:
                break
        return tally

    def one(self, tally: Tally) -> None:
        """One mutation of one to three steps, and what became of it."""
        files = dict(self.files)
        special: list[tuple[str, str]] = []
        steps = [self.random.choice(MUTATIONS) for _ in range(self.random.choice((1, 1, 1, 2, 3)))]
        for step in steps:
            step(self, files, special)
        changed = {
            name
            for name in self.files.keys() | files.keys()
            if self.files.get(name) != files.get(name)
        }
        names = ", ".join(f"{step.__name__.strip('_')}" for step in steps)
        self._write(files, changed, special)
        began = time.monotonic()
        try:
            raw = (
                bool(special)
                or any(name.startswith("raw/") for name in changed)
                or self.random.random() < 0.1
            )
            outcome, fault = self._judge(raw=raw)
        except CnibenchError as error:
            outcome, fault = (
                "refused",
                "" if isinstance(error, InputError) and error.remedy else f"wrong error: {error!r}",
            )
        except Exception:
            outcome, fault = "traceback", traceback.format_exc()
        if time.monotonic() - began > SLOW:
            outcome, fault = "hang", f"took {time.monotonic() - began:.1f} s"
        tally.done += 1
        tally.outcomes[outcome] += 1
        if fault:
            kept = {name: files.get(name, b"(gone)")[-600:] for name in sorted(changed)}
            tally.faults.append(
                f"mutation {tally.done} ({names}; {sorted(changed)}, {special}): {fault}\n{kept}"
            )
        self._restore(changed, special)

    def _judge(self, *, raw: bool) -> tuple[str, str]:
        """What a reader finds; ``raw``: it verifies the raw files, too, which takes longer than all
        the rest.
        """
        reader = RunReader(self.folder)
        if self.random.random() < 0.2:  # as the reports do; it reads everything twice
            verify(reader)
        found = state(reader)
        problems = list(verify(reader, raw=raw))
        for name, lines in (
            ("samples.jsonl", found.samples),
            *((f"{name}.jsonl", lines) for name, lines in found.records.items()),
        ):
            strange = Counter(lines) - Counter(self.measured.get(name, ()))
            if (
                problems or found.plan == self.other.plan
            ):  # the events of another run vouch for its lines; what is mixed is named
                strange -= Counter(self.foreign.get(name, ()))
            if strange:
                return (
                    "wrong",
                    f"lines of {name} that were never measured: {strange}; problems: {problems}",
                )
        if problems:
            silent = self._silent(found, reader.chain.count, problems)
            return ("silent", f"{silent}; named is only: {problems}") if silent else ("named", "")
        if found in (self.before, self.other):
            return "equal", ""
        theirs = found.plan == self.other.plan and not Counter(found.samples) - Counter(
            self.foreign["samples.jsonl"]
        )
        if not found.finished and (
            theirs or content_of(found) in self.interrupted
        ):  # theirs: all of it is of the other run
            return "not finished", ""
        return "silent", f"it reads as something else, and nothing is named: {found}"

    def _silent(self, found: State, events: int, problems: list[Problem]) -> str:
        """What differs from what was measured while the problems are about something else; '' when
        all is named. What is wrong with the events, or with the plan that they begin with, is about
        everything. So many intact events may be all that an interrupted run had.
        """
        named = {problem.file for problem in problems}
        if named & {"events.jsonl", "plan.json"}:
            return ""
        theirs = found.plan == self.other.plan
        before = self.other if theirs else self.states[events]
        if theirs and events != self.others["events.jsonl"].count(b"\n"):
            return ""  # the other run, interrupted somewhere
        if (found.plan, found.finished) != (before.plan, before.finished):
            return "the plan or the end differs"
        if found.environments != before.environments and not any(
            name.startswith("env") for name in named
        ):
            return "an environment differs"
        files = {
            "samples.jsonl": (before.samples, found.samples),
            "attestations.jsonl": (before.attestations, found.attestations),
        }
        for name in before.records.keys() | found.records.keys():
            files[f"{name}.jsonl"] = before.records.get(name, ()), found.records.get(name, ())
        for name, (was, is_now) in files.items():
            told = [problem for problem in problems if problem.file == name]
            if is_now != was and not told:
                return f"{name} differs"
            if all(problem.cell for problem in told):
                places = {(problem.cell, problem.block) for problem in told}
                for line in Counter(was) - Counter(is_now):
                    record = json.loads(line)
                    if (record["cell"], record["block"]) not in places:
                        return f"{record['cell']}, block {record['block']}, is not in {name}"
        return ""

    def _write(self, files: Files, changed: set[str], special: list[tuple[str, str]]) -> None:
        for name in changed:
            path = self.folder / name
            if name in files:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(files[name])
            else:
                path.unlink(missing_ok=True)
        for name, kind in special:
            path = self.folder / name
            if path.is_dir():
                continue
            path.unlink(missing_ok=True)
            if kind == "fifo":
                os.mkfifo(path)
            elif kind == "folder":
                path.mkdir()
            else:
                path.symlink_to(
                    "/dev/zero" if kind == "device" else self.folder.parent / "other" / name
                )

    def _restore(self, changed: set[str], special: list[tuple[str, str]]) -> None:
        for name, _ in special:
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        for name in changed | {name for name, _ in special}:
            if name in self.files:
                (self.folder / name).write_bytes(self.files[name])
            else:
                (self.folder / name).unlink(missing_ok=True)

    def choose(self, files: Files) -> str:
        """Mostly a file with lines."""
        lines = [name for name in files if name.endswith(".jsonl")]
        everything = lines if lines and self.random.random() < 0.75 else list(files)
        return self.random.choice(sorted(everything) or ["samples.jsonl"])

    def lines(self, files: Files) -> tuple[str, list[bytes]]:
        name = self.choose(files)
        return name, files.get(name, b"").splitlines(keepends=True)


def fuzz(mutations: int, seconds: float, seed: int) -> list[tuple[str, Tally]]:
    """A finished and an interrupted run, half of the mutations each."""
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    found = []
    for what, finished in (("finished run", True), ("interrupted run", False)):
        folder = Path(tempfile.mkdtemp(prefix="cnibench-fuzz-", dir=shared))
        try:
            fuzzer = Fuzzer(folder, seed, finished=finished)
            found.append((what, fuzzer.run(mutations // 2, seconds / 2)))
            print(f"{what}, seed {seed}: {found[-1][1]}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutations", type=int, default=10_000, help="of all processes together")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first process; +1 for the next")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.jobs)
    each = given.mutations // given.jobs
    with ProcessPoolExecutor(given.jobs) as pool:
        found = [
            one
            for of_process in pool.map(fuzz, repeat(each), repeat(given.seconds), seeds)
            for one in of_process
        ]
    total = Tally()
    for _, tally in found:
        total.done += tally.done
        total.outcomes += tally.outcomes
        total.faults += tally.faults
        total.seconds = max(total.seconds, tally.seconds * 2)
    print(f"all {given.jobs} processes: {total}")
    for fault in total.faults[:5]:
        print(fault[:4000])
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
