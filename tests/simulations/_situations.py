"""Invented situations whose truth is known, as run directories: nothing in them was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cnibench.rundir.reader import RunReader
from tests.unit._runs import DISTURBANCE, edited, synthetic


@dataclass
class Situation:
    """``truth`` maps labels to what they reach without noise, ``values`` has what was measured
    (labels x blocks; NaN: not there). ``failed`` and ``disturbed`` are (label, block)."""

    kind: str
    seed: int
    truth: dict[str, float]
    values: np.ndarray
    failed: set[tuple[str, int]] = field(default_factory=set)
    disturbed: set[tuple[str, int]] = field(default_factory=set)
    lower: bool = False
    imported: bool = False
    machines: int = 1

    @property
    def labels(self) -> list[str]:
        return list(self.truth)

    @property
    def blocks(self) -> int:
        return int(self.values.shape[1])

    def better(self, a: str, b: str) -> bool:
        """Is ``a`` truly better than ``b``?"""
        return (self.truth[a] < self.truth[b]) if self.lower else (self.truth[a] > self.truth[b])

    def tried(self, label: str) -> int:
        return sum((label, block) not in self.disturbed for block in range(self.blocks))

    def failures(self, label: str) -> int:
        return sum((label, block) in self.failed for block in range(self.blocks))

    def figures(self, label: str) -> int:
        gone = {block for name, block in self.failed | self.disturbed if name == label}
        return self.blocks - len(gone)

    def readers(self, folder: Path) -> list[RunReader]:
        """One run, or one on each machine with the same figures."""
        return [self._reader(folder, number) for number in range(self.machines)]

    def _reader(self, folder: Path, number: int) -> RunReader:
        facts: dict[str, Any] = {"cpu_model": f"CPU {number}"}
        run = synthetic(
            folder,
            self.truth,
            blocks=self.blocks,
            workloads=("tcp-rr",),
            placements=("intra",),
            cpp=False,
            fail=sorted(self.failed),
            name=f"{self.kind}-{self.seed}-{number}",
            environment=facts | ({"imported": "infrabuilder"} if self.imported else {}),
            main={"tcp-rr": "latency_mean" if self.lower else "transaction_rate"},
        )
        place = {label: i for i, label in enumerate(self.truth)}
        metric = {"metric": "latency_mean", "unit": "s", "better": "lower"}

        def edit(line: dict[str, Any]) -> dict[str, Any]:
            if (line["label"], line["block"]) in self.disturbed:
                line = line | {"disturbed": DISTURBANCE}
            if line["metric"] != "transaction_rate":
                return line
            value = float(self.values[place[line["label"]], line["block"]])
            return line | {"value": value} | (metric if self.lower else {})

        return edited(run, edit)


def situations(count: int) -> list[Situation]:
    """So many of all kinds in turn, the same ones each time."""
    kinds = list(_KINDS)
    found = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        found.append(_KINDS[kind](kind, number, np.random.default_rng(1000 + number)))
    return found


_Rng = np.random.Generator


def _truth(rng: _Rng, count: int, gap: float) -> dict[str, float]:
    """Labels in random order; neighbours differ by about ``gap``, some not at all."""
    steps = gap * rng.integers(0, 3, count)
    levels = 4e4 * np.exp(-np.cumsum(steps))
    return {f"p{i}": float(level) for i, level in enumerate(rng.permutation(levels))}


def _values(
    rng: _Rng, truth: dict[str, float], blocks: int, noise: float | np.ndarray = 0.01
) -> np.ndarray:
    logs = np.log(np.array(list(truth.values())))[:, None]
    spread = np.broadcast_to(np.asarray(noise), (len(truth),))[:, None]
    shared = 0.03 * rng.standard_normal(blocks)
    found: np.ndarray = np.exp(logs + shared + spread * rng.standard_normal((len(truth), blocks)))
    return found


def _plain(gap: float) -> Callable[[str, int, _Rng], Situation]:
    def make(kind: str, seed: int, rng: _Rng) -> Situation:
        truth = _truth(rng, int(rng.integers(2, 6)), gap)
        return Situation(kind, seed, truth, _values(rng, truth, int(rng.integers(10, 15))))

    return make


def _failures(kind: str, seed: int, rng: _Rng) -> Situation:
    """One fails rarely, one often, and now and then one always."""
    truth = _truth(rng, 4, 0.04)
    values = _values(rng, truth, 14)
    shares = dict(
        zip(truth, rng.permutation([0.0, 0.08, 0.5, rng.choice([0.0, 1.0])]), strict=True)
    )
    failed = {
        (label, block) for label in truth for block in range(14) if rng.random() < shares[label]
    }
    return Situation(kind, seed, truth, values, failed)


def _imbalance(kind: str, seed: int, rng: _Rng) -> Situation:
    """A machine with two speeds, on which some profiles have figures of the fast blocks only, and
    the best one of the slow blocks."""
    truth = _truth(rng, 4, 0.03)
    fast = rng.random(16) < 0.5
    values = _values(rng, truth, 16) * np.where(fast, 1.3, 1.0)
    best = max(truth, key=lambda label: truth[label])
    worst = min(truth, key=lambda label: truth[label])
    disturbed = {(best, block) for block in np.flatnonzero(fast)[2:].tolist()}
    disturbed |= {(worst, block) for block in np.flatnonzero(~fast)[2:].tolist()}
    return Situation(kind, seed, truth, values, disturbed=disturbed)


def _drift(kind: str, seed: int, rng: _Rng) -> Situation:
    truth = _truth(rng, 3, 0.03)
    values = _values(rng, truth, 14) * np.linspace(1.0, float(rng.uniform(0.6, 1.5)), 14)
    return Situation(kind, seed, truth, values)


def _one(kind: str, seed: int, rng: _Rng) -> Situation:
    truth = _truth(rng, 1, 0.0)
    return Situation(kind, seed, truth, _values(rng, truth, int(rng.integers(1, 13))))


def _sixteen(kind: str, seed: int, rng: _Rng) -> Situation:
    truth = _truth(rng, 16, 0.01)
    return Situation(kind, seed, truth, _values(rng, truth, 14))


def _few(kind: str, seed: int, rng: _Rng) -> Situation:
    truth = _truth(rng, int(rng.integers(2, 12)), 0.05)
    return Situation(kind, seed, truth, _values(rng, truth, int(rng.integers(1, 5))))


def _imported(kind: str, seed: int, rng: _Rng) -> Situation:
    """Repeats of another tool, of which one is missing at times."""
    truth = _truth(rng, 11, 0.04)
    values = np.exp(0.02 * rng.standard_normal((11, 3))) * np.array(list(truth.values()))[:, None]
    failed = {(label, 2) for label in truth if rng.random() < 0.1}
    return Situation(kind, seed, truth, values, failed, imported=True)


def _unequal(kind: str, seed: int, rng: _Rng) -> Situation:
    truth = _truth(rng, 5, 0.03)
    noise = 0.01 * np.exp(rng.standard_normal(5))
    return Situation(kind, seed, truth, _values(rng, truth, 14, noise))


def _outliers(kind: str, seed: int, rng: _Rng) -> Situation:
    truth = _truth(rng, 4, 0.03)
    values = _values(rng, truth, 14)
    values[rng.random(values.shape) < 0.05] *= 0.5
    return Situation(kind, seed, truth, values)


def _machines(kind: str, seed: int, rng: _Rng) -> Situation:
    truth = _truth(rng, 3, 0.04)
    return Situation(kind, seed, truth, _values(rng, truth, 12), machines=2)


def _latency(kind: str, seed: int, rng: _Rng) -> Situation:
    truth = {label: 1 / level for label, level in _truth(rng, 4, 0.03).items()}
    failed = {("p1", block) for block in range(14) if rng.random() < 0.1}
    return Situation(kind, seed, truth, _values(rng, truth, 14), failed, lower=True)


def _nothing(kind: str, seed: int, rng: _Rng) -> Situation:
    """Everything fails, or all but one profile, or all profiles often."""
    truth = _truth(rng, 3, 0.03)
    failed = {(label, block) for label in truth for block in range(8)}
    if seed % 4 == 1:
        failed = {(label, block) for label, block in failed if label != "p1"}
    elif seed % 4 == 3:
        failed = {(label, block) for label, block in failed if block % 2}
    return Situation(kind, seed, truth, _values(rng, truth, 8), failed)


_KINDS: dict[str, Callable[[str, int, _Rng], Situation]] = {
    "ties": _plain(0.0),
    "close": _plain(0.004),
    "clear": _plain(0.05),
    "failures": _failures,
    "imbalance": _imbalance,
    "drift": _drift,
    "one profile": _one,
    "sixteen": _sixteen,
    "few repeats": _few,
    "imported": _imported,
    "unequal noise": _unequal,
    "outliers": _outliers,
    "two machines": _machines,
    "latency": _latency,
    "nothing": _nothing,
}
