"""Turning points: at which value of a swept parameter does the worse of two profiles become the better one (bruijn2017)?

Blocks pair the two profiles at each value. The curve is the mean over blocks of the log ratio, linear between the values on a scale of
log(1 + value); the turning point is where it first changes sign. Its interval comes from resampling whole blocks, with a fixed seed: the
same blocks at all values, so that what a block has in common cancels. A curve that is noise around 0 changes its sign, too: a turning point
is claimed only where the exact signed-rank test tells the two apart at the smallest and at the largest value, the other way round there.
Both have to hold, so the level is that of each test (an intersection-union test).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from cnibench.analysis.model import Result, Turning
from cnibench.analysis.words import primary
from cnibench.stats import ALPHA, Array, signed_rank

FEWEST = 6  # blocks: with fewer the percentiles of a bootstrap say nothing
_VALUES = 3  # values of the parameter that make a sweep
_RESAMPLES = 2000
_SEED = 20170701


def turning_points(results: Sequence[Result]) -> list[Turning]:
    """All pairs of labels in the primary metric of each place, over each numeric parameter that has at least three values there."""
    places: dict[str, list[Result]] = {}
    for result in results:
        if not result.reading:
            key = [result.environment, result.testbed, result.wire, result.wire_offload, result.workload, result.placement, result.path,
                   result.ip, result.mtu, result.cpus, result.pair]  # fmt: skip
            places.setdefault(json.dumps(key), []).append(result)
    found = []
    for here in places.values():
        metric = primary(list(dict.fromkeys(result.metric for result in here)))
        for swept, row in _sweeps([result for result in here if result.metric == metric]):
            labels = list(dict.fromkeys(result.label for result in row))
            for a, b in combinations(labels, 2):
                found += _turning([r for r in row if r.label == a], [r for r in row if r.label == b], swept)
    return found


def _sweeps(here: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    """Each swept parameter with those results that differ in nothing else (and the label)."""
    for swept in dict.fromkeys(key for result in here for key in result.params):
        rows: dict[str, list[Result]] = {}
        for result in here:
            value = result.params.get(swept)
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = {key: other for key, other in result.params.items() if key != swept}
                rows.setdefault(json.dumps(rest, sort_keys=True), []).append(result)
        for row in rows.values():
            if len({result.params[swept] for result in row}) >= _VALUES:
                yield swept, row


def _turning(a: Sequence[Result], b: Sequence[Result], swept: str) -> list[Turning]:
    ours, theirs = ({float(result.params[swept]): result for result in row} for row in (a, b))
    values = sorted(ours.keys() & theirs.keys())
    if len(values) < _VALUES:
        return []
    blocks = [set(one[value].blocks) for one in (ours, theirs) for value in values]
    shared = sorted(set.intersection(*blocks))
    sign = 1.0 if a[0].better == "higher" else -1.0
    table = np.array([sign * (_logs(ours[value], shared) - _logs(theirs[value], shared)) for value in values]).T
    first, then = a[0], b[0]
    if table.size and np.nanmean(table[:, 0]) < 0:
        table, first, then = -table, b[0], a[0]
    params = {key: value for key, value in first.params.items() if key != swept}
    verdict, at, low, high, reason = judge(table, values)
    return [
        Turning(
            first=first.label, then=then.label, placement=first.placement, path=first.path, workload=first.workload, params=params,
            ip=first.ip, metric=first.metric, swept=swept, up_to=values[-1], n=len(shared), verdict=verdict, at=at, low=low, high=high,
            reason=reason, environment=first.environment,
        )
    ]  # fmt: skip


def _logs(result: Result, blocks: Sequence[int]) -> Array:
    known = dict(zip(result.blocks, result.values, strict=True))
    found = [known[block] for block in blocks]
    return np.array([math.log(value) if value > 0 else math.nan for value in found], dtype=np.float64)


Judged = tuple[Literal["turns", "none", "inconclusive"], float | None, float | None, float | None, str]


def judge(table: Array, values: Sequence[float]) -> Judged:
    """(verdict, point, low, high, reason) of log ratios (shape: blocks x values, above 0: the first is better at the first value)."""
    if table.ndim != 2 or len(table) < FEWEST:
        return "inconclusive", None, None, None, f"{len(table)} blocks, {FEWEST} are needed"
    if not np.isfinite(table).all():
        return "inconclusive", None, None, None, "a value that is not above 0"
    before, after = (_proven(table[:, column]) for column in (0, -1))
    if before <= 0 or after == 0:
        return "inconclusive", None, None, None, f"not told apart at {values[0 if before <= 0 else -1]:g}"
    scale = np.log1p(np.asarray(values, dtype=np.float64))
    drawn = np.random.default_rng(_SEED).integers(0, len(table), (_RESAMPLES, len(table)))
    points = np.sort([_crossing(curve, scale) for curve in table[drawn].mean(axis=1)])
    low, high = (float(points[min(int(share * _RESAMPLES), _RESAMPLES - 1)]) for share in (ALPHA / 2, 1 - ALPHA / 2))
    if after > 0:
        if math.isinf(low):
            return "none", None, None, None, ""
        return "inconclusive", None, None, None, f"they come close to each other from {low:.3g} on, and part again"
    return "turns", _crossing(table.mean(axis=0), scale), low, min(high, values[-1]), ""


def _proven(row: Array) -> int:
    """1 or -1 when the first or the other is proven the better one (exact signed-rank test), 0 when they are not told apart."""
    found = signed_rank(row[None, :], ALPHA, interval=False)
    return 0 if found.p[0] > ALPHA else 1 if found.effect[0] > 0 else -1


def _crossing(curve: Array, scale: Array) -> float:
    """Where the curve first reaches 0, as a value of the parameter; infinite when it does not."""
    below = np.flatnonzero(curve <= 0)
    if not len(below):
        return math.inf
    at = int(below[0])
    if at == 0:
        return float(np.expm1(scale[0]))
    share = curve[at - 1] / (curve[at - 1] - curve[at])
    return float(np.expm1(scale[at - 1] + share * (scale[at] - scale[at - 1])))
