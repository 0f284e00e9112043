"""A mean that a few disturbed values do not move, and its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

TRIM = 0.2  # share of the values that is left out at each end


def trimmed(values: Sequence[float]) -> tuple[float, float]:
    """(trimmed mean, half width of its 95 % interval after Tukey and McLaughlin: the winsorized
    standard deviation with Student's t).
    """
    ordered = sorted(values)
    n = len(ordered)
    cut = int(TRIM * n)
    kept = ordered[cut : n - cut]
    mean = math.fsum(kept) / len(kept)
    if len(kept) < 2:
        return mean, math.inf
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    deviation = statistics.stdev(winsorized)
    from scipy.special import stdtrit

    return mean, float(stdtrit(len(kept) - 1, 0.975)) * deviation / ((1 - 2 * TRIM) * math.sqrt(n))


def error(half: float, n: int) -> tuple[float, int]:
    """(squared standard error, degrees of freedom) of the trimmed mean of ``n`` values, from the
    half width that ``trimmed`` gave: that of K. K. Yuen (Biometrika 61, 1974), which takes the
    number of values that were cut instead of its share, a tenth less for a dozen values.
    """
    from scipy.special import stdtrit

    left = n - 2 * int(TRIM * n)
    if left < 2:
        return math.inf, 0
    deviation = half / float(stdtrit(left - 1, 0.975)) * (1 - 2 * TRIM) * math.sqrt(n)
    return deviation**2 * (n - 1) / (left * (left - 1)), left - 1
