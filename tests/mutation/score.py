"""Runs the tool over a group of modules and counts what it found."""

from __future__ import annotations

import difflib
import json
import math
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from staging import ROOT, stage

_WORK = ROOT / ".mutation"
_ENDING = 120.0  # s that mutmut is given to end
# Exit codes that mutmut records; None: not tried yet. Any other one is a failure of pytest itself,
# which says nothing about the mutant.
_SURVIVED, _UNCOVERED = 0, (5, 33)
_FAILED, _TIMED_OUT, _CRASHED = (1, 3), (24, 36, 152, -24, -9), (-6, -8, -11)
_KILLED = (*_FAILED, *_TIMED_OUT, *_CRASHED)


@dataclass(frozen=True)
class Group:
    """``modules`` are patterns below src/cnibench, ``tests`` the files that test them. ``least`` is
    the score that none of the modules may fall below. ``equivalent`` maps a function and its
    mutated line to why no test can tell them from the original.
    """

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    least: float
    equivalent: dict[tuple[str, str], str]


@dataclass
class Score:
    """Numbers of mutants of one module. ``missing`` were not tried; ``timeouts`` of the ``killed``
    ran out of time.
    """

    module: str
    killed: int = 0
    timeouts: int = 0
    survived: list[str] = field(default_factory=list)
    equivalent: int = 0
    missing: int = 0

    @property
    def tried(self) -> int:
        return self.killed + len(self.survived)

    @property
    def score(self) -> float:
        """The share of killed ones, equivalent ones left out; 1 where nothing was tried."""
        return self.killed / self.tried if self.tried else 1.0


def groups() -> dict[str, Group]:
    """Those of pyproject.toml, in its order."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)["tool"]["cnibench-mutation"]
    return {
        name: Group(
            name,
            tuple(given["modules"]),
            tuple(given["tests"]),
            given["least"],
            {(one["function"], one["to"]): one["reason"] for one in given.get("equivalent", ())},
        )
        for name, given in table["groups"].items()
    }


def measure(group: Group, until: float = math.inf) -> list[Score]:
    """The scores of the group's modules. Mutants that a test of an earlier run killed are not tried
    again unless their function changed; survivors are. ``until`` is on the monotonic clock. Raises
    RuntimeError when the tests fail without a mutation.
    """
    folder = _WORK / group.name
    modules = stage(folder, group.modules, group.tests)
    alive: set[str] = set()
    for path in (folder / "mutants").rglob("*.meta"):
        meta = json.loads(path.read_text(encoding="utf-8"))
        codes = meta["exit_code_by_key"]
        alive |= {name for name, code in codes.items() if code in (_SURVIVED, *_UNCOVERED)}
        meta["exit_code_by_key"] = {
            name: code if code in _FAILED else None for name, code in codes.items()
        }
        path.write_text(json.dumps(meta), encoding="utf-8")
    _forget_tests(folder / "mutants" / "mutmut-stats.json")
    tool = [sys.executable, str(Path(__file__).parent / "tool.py"), "run", "--max-children", "1"]
    left = None if math.isinf(until) else max(1.0, until - time.monotonic())
    with (
        (folder / "mutmut.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            tool,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        ) as process,
    ):
        try:
            status = process.wait(left)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # mutmut keeps what it has tried
            process.wait(_ENDING)
            status = 0
    if status:
        raise RuntimeError(f"mutmut ended with {status}: see {log.name}")
    return [_count(folder, module, group, alive) for module in modules]


def _forget_tests(stats: Path) -> None:
    """mutmut finds out again which tests call which functions: by itself it asks new tests only,
    and takes a function that is new for one that no test calls.
    """
    if stats.exists():
        known = json.loads(stats.read_text(encoding="utf-8"))
        known["tests_by_mangled_function_name"], known["duration_by_test"] = {}, {}
        stats.write_text(json.dumps(known), encoding="utf-8")


def _count(folder: Path, module: str, group: Group, alive: set[str]) -> Score:
    """``alive`` survived an earlier run: they count as survivors until they are tried again."""
    path = folder / "mutants" / "src" / "cnibench" / module
    found = Score(module)
    codes = json.loads(Path(f"{path}.meta").read_text(encoding="utf-8"))["exit_code_by_key"]
    spans = json.loads(Path(f"{path}.spans").read_text(encoding="utf-8"))["spans"]
    lines = path.read_text(encoding="utf-8").splitlines()
    for name, code in codes.items():
        if code in _KILLED:
            found.killed += 1
            found.timeouts += code in _TIMED_OUT
        elif code not in (_SURVIVED, *_UNCOVERED) and name not in alive:
            found.missing += 1
        else:
            function, change = _change(lines, spans, name.rpartition(".")[2])
            to = " ".join(line[2:].strip() for line in change if line.startswith("+"))
            if (function, to) in group.equivalent:
                found.equivalent += 1
            else:
                found.survived.append(f"{function}: {to}")
    return found


def _change(lines: list[str], spans: dict[str, Any], name: str) -> tuple[str, list[str]]:
    """(function, the lines that differ): what the mutation of that name changes."""
    original = name.partition("__mutmut_")[0]
    function = original.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")

    def body(key: str) -> Iterator[str]:
        first, last = spans[key]
        return (line.replace(key, function) for line in lines[first - 1 : last])

    difference = difflib.ndiff(list(body(f"{original}__mutmut_orig")), list(body(name)))
    return function, [line for line in difference if line[0] in "+-"]
