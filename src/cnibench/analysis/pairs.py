"""Every two labels of a context compared, and the groups without significant differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from cnibench.analysis.figures import by_length
from cnibench.analysis.model import Group, Pair, Verdict
from cnibench.model.metrics import COUNTED
from cnibench.model.units import plural
from cnibench.stats.diagnostics import dependence
from cnibench.stats.inference import Array, groups, holm, letters, signed_rank
from cnibench.stats.power import least_blocks, standard_effect

if TYPE_CHECKING:
    from cnibench.analysis.contexts import Context


@dataclass
class _Test:
    """One pair: ``row`` has the log ratios a / b (plain differences where a value is not positive,
    ``logs`` is then False).
    """

    context: int
    a: str
    b: str
    row: Array
    logs: bool
    family: int
    p: float = 1.0
    centre: float = math.nan
    low: float = math.nan
    high: float = math.nan
    effect: float = 0.0
    dependence_p: float = math.nan


def compare(contexts: Sequence[Context], level: float) -> tuple[list[Pair], list[Group]]:
    """All pairs with Holm's correction over the pairs of their context, and each context's
    groups.
    """
    tests = [test for number, context in enumerate(contexts) for test in _tests(number, context)]
    rows = [test.row for test in tests]
    for indices in by_length(rows):
        table = np.array([rows[i] for i in indices])
        found = signed_rank(table, level)
        lag = dependence(table)[1]
        for at, i in enumerate(indices):
            test = tests[i]
            test.p, test.centre, test.effect = (
                float(found.p[at]),
                float(found.centre[at]),
                float(found.effect[at]),
            )
            test.low, test.high, test.dependence_p = (
                float(found.low[at]),
                float(found.high[at]),
                float(lag[at]),
            )
    lags = np.array([test.dependence_p for test in tests])
    lags[~np.isnan(lags)] = holm(lags[~np.isnan(lags)])
    families: dict[int, list[tuple[_Test, float]]] = {number: [] for number in range(len(contexts))}
    for test, lag_p in zip(tests, lags, strict=True):
        families[test.context].append((test, float(lag_p)))
    pairs, shown = [], []
    for number, context in enumerate(contexts):
        family = families[number]
        adjusted = holm(np.array([test.p for test, _ in family]))
        mine = [
            _pair(context, test, float(p), lag_p, level)
            for (test, lag_p), p in zip(family, adjusted, strict=True)
        ]
        pairs += mine
        shown.append(_group(context, mine))
    return pairs, shown


def _tests(number: int, context: Context) -> list[_Test]:
    """The pairs of one context, from one table of labels x blocks (NaN where a block lacks a
    label).
    """
    names = list(context.members)
    place = {
        block: i
        for i, block in enumerate(
            sorted({block for member in context.members.values() for block in member.values})
        )
    }
    table = np.full((len(names), len(place)), np.nan)
    for row, name in zip(table, names, strict=True):
        values = context.members[name].values
        row[[place[block] for block in values]] = list(values.values())
    there = ~np.isnan(table)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(table)
    family = len(names) * (len(names) - 1) // 2
    found = []
    for i, j in combinations(range(len(names)), 2):
        both = there[i] & there[j]
        one, other = table[i][both], table[j][both]
        positive = bool((one > 0).all() and (other > 0).all())
        row = logs[i][both] - logs[j][both] if positive else one - other
        # Rounding is no difference: 1e-12 of the values is far below what any of the tools prints.
        row[
            np.abs(row) <= 1e-12 * (1.0 if positive else np.maximum(np.abs(one), np.abs(other)))
        ] = 0.0
        found.append(_Test(number, names[i], names[j], row, positive, family))
    return found


def _pair(context: Context, test: _Test, p_holm: float, lag_p: float, level: float) -> Pair:
    n = len(test.row)
    if (known := _known(context, test)) is not None:
        return known
    needed = least_blocks(test.family, level)
    verdict, reason = _verdict(context, test, p_holm, needed, level)
    spread = float(test.row.std(ddof=1)) if n > 1 and test.logs else None
    reach = standard_effect(n, test.family, level) if n and spread is not None else math.inf
    return Pair(
        **context.where,
        a=test.a,
        b=test.b,
        n=n,
        ratio=_exp(test.centre, test.logs),
        ci_low=_exp(test.low, test.logs),
        ci_high=_exp(test.high, test.logs),
        p=test.p if n else None,
        p_holm=p_holm if n else None,
        verdict=verdict,
        family=test.family,
        effect=test.effect if n else None,
        spread=spread,
        blocks_needed=needed,
        reason=reason,
        detectable=(
            None if math.isinf(reach) or spread is None else math.expm1(min(700.0, reach * spread))
        ),
        dependence_p=None if math.isnan(lag_p) else lag_p,
    )


def _known(context: Context, test: _Test) -> Pair | None:
    """The pair of two counts that are alike in every block; None when one is not, or is measured
    and not counted.
    """
    if context.where["metric"] not in COUNTED or not len(test.row):
        return None
    one, other = (set(context.members[label].values.values()) for label in (test.a, test.b))
    if len(one) > 1 or len(other) > 1:
        return None
    (a,), (b,) = one, other
    verdict: Verdict = "no-difference-found"
    if a != b:
        verdict = "a-better" if (a > b) == (context.where["better"] == "higher") else "b-better"
    ratio = 1.0 if a == b else a / b if a > 0 and b > 0 else None
    return Pair(
        **context.where,
        a=test.a,
        b=test.b,
        n=len(test.row),
        ratio=ratio,
        ci_low=ratio,
        ci_high=ratio,
        p=None,
        p_holm=None,
        verdict=verdict,
        family=test.family,
        effect=float(np.sign(a - b)),
        spread=0.0,
        blocks_needed=1,
        detectable=0.0,
        exact=True,
        reason="counted, and identical in every block",
    )


def _exp(value: float, logs: bool) -> float | None:
    if not logs or math.isnan(value) or value > 700:
        return None
    return math.exp(value)


def _verdict(
    context: Context, test: _Test, p_holm: float, needed: int, level: float
) -> tuple[Verdict, str]:
    n = len(test.row)
    if n == 0:
        return "inconclusive", "no block has both"
    if p_holm <= level and test.centre != 0:
        higher = test.centre > 0
        return ("a-better" if higher == (context.where["better"] == "higher") else "b-better"), ""
    if n < needed:
        return (
            "inconclusive",
            (
                f"{plural(n, 'paired block')} cannot decide among {plural(test.family, 'pair')},"
                f" it takes {needed}"
            ),
        )
    return "no-difference-found", ""


def _group(context: Context, pairs: Sequence[Pair]) -> Group:
    sign = -1.0 if context.where["better"] == "higher" else 1.0
    medians = {
        label: float(np.median(list(member.values.values())))
        for label, member in context.members.items()
    }
    names = sorted(medians, key=lambda label: sign * medians[label])
    apart = {(pair.a, pair.b) for pair in pairs if pair.verdict in ("a-better", "b-better")}
    order = groups(names, apart)
    return Group(**context.where, order=order, letters=letters(order), failed=context.failed)
