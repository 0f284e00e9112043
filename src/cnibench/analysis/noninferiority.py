"""Is a candidate's figure worse than its base's by more than a threshold? One-sided tests of log
ratios, by blocks or by runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnibench.model.units import plural
from cnibench.stats.inference import Array, signed_rank
from cnibench.stats.power import least_blocks

LEVEL = 0.025
_RUNS = 3  # base runs from which the variance between runs can be known


@dataclass(frozen=True)
class Tested:
    """``p_worse`` of being worse than the threshold by chance, ``p_within`` of being within it by
    chance.
    """

    p_within: float
    p_worse: float
    ratio: float
    low: float
    high: float
    n: int
    short: str  # '' or why so few values cannot decide


def margin(better: str, threshold: float) -> float:
    """The log ratio candidate / base beyond which it is worse: log(1 - t) where higher is better,
    else log(1 + t).
    """
    return math.log1p(-threshold) if better == "higher" else math.log1p(threshold)


def paired(
    base: Mapping[Any, float], candidate: Mapping[Any, float], better: str, threshold: float
) -> Tested | None:
    """The signed-rank test of the log ratios block by block; None when no block has both, or a
    value is not positive.
    """
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
    short = (
        f"{plural(len(both), 'paired block')} cannot decide, at least {needed} are needed"
        if len(both) < needed
        else ""
    )
    centre, low, high = (math.exp(float(x[0])) for x in (found.centre, found.low, found.high))
    return Tested(within, worse, centre, low, high, len(both), short)


def unpaired(
    base: Sequence[Array], candidate: Sequence[Array], better: str, threshold: float
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
    if len(means) < _RUNS:
        short = (
            f"{len(means)} base run{'s' * (len(means) != 1)} cannot say how much runs differ among"
            f" themselves, at least {_RUNS} are needed"
        )
        return Tested(1.0, 1.0, math.exp(gap), math.nan, math.nan, len(means), short)
    from scipy.special import stdtr, stdtrit

    freedom = len(means) - 1
    error = max(float(means.std(ddof=1)) * math.sqrt(1 / len(means) + 1 / len(others)), 1e-12)
    reach = float(stdtrit(freedom, 1 - LEVEL)) * error
    t = (gap - margin(better, threshold)) / error
    above, below = float(stdtr(freedom, -t)), float(stdtr(freedom, t))
    within, worse = (above, below) if better == "higher" else (below, above)
    return Tested(
        within, worse, math.exp(gap), math.exp(gap - reach), math.exp(gap + reach), len(means), ""
    )


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
