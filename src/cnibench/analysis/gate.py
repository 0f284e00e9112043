"""Is a candidate no worse than its base? A non-inferiority test, for a gate in CI; docs/adr/0003-statistics.md says why so.

Each cell is tested at the one-sided level 0.025, so that the decision agrees with the 95 % interval beside it. The gate passes only when
every cell passes, which keeps the level without any correction (R. L. Berger, Technometrics 24, 1982: intersection-union test); one cell
proven worse, after Holm's correction over the cells, is a regression.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cnibench.analysis.build import Context
from cnibench.analysis.found import named
from cnibench.analysis.model import Where
from cnibench.analysis.words import describe, primary
from cnibench.errors import UsageError
from cnibench.metrics import COUNTED
from cnibench.stats import Array, holm, signed_rank
from cnibench.stats_plan import least_blocks

Outcome = Literal["within", "worse", "undecided", "missing"]
LEVEL = 0.025
_RUNS = 3  # base runs from which the variance between runs can be known


@dataclass(frozen=True)
class Judged:
    """One cell: ``ratio`` = candidate / base with its 95 % interval, None where there is none. ``reason`` in one line."""

    cell: str
    metric: str
    unit: str
    base: float | None
    candidate: float | None
    ratio: float | None
    low: float | None
    high: float | None
    n: int
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Verdict:
    """``exit_code`` is 0 proven within the threshold, 4 worse, 5 undecided or a cell missing."""

    cells: list[Judged]
    threshold: float
    how: str

    @property
    def exit_code(self) -> int:
        outcomes = {cell.outcome for cell in self.cells}
        return 4 if "worse" in outcomes else 0 if outcomes == {"within"} else 5

    @property
    def line(self) -> str:
        """The reason in one line."""
        if not self.cells:
            return "undecided: base and candidate have no cell in common"
        for outcome, words in (("worse", "worse"), ("missing", "undecided"), ("undecided", "undecided")):
            found = [cell for cell in self.cells if cell.outcome == outcome]
            if found:
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                return f"{words}: {found[0].cell}: {found[0].reason}{more}"
        cells = f"all {len(self.cells)} cells" if len(self.cells) > 1 else "the one cell"
        return f"within the threshold: {cells} proven no more than {100 * self.threshold:.3g} % worse"


@dataclass(frozen=True)
class _Tested:
    """``p_worse`` of being worse than the threshold by chance, ``p_within`` of being within it by chance."""

    p_within: float
    p_worse: float
    ratio: float
    low: float
    high: float
    n: int
    short: str  # '' or why so few values cannot decide


def margin(better: str, threshold: float) -> float:
    """The log ratio candidate / base beyond which it is worse: log(1 - t) where higher is better, else log(1 + t)."""
    return math.log1p(-threshold) if better == "higher" else math.log1p(threshold)


def paired(base: Mapping[Any, float], candidate: Mapping[Any, float], better: str, threshold: float) -> _Tested | None:
    """The signed-rank test of the log ratios block by block; None when no block has both, or a value is not positive."""
    both = sorted(base.keys() & candidate.keys())
    one, other = np.array([base[k] for k in both]), np.array([candidate[k] for k in both])
    if not both or (one <= 0).any() or (other <= 0).any():
        return None
    ratios = np.log(other) - np.log(one)
    found = signed_rank(ratios, 2 * LEVEL)
    shifted = signed_rank(ratios - margin(better, threshold), interval=False)
    above, below = float(shifted.upper[0]), float(shifted.lower[0])
    within, worse = (above, below) if better == "higher" else (below, above)
    needed = least_blocks(1, 2 * LEVEL)
    short = f"{len(both)} paired blocks cannot decide, it takes {needed}" if len(both) < needed else ""
    centre, low, high = (math.exp(float(x[0])) for x in (found.centre, found.low, found.high))
    return _Tested(within, worse, centre, low, high, len(both), short)


def unpaired(base: Sequence[Array], candidate: Sequence[Array], better: str, threshold: float) -> _Tested | None:
    """Student's t test of the runs' mean logs, the run being the unit: the variance between base runs is the noise, the candidate's mean a
    new draw from it. None when a value is not positive. Fewer than 3 base runs decide nothing."""
    if not base or not candidate or any((values <= 0).any() or not len(values) for values in (*base, *candidate)):
        return None
    means = np.array([np.log(values).mean() for values in base])
    others = np.array([np.log(values).mean() for values in candidate])
    gap = float(others.mean() - means.mean())
    if len(means) < _RUNS:
        short = f"{len(means)} base run{'s' * (len(means) != 1)} cannot say how much runs differ among themselves, it takes {_RUNS}"
        return _Tested(1.0, 1.0, math.exp(gap), math.nan, math.nan, len(means), short)
    from scipy.special import stdtr, stdtrit

    freedom = len(means) - 1
    error = max(float(means.std(ddof=1)) * math.sqrt(1 / len(means) + 1 / len(others)), 1e-12)
    reach = float(stdtrit(freedom, 1 - LEVEL)) * error
    t = (gap - margin(better, threshold)) / error
    above, below = float(stdtr(freedom, -t)), float(stdtr(freedom, t))
    within, worse = (above, below) if better == "higher" else (below, above)
    return _Tested(within, worse, math.exp(gap), math.exp(gap - reach), math.exp(gap + reach), len(means), "")


def counted(base: Sequence[Mapping[Any, float]], candidate: Sequence[Mapping[Any, float]], better: str, threshold: float) -> _Tested | None:
    """For what is counted and not measured: known without a test where each side is alike in all its blocks, else None."""
    ours, theirs = ({value for run in side for value in run.values()} for side in (base, candidate))
    if len(ours) != 1 or len(theirs) != 1:
        return None
    (one,), (other,) = ours, theirs
    worse = other > one * (1 + threshold) if better == "lower" else other < one * (1 - threshold)
    ratio = 1.0 if one == other else other / one if one else math.inf
    return _Tested(1.0 if worse else 0.0, 0.0 if worse else 1.0, ratio, ratio, ratio, min(len(side[0]) for side in (base, candidate)), "")


@dataclass
class Place:
    """One metric at one place: the values of each run that has it, by block."""

    where: Where
    runs: list[Mapping[Any, float]]

    def median(self) -> float:
        return float(np.median([value for run in self.runs for value in run.values()]))


Side = dict[tuple[Any, ...], Place]


def side(runs: Sequence[tuple[Sequence[Context], str]]) -> Side:
    """What one side of the gate measured: ``runs`` are the contexts of each run, and the label that is meant in it."""
    found: Side = {}
    for contexts, label in runs:
        for context in contexts:
            member = context.members.get(label)
            if member is None or context.where["reading"]:
                continue
            where = Where(**context.where)
            params = json.dumps(where.params, sort_keys=True)
            key = (where.workload, where.placement, where.path, params, where.ip, where.mtu, where.cpus, where.pair, where.metric)
            found.setdefault(key, Place(where, [])).runs.append(member.values)
    return found


def judge(base: Side, candidate: Side, threshold: float, *, pairwise: bool, metrics: Sequence[str] = ()) -> Verdict:
    """Base against candidate, cell by cell: each place's main metric, and those in ``metrics`` besides.

    ``pairwise``: both are labels of one run and compared block by block; else the runs are the unit. A cell that the base has and the
    candidate lacks is ``missing``. Raises UsageError when the threshold is no fraction between 0 and 1.
    """
    if not 0 < threshold < 1:
        raise UsageError(f"the threshold must be above 0 and below 1, not {threshold:g}", "write --threshold 5%")
    tested: dict[tuple[Any, ...], _Tested | None] = {}
    chosen = _chosen(base, metrics)
    for key in chosen:
        if key not in candidate:
            continue
        better, ours, theirs = base[key].where.better, base[key].runs, candidate[key].runs
        known = counted(ours, theirs, better, threshold) if base[key].where.metric in COUNTED else None
        if known is not None:
            tested[key] = known
        elif pairwise:
            tested[key] = paired(ours[0], theirs[0], better, threshold)
        else:
            tested[key] = unpaired([np.array(list(run.values())) for run in ours], [np.array(list(run.values())) for run in theirs],
                                   better, threshold)  # fmt: skip
    usable = [(key, test) for key, test in tested.items() if test is not None]
    adjusted = holm(np.array([test.p_worse for _, test in usable]))
    worse = {key: float(p) for (key, _), p in zip(usable, adjusted, strict=True)}
    names = named([base[key].where for key in chosen], describe)
    cells = [
        _judged(name, base[key], candidate.get(key), tested.get(key), worse.get(key, 1.0), threshold)
        for name, key in zip(names, chosen, strict=True)
    ]
    return Verdict(cells, threshold, "block by block within one run" if pairwise else "runs against runs")


def _chosen(base: Side, metrics: Sequence[str]) -> list[tuple[Any, ...]]:
    places: dict[tuple[Any, ...], list[str]] = {}
    for key in base:
        places.setdefault(key[:-1], []).append(key[-1])
    return [key for key in base if key[-1] == primary(places[key[:-1]]) or key[-1] in metrics]


def _judged(name: str, base: Place, candidate: Place | None, test: _Tested | None, p_worse: float, threshold: float) -> Judged:
    where = base.where

    def judged(outcome: Outcome, reason: str) -> Judged:
        ratio, low, high = (None,) * 3 if test is None else (_finite(x) for x in (test.ratio, test.low, test.high))
        return Judged(
            cell=name, metric=where.metric, unit=where.unit, base=base.median(), n=0 if test is None else test.n,
            candidate=None if candidate is None else candidate.median(), ratio=ratio, low=low, high=high, outcome=outcome, reason=reason,
        )  # fmt: skip

    if candidate is None:
        return judged("missing", f"the candidate has no {where.metric} here")
    if test is None:
        return judged("undecided", "no block has both, or a value is not above 0")
    change = f"{where.metric} {100 * (test.ratio - 1):+.2f} %"
    if where.metric in COUNTED and test.low == test.high:
        change = f"{where.metric} {base.median():g} to {candidate.median():g} (counted)"
    elif not math.isnan(test.low):
        change += f" (95 % interval {100 * (test.low - 1):+.2f} to {100 * (test.high - 1):+.2f} %, n={test.n})"
    limit = f"{100 * threshold:.3g} %"
    if test.short:
        return judged("undecided", f"{change}; {test.short}")
    if p_worse <= LEVEL:
        return judged("worse", f"{change}, worse than the threshold of {limit}")
    if test.p_within <= LEVEL:
        return judged("within", f"{change}, within the threshold of {limit}")
    return judged("undecided", f"{change}, neither within {limit} nor beyond it for sure")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
