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
