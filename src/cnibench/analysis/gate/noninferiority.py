"""Is a candidate's figure worse than its base's by more than a threshold? One-sided tests of log
ratios, by blocks or by runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cnibench.model.units import plural
from cnibench.stats.inference import Array, signed_rank
from cnibench.stats.power import least_blocks

LEVEL = 0.025
RUNS = 3  # runs from which the variance between runs can be known
# p above which runs of the same pair are taken as alike: the larger of the two levels that T. A.
# Bancroft (Biometrics 20, 1964) advises before pooling. With 0.1, which finds little in three runs,
# up to 8 % of the candidates at the threshold passed (docs/adr/0014-gate.md).
POOLED = 0.5


@dataclass(frozen=True)
class Tested:
    """``p_worse`` of being worse than the threshold by chance, ``p_within`` of being within it by
    chance. ``note`` says what the units are where that is not the usual. ``least`` is the smallest
    p that so many values can give.
    """

    p_within: float
    p_worse: float
    ratio: float
    low: float
    high: float
    n: int
    short: str  # '' or why so few values cannot decide
    note: str = ""
    least: float = 0.0


def margin(better: str, threshold: float) -> float:
    """The log ratio candidate / base beyond which it is worse: log(1 - t) where higher is better,
    else log(1 + t).
    """
    return math.log1p(-threshold) if better == "higher" else math.log1p(threshold)


def paired(
    base: Mapping[Any, float],
    candidate: Mapping[Any, float],
    better: str,
    threshold: float,
    level: float = LEVEL,
) -> Tested | None:
    """The signed-rank test of the log ratios block by block; None when no block has both, or a
    value is not positive. The interval has coverage of at least 1 - 2 ``level``.
    """
    ratios = _ratios(base, candidate)
    return (
        None if ratios is None or not len(ratios) else _by_blocks(ratios, better, threshold, level)
    )


Pairs = Sequence[tuple[Mapping[Any, float], Mapping[Any, float]]]


def paired_runs(
    pairs: Pairs,
    better: str,
    threshold: float,
    level: float = LEVEL,
    others: Sequence[Pairs] = (),
    agreement: float = 1.0,
    *,
    across: bool = False,
) -> Tested | None:
    """Several runs of both sides: (base, candidate) of each by block; ``others`` are the runs of
    other candidates with the same base, each candidate's together. ``agreement`` is the p of all
    cells, ``across`` as in ``by_runs``. None as ``paired``.
    """
    rows = log_ratios(pairs)
    if not rows:
        return None
    known = [log_ratios(one) for one in others]
    known = [one for one in known if one]
    return by_runs(rows, better, threshold, level, known, agreement, across=across)


def by_runs(
    rows: Sequence[Array],
    better: str,
    threshold: float,
    level: float = LEVEL,
    others: Sequence[Sequence[Array]] = (),
    agreement: float = 1.0,
    *,
    across: bool = False,
) -> Tested:
    """``paired_runs`` of the log ratios of each run (one or more runs of one or more blocks).

    The blocks of all runs are the units as long as runs of one candidate agree, which is tested
    over all cells together (``homogeneity``). Otherwise the runs are the units: Student's t test of
    their mean log ratios decides, with the variance between runs of one candidate, pooled over all
    candidates. It takes two degrees of freedom: three runs of one candidate, or two runs of two.

    ``across``: to pass is to hold for other runs, too. Then a candidate does not pass before there
    are these degrees of freedom, however much its blocks agree. That it is worse is proven by the
    blocks until then.
    """
    families = [rows, *others]
    means = [np.array([row.mean() for row in family]) for family in families]
    freedom = sum(len(one) - 1 for one in means)
    gap, n = float(means[0].mean()), len(rows)
    differ = f"runs of one candidate may differ more than their blocks explain (p={agreement:.2g})"
    alike, known = agreement > POOLED, freedom >= RUNS - 1
    if alike or not known:
        by_blocks = _by_blocks(np.concatenate(rows), better, threshold, level)
        if by_blocks.short or known or (alike and not across):
            return by_blocks
        why = "how much runs differ is not known" if alike else differ
        short = f"{why}: it takes {plural(RUNS - 1 - freedom, 'more run')} of this candidate"
        return replace(by_blocks, p_within=1.0, short=short)
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in means)
    error = math.sqrt(squares / freedom / n)
    note = f"{differ}, so the runs are the units ({freedom} degrees of freedom)"
    return _student(gap, error, freedom, better, threshold, level, n, note)


def homogeneity(families: Sequence[Sequence[Array]]) -> float:
    """p of the differences between runs of one family if all its blocks are alike; 1 where no
    family has two runs, and for constants. A family are the runs of one candidate in one cell. The
    test of W. H. Kruskal and W. A. Wallis (JASA 47, 1952), with its correction for ties, added up
    over the families.
    """
    from scipy.special import chdtrc

    found = [_kruskal(rows) for rows in families]
    freedom = sum(one for _, one in found)
    return float(chdtrc(freedom, sum(one for one, _ in found))) if freedom else 1.0


def _kruskal(rows: Sequence[Array]) -> tuple[float, int]:
    """(statistic, degrees of freedom)."""
    values = np.concatenate(rows)
    n = len(values)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(rows) < 2 or len(counts) < 2:
        return 0.0, 0
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    spread = (n**3 - n - float((counts**3 - counts).sum())) / (12 * (n - 1))
    parts = np.split(ranks, np.cumsum([len(row) for row in rows])[:-1])
    between = sum(len(part) * (float(part.mean()) - (n + 1) / 2) ** 2 for part in parts)
    return between / spread, len(rows) - 1


def log_ratios(pairs: Pairs) -> list[Array]:
    """The log ratios of each run that has any; none where a value is not positive."""
    found = [_ratios(base, candidate) for base, candidate in pairs]
    if any(one is None for one in found):
        return []
    return [one for one in found if one is not None and len(one)]


def _ratios(base: Mapping[Any, float], candidate: Mapping[Any, float]) -> Array | None:
    """The log ratios of the blocks that both have; None where a value is not positive."""
    both = sorted(base.keys() & candidate.keys())
    one, other = np.array([base[k] for k in both]), np.array([candidate[k] for k in both])
    if (one <= 0).any() or (other <= 0).any():
        return None
    ratios: Array = np.log(other) - np.log(one)
    return ratios


def _by_blocks(ratios: Array, better: str, threshold: float, level: float) -> Tested:
    found = signed_rank(ratios, 2 * level)
    shifted = signed_rank(ratios - margin(better, threshold), interval=False)
    above, below = float(shifted.upper[0]), float(shifted.lower[0])
    within, worse = (above, below) if better == "higher" else (below, above)
    needed = least_blocks(1, 2 * level)
    short = (
        f"{plural(len(ratios), 'paired block')} cannot decide, at least {needed} are needed"
        if len(ratios) < needed
        else ""
    )
    centre, low, high = (math.exp(float(x[0])) for x in (found.centre, found.low, found.high))
    least = 2.0 ** -len(ratios)
    return Tested(within, worse, centre, low, high, len(ratios), short, least=least)


def _student(
    gap: float,
    error: float,
    freedom: int,
    better: str,
    threshold: float,
    level: float,
    n: int,
    note: str = "",
) -> Tested:
    from scipy.special import stdtr, stdtrit

    error = max(error, 1e-12)
    reach = float(stdtrit(freedom, 1 - level)) * error
    t = (gap - margin(better, threshold)) / error
    above, below = float(stdtr(freedom, -t)), float(stdtr(freedom, t))
    within, worse = (above, below) if better == "higher" else (below, above)
    # a run's mean may be far from the others': what is beyond exp(700) is no number
    low, high = (math.exp(max(-700.0, min(700.0, gap + sign * reach))) for sign in (-1, 1))
    return Tested(within, worse, math.exp(gap), low, high, n, "", note)


def unpaired(
    base: Sequence[Array],
    candidate: Sequence[Array],
    better: str,
    threshold: float,
    level: float = LEVEL,
) -> Tested | None:
    """Student's t test of the runs' mean logs, the run being the unit: the variance between base
    runs is the noise, the candidate's mean a new draw from it. None when a value is not positive.
    Fewer than 3 base runs decide nothing.
    """
    if (
        not base
        or not candidate
        or any((values <= 0).any() or not len(values) for values in (*base, *candidate))
    ):
        return None
    means = np.array([np.log(values).mean() for values in base])
    others = np.array([np.log(values).mean() for values in candidate])
    gap = float(others.mean() - means.mean())
    if len(means) < RUNS:
        short = (
            f"{len(means)} base run{'s' * (len(means) != 1)} cannot say how much runs differ among"
            f" themselves, at least {RUNS} are needed"
        )
        return Tested(1.0, 1.0, math.exp(gap), math.nan, math.nan, len(means), short)
    error = float(means.std(ddof=1)) * math.sqrt(1 / len(means) + 1 / len(others))
    return _student(gap, error, len(means) - 1, better, threshold, level, len(means))


def counted(
    base: Sequence[Mapping[Any, float]],
    candidate: Sequence[Mapping[Any, float]],
    better: str,
    threshold: float,
) -> Tested | None:
    """For what is counted and not measured: known without a test where each side is alike in all
    its blocks, else None.
    """
    ours, theirs = ({value for run in side for value in run.values()} for side in (base, candidate))
    if len(ours) != 1 or len(theirs) != 1:
        return None
    (one,), (other,) = ours, theirs
    worse = other > one * (1 + threshold) if better == "lower" else other < one * (1 - threshold)
    ratio = 1.0 if one == other else other / one if one else math.inf
    return Tested(
        1.0 if worse else 0.0,
        0.0 if worse else 1.0,
        ratio,
        ratio,
        ratio,
        min(len(side[0]) for side in (base, candidate)),
        "",
    )
