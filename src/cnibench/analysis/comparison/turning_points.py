"""Turning points: at which value of a swept parameter does the worse of two profiles become the
better one (bruijn2017)?

Blocks pair the two profiles at each value. Between two values each block's log ratio is
interpolated, linearly on a scale of log(1 + value): sweeps go in steps that grow. So there is a row
of log ratios, and the exact signed-rank test of it, at every point of the sweep, and all that is
said of a pair comes from that one test:

- A curve that is noise around 0 changes its sign, too. A turning point is claimed only where the
  two differ significantly at the smallest and at the largest value, the other way round there; that
  there is none, only where they differ significantly the same way round all along. The p of either
  claim is the largest of all that have to hold (an intersection-union test: R. L. Berger,
  Technometrics 24, 1982), with Holm's correction over the pairs of one sweep.
- The interval reaches from the first to the last point at which the test finds no significant
  difference. At the point where the true interpolated curve crosses 0 the test errs no more often
  than its level says, so the interval misses that point no more often. It is that of the pair
  alone, as the one beside a ratio is.
- The point is where the statistic first passes its middle: the estimate that belongs to the test
  (J. L. Hodges and E. L. Lehmann, Ann. Math. Stat. 34, 1963), at which the Hodges-Lehmann centre of
  the interpolated log ratios is 0.

All three are found by counting the Walsh averages that are not above 0. Each of them is linear
between two values, so the places where the count changes are known exactly. The first figure is
reached by few of them, the point by one half, the last by nearly all: where a turning point is
claimed the three are finite, within the sweep, and in this order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from cnibench.analysis.comparison.onsets import Onset, onset
from cnibench.analysis.model import Result, Turning
from cnibench.model import context
from cnibench.model.metrics import main_metric
from cnibench.model.units import is_number
from cnibench.stats.inference import (
    ALPHA,
    Array,
    holm,
    signed_rank,
    walsh_averages,
    walsh_needed,
    walsh_p,
)
from cnibench.stats.power import least_blocks

_VALUES = 3  # values of the parameter that make a sweep
_ROUNDING = 1e-12  # log ratios below it are none: far below what any of the tools prints


def turning_points(
    results: Sequence[Result], level: float = ALPHA, main: Mapping[str, str] | None = None
) -> list[Turning]:
    """All pairs of labels in the main metric of each place (``main``, as the runs stored it), over
    each numeric parameter that has at least three values there."""
    places: dict[tuple[int, str], list[Result]] = {}
    for result in results:
        if not result.reading:
            key = result.environment, context.key(context.place(result) | {"params": {}})
            places.setdefault(key, []).append(result)
    found = []
    for here in places.values():
        metric = main_metric(
            here[0].workload, list(dict.fromkeys(result.metric for result in here)), main or {}
        )
        for swept, row in _sweeps([result for result in here if result.metric == metric]):
            labels = list(dict.fromkeys(result.label for result in row))
            rows = [[result for result in row if result.label == label] for label in labels]
            pairs = [
                pair for a, b in combinations(rows, 2) if (pair := _pair(a, b, swept)) is not None
            ]
            judged = judge([pair.curve for pair in pairs], level)
            for pair, said in zip(pairs, judged, strict=True):
                since = onset(pair.curve.table, pair.curve.values, level, len(pairs))
                found.append(_turning(pair, swept, said, since))
    return found


def _sweeps(here: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    """Each swept parameter with those results that differ in nothing else (and the label)."""
    for swept in dict.fromkeys(key for result in here for key in result.params):
        rows: dict[str, list[Result]] = {}
        for result in here:
            value = result.params.get(swept)
            if is_number(value):
                rest = {key: other for key, other in result.params.items() if key != swept}
                rows.setdefault(json.dumps(rest, sort_keys=True), []).append(result)
        for row in rows.values():
            if len({result.params[swept] for result in row}) >= _VALUES:
                yield swept, row


@dataclass(frozen=True)
class Curve:
    """One pair over one sweep. ``table``: log ratios (shape: blocks x values), above 0 where the
    first is better, as it is on the whole at the first value. ``values``: the swept ones, finite
    and rising.
    """

    table: Array
    values: Sequence[float]


@dataclass(frozen=True)
class _Pair:
    first: Result
    then: Result
    curve: Curve


def _pair(a: Sequence[Result], b: Sequence[Result], swept: str) -> _Pair | None:
    """The two at the values and in the blocks that they share; None where these values make no
    sweep.
    """
    ours, theirs = ({float(result.params[swept]): result for result in row} for row in (a, b))
    values = sorted(ours.keys() & theirs.keys())
    if len(values) < _VALUES:
        return None
    blocks = [set(one[value].blocks) for one in (ours, theirs) for value in values]
    shared = sorted(set.intersection(*blocks))
    sign = 1.0 if a[0].better == "higher" else -1.0
    table = np.array(
        [sign * (_logs(ours[value], shared) - _logs(theirs[value], shared)) for value in values]
    ).T
    table[np.abs(table) <= _ROUNDING] = 0.0
    if table.size and np.isfinite(table[:, 0]).all() and signed_rank(table[:, 0]).centre[0] < 0:
        return _Pair(b[0], a[0], Curve(-table, values))
    return _Pair(a[0], b[0], Curve(table, values))


def _logs(result: Result, blocks: Sequence[int]) -> Array:
    known = dict(zip(result.blocks, result.values, strict=True))
    found = [known[block] for block in blocks]
    return np.array(
        [math.log(value) if value > 0 else math.nan for value in found], dtype=np.float64
    )


def _turning(pair: _Pair, swept: str, judged: Judged, since: Onset | None) -> Turning:
    first = pair.first
    verdict, at, low, high, reason = judged
    if verdict == "inconclusive" and since:
        better = first if since.first else pair.then
        reason += f"; {better.label} is better from {since.value:g} on"
    return Turning(
        first=first.label,
        then=pair.then.label,
        placement=first.placement,
        path=first.path,
        workload=first.workload,
        params={key: value for key, value in first.params.items() if key != swept},
        ip=first.ip,
        metric=first.metric,
        swept=swept,
        up_to=pair.curve.values[-1],
        n=len(pair.curve.table),
        verdict=verdict,
        at=at,
        low=low,
        high=high,
        reason=reason,
        environment=first.environment,
    )


Judged = tuple[
    Literal["turns", "none", "inconclusive"], float | None, float | None, float | None, str
]


@dataclass(frozen=True)
class _Evidence:
    """``p`` of the claim that the data suggest, ``turns`` or not, and, should it be too large, why:
    ``doubt``.
    """

    p: float
    turns: bool
    doubt: str


def judge(curves: Sequence[Curve], level: float = ALPHA) -> list[Judged]:
    """(verdict, point, low, high, reason) of each pair of one sweep, which are the family of Holm's
    correction.

    With ``turns`` the three figures are finite, low <= point <= high, and between the first and the
    last value; else they are None.
    """
    evidence = [_evidence(curve, level, len(curves)) for curve in curves]
    adjusted = holm(np.array([one.p for one in evidence]))
    judged: list[Judged] = []
    for curve, one, p in zip(curves, evidence, adjusted, strict=True):
        if p > level:
            judged.append(("inconclusive", None, None, None, one.doubt))
        elif one.turns:
            judged.append(("turns", *_figures(curve, level), ""))
        else:
            judged.append(("none", None, None, None, ""))
    return judged


def _evidence(curve: Curve, level: float, family: int) -> _Evidence:
    table, values = curve.table, curve.values
    n, needed = len(table), least_blocks(family, level)
    if n < needed:
        return _Evidence(
            1.0,
            False,
            f"{n} block{'s' * (n != 1)} cannot decide among {family} pair{'s' * (family != 1)},"
            f" at least {needed} are needed",
        )
    if not np.isfinite(table).all():
        return _Evidence(1.0, False, "a value that is not above 0")
    walsh = walsh_averages(table.T)
    # So many zeros that the middle of the averages is 0 are no difference, though the test, which
    # leaves zeros out, may find one.
    before, after = (_side(averages) for averages in (walsh[0], walsh[-1]))
    found = signed_rank(table[:, [0, -1]].T, interval=False).p
    parts = [
        (float(found[0]) if before > 0 else 1.0, f"no significant difference at {values[0]:g}")
    ]
    parts.append(
        (float(found[1]) if after else 1.0, f"no significant difference at {values[-1]:g}")
    )
    if after > 0:
        positions, counts = _count(walsh)
        most = int(np.argmax(counts))
        # At an end, the test itself has said it.
        if 0 < positions[most] < len(values) - 1:
            where = f"better at both ends, not proven so at {_value(positions[most], values):.3g}"
            parts.append((walsh_p(n, int(counts[most])), where))
    p, weakest = max(parts, key=lambda part: part[0])
    return _Evidence(p, after < 0, next((words for part, words in parts if part > level), weakest))


def _side(averages: Array) -> int:
    """On which side of 0 the middle of the Walsh averages is, both of the two middle ones if there
    are two; 0 when it is not on one.
    """
    half = len(averages) // 2 + 1
    return int((averages > 0).sum() >= half) - int((averages < 0).sum() >= half)


def _figures(curve: Curve, level: float) -> tuple[float, float, float]:
    """(point, low, high) of a curve of which the first is better at the first value and the other
    at the last.
    """
    walsh = walsh_averages(curve.table.T)
    few, half = walsh_needed(len(curve.table), level), walsh.shape[1] // 2
    onward = _count(walsh)
    low = _value(_reached(onward, few), curve.values)
    high = _value(len(walsh) - 1 - _reached(_count(-walsh[::-1]), few), curve.values)
    # With an even number of averages there are two middle ones, and the statistic is at its middle
    # between the points where they pass 0.
    middle = (_reached(onward, walsh.shape[1] - half) + _reached(onward, half + 1)) / 2
    at = _value(middle, curve.values)
    # Without noise the three are one point, which rounding would tear apart.
    low, high = min(low, high), max(low, high)
    return min(max(at, low), high), low, high


def _count(walsh: Array) -> tuple[Array, Array]:
    """Where along the sweep the number of Walsh averages that are not above 0 changes, in this
    order, and the number from there on.

    ``walsh``: values x averages. A position is the index of a value and the share of the way to the
    next one; the first is 0.
    """
    here, there = walsh[:-1], walsh[1:]
    down, up = (here > 0) & (there <= 0), (here <= 0) & (there > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        at = np.arange(len(here))[:, None] + here / (here - there)
    positions = np.concatenate(([0.0], at[down], at[up]))
    change = np.concatenate(([(walsh[0] <= 0).sum()], np.ones(down.sum()), -np.ones(up.sum())))
    # An average that is 0 counts: those that come are before those that leave at the same place.
    order = np.lexsort((change < 0, positions))
    return positions[order], np.cumsum(change[order])


def _reached(counted: tuple[Array, Array], number: int) -> float:
    """The first position at which the count is at least ``number``, which it has to be
    somewhere.
    """
    positions, counts = counted
    return float(positions[int(np.argmax(counts >= number))])


def _value(position: float, values: Sequence[float]) -> float:
    """The value of the parameter at a position, by the scale on which the curve is interpolated
    (and its mirror image below 0).
    """
    given = np.asarray(values, dtype=np.float64)
    scaled = float(
        np.interp(position, np.arange(len(given)), np.sign(given) * np.log1p(np.abs(given)))
    )
    value = math.copysign(math.expm1(abs(scaled)), scaled)
    return min(max(value, float(given[math.floor(position)])), float(given[math.ceil(position)]))
