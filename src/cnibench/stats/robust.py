"""A mean that a few disturbed values do not move, and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

TRIM = 0.2  # share of the values that is left out at each end


def trimmed(values: Sequence[float]) -> tuple[float, float]:
    """(trimmed mean, half width of its 95 % interval): the winsorized standard deviation with
    Student's t, as K. K. Yuen has it (Biometrika 61, 1974).

    With the number of values that were cut, not the share ``TRIM``: of 14 values 2 are cut at each
    end, which is a seventh, and a fifth would widen the interval by a sixth.
    """
    ordered = sorted(values)
    n = len(ordered)
    cut = int(TRIM * n)
    kept = ordered[cut : n - cut]
    left = len(kept)
    mean = math.fsum(kept) / left
    if left < 2:
        return mean, math.inf
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    middle = math.fsum(winsorized) / n
    squares = math.fsum((value - middle) * (value - middle) for value in winsorized)
    return mean, _t(left) * math.sqrt(squares / (left * (left - 1)))


def error(half: float, n: int) -> tuple[float, int]:
    """(squared standard error, degrees of freedom) of the trimmed mean of ``n`` values, from the
    half width that ``trimmed`` gave.
    """
    left = n - 2 * int(TRIM * n)
    return ((half / _t(left)) ** 2, left - 1) if left >= 2 else (math.inf, 0)


@cache
def _t(left: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(left - 1, 0.975))
