"""Every two labels of a context compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, compress
from typing import TYPE_CHECKING

import numpy as np

from cnibench.analysis.comparison.few_repeats import Effect, effects, table_of
from cnibench.analysis.comparison.groups import group
from cnibench.analysis.figures import by_length
from cnibench.analysis.model import Basis, Evidence, Group, Pair, Verdict
from cnibench.model.metrics import COUNTED
from cnibench.model.units import plural
from cnibench.stats.diagnostics import dependence
from cnibench.stats.inference import ALPHA, Array, estimates, holm, intervals, signed_rank
from cnibench.stats.joint import different, less
from cnibench.stats.looks import Look
from cnibench.stats.power import least_blocks, standard_effect
from cnibench.stats.scale import scale

if TYPE_CHECKING:
    from cnibench.analysis.comparison.contexts import Context


@dataclass
class _Test:
    """One pair: ``row`` has the log ratios a / b (plain differences where a value is not positive,
    ``logs`` is then False).

    ``few``: no outcome of so few blocks would decide. ``alpha`` is the level of its own interval.
    """

    context: int
    a: str
    b: str
    row: Array
    blocks: tuple[int, ...]
    logs: bool
    family: int
    needed: int
    p: float = 1.0
    p_holm: float = 1.0
    alpha: float = 1.0
    centre: float = math.nan
    low: float = math.nan
    high: float = math.nan
    effect: float = 0.0
    spread: float = math.nan
    scale: float = math.nan
    within: float = math.nan
    joint: bool = False
    dependence_p: float = math.nan

    @property
    def few(self) -> bool:
        return len(self.row) < self.needed


def compare(
    contexts: Sequence[Context],
    level: float,
    look: Look | None = None,
    *,
    base: str = "",
    groups: bool = True,
    only_stated: bool = False,
) -> tuple[list[Pair], list[Group]]:
    """All pairs with Holm's correction over the pairs of their context, and each context's groups
    (none where ``groups`` are not asked for).

    ``look``: at that look of a run, and corrected for all of its looks, too (joint.py). ``base``:
    only the pairs with that label, and the correction covers only these. ``only_stated``: without
    groups and without what bundles do not state of pairs (diagnostics, ``within``,
    ``detectable``).
    """
    families = [_tests(number, context, level, base) for number, context in enumerate(contexts)]
    tests = [test for family in families for test in family]
    _test(tests)
    if not only_stated:
        _diagnose(tests, bounds=look is None)
    for family in families:
        if look:
            _decide_jointly(family, level, look, bounds=not only_stated)
        else:
            _decide(family, level)
    _estimate(tests)
    pairs, shown = [], []
    for context, family in zip(contexts, families, strict=True):
        counted = context.where["metric"] in COUNTED  # what is counted has no normal noise
        few = [(test.a, test.b) for test in family if test.few and not counted]
        known, model = effects(context, few, len(family), level)
        mine = [_pair(context, test, known.get((test.a, test.b)), level) for test in family]
        pairs += mine
        if groups and not only_stated:
            shown.append(group(context, mine, model, every=not base))
    return pairs, shown


def _tests(number: int, context: Context, level: float, base: str) -> list[_Test]:
    """The pairs of one context, or those of them with ``base``."""
    names = list(context.members)
    table = table_of(context)
    asked = [
        (i, j)
        for i, j in combinations(range(len(names)), 2)
        if context.compared and (not base or base in (names[i], names[j]))
    ]
    one, other = (table[[pair[side] for pair in asked]] for side in (0, 1))
    both = ~np.isnan(one) & ~np.isnan(other)
    positive = np.logical_and.reduce(((one > 0) & (other > 0)) | ~both, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.where(positive[:, None], np.log(one) - np.log(other), one - other)
    # Rounding is no difference: 1e-12 of the values is far below what any of the tools prints.
    size = np.where(positive[:, None], 1.0, np.maximum(np.abs(one), np.abs(other)))
    rows[np.abs(rows) <= 1e-12 * size] = 0.0
    needed = least_blocks(len(asked), level)
    blocks = sorted({block for member in context.members.values() for block in member.values})
    numbers = [block for _, block in blocks]
    return [
        _Test(
            number,
            names[i],
            names[j],
            row[mask],
            tuple(compress(numbers, mask)),
            bool(logs),
            len(asked),
            needed,
        )
        for (i, j), row, mask, logs in zip(asked, rows, both, positive, strict=True)
    ]


def _test(tests: Sequence[_Test]) -> None:
    """Each pair's own p, and its effect."""
    rows = [test.row for test in tests]
    for indices in by_length(rows):
        found = signed_rank(np.array([rows[i] for i in indices]), interval=False)
        for at, i in enumerate(indices):
            tests[i].p, tests[i].effect = float(found.p[at]), float(found.effect[at])


def _diagnose(tests: Sequence[_Test], *, bounds: bool) -> None:
    """Each pair's spread, scale and, where asked for, bound, and, corrected over all of them, the p
    of dependence between its blocks.
    """
    rows = [test.row for test in tests]
    for indices in by_length(rows):
        table = np.array([rows[i] for i in indices])
        lag, robust = dependence(table)[1], scale(table)
        spread = table.std(axis=1, ddof=1) if table.shape[1] > 1 else robust
        for at, i in enumerate(indices):
            tests[i].dependence_p, tests[i].scale = float(lag[at]), float(robust[at])
            tests[i].spread = float(spread[at])
        for size in {tests[i].family for i in indices} if bounds else ():
            _bound([tests[i] for i in indices if tests[i].family == size], ALPHA)
    lags = np.array([test.dependence_p for test in tests])
    lags[~np.isnan(lags)] = holm(lags[~np.isnan(lags)])
    for test, lag_p in zip(tests, lags, strict=True):
        test.dependence_p = float(lag_p)


def _bound(tests: Sequence[_Test], level: float) -> None:
    """By how much the pairs differ at most, all of them at that level together: two one-sided tests
    of each pair (D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987), after Bonferroni.
    """
    low, high = intervals(np.array([test.row for test in tests]), 2 * level / tests[0].family)
    for test, bound in zip(tests, np.maximum(np.abs(low), np.abs(high)), strict=True):
        test.within = float(bound)


def _decide_jointly(family: Sequence[_Test], level: float, look: Look, *, bounds: bool) -> None:
    """The p of the joint test of differences, and, where ``bounds`` are asked for, whether it is
    proven that pairs differ by less than the resolution.

    A significant pair has the interval of the pair alone where so few blocks have none of the level
    that is adjusted for the selection; any other has one that contains 1. Pairs with too few blocks
    leave their share of the error rate to the model.
    """
    m = len(family)
    for test in family:
        test.needed, test.joint, test.within = least_blocks(1, level), True, math.nan
    tested = [test for test in family if not test.few]
    if not tested:
        return
    p = _jointly(tested, different, look) * m / len(tested)
    significant = int((p <= level).sum())
    for test, p_joint in zip(tested, p, strict=True):
        test.p_holm = min(1.0, float(p_joint))
        if test.p_holm > level:
            test.alpha = min(level / m, test.p * (1 - 1e-9))
            continue
        selected = significant * level / m
        test.alpha = selected if test.p <= selected else level
    positive = [test for test in tested if test.logs] if bounds else []
    bound = math.log1p(look.resolution)
    if positive:
        for test, p_less in zip(
            positive, _jointly(positive, partial(less, bound=bound), look), strict=True
        ):
            test.within = bound if p_less <= level else math.nan


def _jointly(tests: Sequence[_Test], test: Callable[..., Array], look: Look) -> Array:
    """The p of each of these pairs of one context."""
    blocks = 1 + max(one.blocks[-1] for one in tests)
    rows = np.full((len(tests), blocks), np.nan)
    for row, one in zip(rows, tests, strict=True):
        row[list(one.blocks)] = one.row
    logs = np.array([one.logs for one in tests])
    if logs.any() and not logs.all():  # differences have a unit: as large as the log ratios
        size = np.sqrt(np.nanmean(rows**2, axis=1))
        size[size == 0] = 1.0
        rows[~logs] *= (np.median(size[logs]) / size[~logs])[:, None]
    before = sorted({min(number, blocks) for number in look.before})
    found: Array = test(rows[None], before=before, early=look.early)[0]
    return found


def _decide(family: Sequence[_Test], level: float) -> None:
    """Holm's p of the pairs of a context, and the levels of the intervals of those that so many
    blocks can decide; the error rate is theirs by their number, the rest is that of the model.

    Intervals of significant pairs are adjusted for having been selected: 1 - R level / m for R of
    m pairs (Y. Benjamini and D. Yekutieli, JASA 100, 2005). They never contain 1, as Holm's p of
    the last of them is at least m / R times its p. Those of the others hold together and agree with
    Holm's test, too: 1 - level / (m - R) (K. Strassburger and F. Bretz, Stat. Med. 27, 2008).
    """
    for test, p in zip(family, holm(np.array([test.p for test in family])), strict=True):
        test.p_holm = float(p)
    tested = [test for test in family if not test.few]
    if not tested:
        return
    m = len(family)
    adjusted = np.minimum(1.0, holm(np.array([test.p for test in tested])) * m / len(tested))
    for test, p in zip(tested, adjusted, strict=True):
        test.p_holm = float(p)
    significant = sum(test.p_holm <= level for test in tested)
    for test in tested:
        test.alpha = (
            significant * level / m
            if test.p_holm <= level
            else level * len(tested) / (m * (len(tested) - significant))
        )


def _estimate(tests: Sequence[_Test]) -> None:
    rows = [test.row for test in tests]
    for indices in by_length(rows):
        table = np.array([rows[i] for i in indices])
        alpha = np.array([0.0 if tests[i].few else tests[i].alpha for i in indices])
        for i, centre, low, high in zip(indices, *estimates(table, alpha), strict=True):
            tests[i].centre, tests[i].low, tests[i].high = float(centre), float(low), float(high)


def _pair(context: Context, test: _Test, effect: Effect | None, level: float) -> Pair:
    n = len(test.row)
    if (counted := _known(context, test)) is not None:
        return counted
    verdict, evidence, reason = _verdict(context, test, effect, level)
    known = n > 1 and test.logs
    reach = math.inf
    if known and test.scale > 1e-12:  # less is the rounding of constants
        standard = standard_effect(n, test.family, level, estimated=True, jointly=test.joint)
        reach = test.scale * standard
    # The interval of a tied row can touch 0 where its exact test, which knows the ties, does not.
    agrees = evidence != "proven" or test.few or test.low > 0 or test.high < 0
    centre, low, high = (
        (effect.centre, effect.low, effect.high)
        if effect
        else (test.centre, test.low, test.high)
        if agrees
        else (test.centre, math.nan, math.nan)
    )
    logs = test.logs or effect is not None
    return Pair(
        **context.where,
        a=test.a,
        b=test.b,
        n=n,
        ratio=_exp(centre, logs),
        ci_low=_exp(low, logs),
        ci_high=_exp(high, logs),
        p=test.p if n else None,
        p_holm=test.p_holm if n else None,
        verdict=verdict,
        family=test.family,
        effect=test.effect if n else None,
        spread=_number(test.spread) if known else None,
        scale=_number(test.scale) if known else None,
        blocks_needed=test.needed,
        reason=reason,
        detectable=None if math.isinf(reach) else math.expm1(min(700.0, reach)),
        within=math.expm1(min(700.0, test.within)) if test.logs and test.within >= 0 else None,
        dependence_p=_number(test.dependence_p),
        basis=_basis(test, effect),
        replicate=context.replicate,
        evidence=evidence,
        confidence=None if test.few else 1 - test.alpha,
    )


def _basis(test: _Test, effect: Effect | None) -> Basis:
    if effect:
        return "additive model"
    if test.few:
        return ""
    return "joint test" if test.joint else "signed-rank test"


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
        scale=0.0,
        within=None if ratio is None else max(ratio, 1 / ratio) - 1,
        blocks_needed=1,
        detectable=0.0,
        exact=True,
        reason=f"counted, and identical in every {context.replicate}",
        replicate=context.replicate,
        basis="counts",
        evidence="none" if a == b else "proven",
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _exp(value: float, logs: bool) -> float | None:
    if not logs or math.isnan(value) or value > 700:
        return None
    return math.exp(value)


def _verdict(
    context: Context, test: _Test, effect: Effect | None, level: float
) -> tuple[Verdict, Evidence, str]:
    n = len(test.row)
    centre = effect.centre if effect else test.centre
    better: Verdict = (
        "a-better" if (centre > 0) == (context.where["better"] == "higher") else "b-better"
    )
    if effect:
        few = plural(n, context.replicate)
        reason = f"by the additive model: {few} cannot decide without one"
        return better if effect.evidence == "proven" else "inconclusive", effect.evidence, reason
    if n == 0:
        return "inconclusive", "none", f"no {context.replicate} has both"
    if test.few:
        reason = (
            f"{plural(n, f'paired {context.replicate}')} cannot decide among"
            f" {plural(test.family, 'pair')}, it takes {test.needed}"
        )
        return "inconclusive", "none", reason
    if test.p_holm <= level and centre != 0:
        return better, "proven", ""
    return "no-difference-found", "suggestive" if test.p <= level and centre else "none", ""
