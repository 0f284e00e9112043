"""How often a trend (stats/change_points.py) finds change points where nothing changes, and how
well it finds a step of 5 %.

    python benchmarks/trend_errors.py [--reports 300]

Simulated reports of several series, noise of 2 % from run to run. In "shared" half of the variance
is what a run adds to all series; AR(1) is noise in which neighbouring runs are alike: then the
second figure is the share of reports that do not say so. Each share of the first table is that of
reports with any change point. In the second one, one of 8 series has a step. The tables of
docs/statistics.md are its output. Needs no root, and half an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cnibench.analysis.trend.build import dependent
from cnibench.stats.change_points import Change, change_points

_Array = NDArray[np.float64]
_Draw = Callable[[np.random.Generator, int, int], _Array]
_NOISE, _STEP, _NIGHTS, _SERIES = 0.02, 0.05, 30, 8


def _autocorrelated(rho: float) -> _Draw:
    def draw(rng: np.random.Generator, k: int, n: int) -> _Array:
        found = rng.standard_normal((k, n))
        for i in range(1, n):
            found[:, i] = rho * found[:, i - 1] + np.sqrt(1 - rho**2) * found[:, i]
        return found

    return draw


def _shared(rng: np.random.Generator, k: int, n: int) -> _Array:
    both: _Array = np.sqrt(0.5) * (rng.standard_normal((k, n)) + rng.standard_normal(n))
    return both


_DRAWS: dict[str, _Draw] = {
    "normal": lambda rng, k, n: rng.standard_normal((k, n)),
    "shared": _shared,
    "Student, 3 df": lambda rng, k, n: rng.standard_t(3, (k, n)) / np.sqrt(3),
    "lognormal": lambda rng, k, n: np.exp(rng.standard_normal((k, n))) / 2.16,
    "AR(1) 0.2": _autocorrelated(0.2),
    "AR(1) 0.5": _autocorrelated(0.5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=300)
    reports = parser.parse_args().reports
    print("| Runs | Series |", " | ".join(_DRAWS), "|")
    print("|--:|--:|" + "--:|" * len(_DRAWS))
    for runs, series in ((10, 1), (10, 24), (30, 1), (30, 8), (30, 24)):
        shown = [_false(name, runs, series, reports) for name in _DRAWS]
        print(f"| {runs} | {series} | {' | '.join(shown)} |", flush=True)
    print()
    print("| Step, at run | Found | Runs in the interval | It covers | Size covers | More found |")
    print("|---|--:|--:|--:|--:|--:|")
    for at in ((10, 20), (15,), (22,), (26,)):
        _steps("normal", at, reports)
    _steps("Student, 3 df", (15,), reports)


def _false(name: str, runs: int, series: int, reports: int) -> str:
    rng = np.random.default_rng(1)
    wrong = unsaid = 0
    for _ in range(reports):
        table = _NOISE * _DRAWS[name](rng, series, runs)
        if any(found := change_points(table)):
            wrong += 1
            unsaid += not dependent(table, found)
    share = f"{100 * wrong / reports:.1f} %"
    return f"{share}, {100 * unsaid / reports:.1f} %" if name.startswith("AR") else share


def _steps(name: str, at: tuple[int, ...], reports: int) -> None:
    """A step to the new level after the first of ``at`` runs, and back after the second."""
    rng = np.random.default_rng(2)
    level = np.zeros(_NIGHTS)
    for sign, place in zip((1, -1), at, strict=False):
        level[place:] += sign * _STEP
    first: list[Change] = []
    more = 0
    for _ in range(reports):
        table = _NOISE * _DRAWS[name](rng, _SERIES, _NIGHTS)
        table[0] += level
        own, *others = change_points(table)
        first += own[:1]
        more += len(own) > len(at) or any(others)
    said = " back at ".join(str(place + 1) for place in at)
    shares = (
        f"{100 * len(first) / reports:.1f} %",
        f"{np.mean([one.last - one.first + 1 for one in first]):.1f}",
        f"{100 * np.mean([one.first <= at[0] <= one.last for one in first]):.1f} %",
        f"{100 * np.mean([one.low <= _STEP <= one.high for one in first]):.1f} %",
        f"{100 * more / reports:.1f} %",
    )
    print(f"| {name}, {said} |", " | ".join(shares), "|", flush=True)


if __name__ == "__main__":
    main()
