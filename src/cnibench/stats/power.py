"""How many blocks a run needs, and what a run of so many could have found. Needs numpy only where
it computes.
"""

from __future__ import annotations

import math
from functools import lru_cache

from cnibench.errors import UsageError

MOST_BLOCKS = 1000  # of one run
POWER = 0.8
_RUNS = 2000  # simulated comparisons: power is known to 0.9 percentage points
_SEED = 20210101
# blocks up to which the exact test is simulated; beyond, its asymptotic efficiency is right to 2 %
_SIMULATED = 60
_EFFICIENCY = (
    3 / math.pi
    # of the signed-rank test against the t test under the normal distribution (Hodges and Lehmann,
    # 1956)
)
_MOST = 100_000


def least_blocks(pairs: int, alpha: float = 0.05) -> int:
    """The least number of blocks with which ``pairs`` comparisons can be decided at all: an exact
    sign-flip test of n blocks never goes below p = 2/2^n, and Holm's first step asks for alpha /
    pairs. 1 pair: 6; 15 pairs: 10; 105 pairs: 13.
    """
    return max(1, math.ceil(math.log2(2 * max(1, pairs) / alpha) - 1e-9))


@lru_cache(maxsize=512)
def standard_effect(n: int, pairs: int, alpha: float = 0.05, power: float = POWER) -> float:
    """The true difference that ``n`` blocks find with that power in a family of so many pairs, in
    standard deviations of the log ratio between blocks; infinite when n blocks can find nothing.

    Normal noise is taken, the exact test is simulated with a fixed seed, and each pair must pass
    alpha / pairs, Holm's hardest step.
    """
    if n < least_blocks(pairs, alpha):
        return math.inf
    level = alpha / max(1, pairs)
    rough = _asymptotic(level, power) / math.sqrt(n * _EFFICIENCY)
    if n > _SIMULATED:
        return rough
    low, high = 0.0, max(4.0, 3 * rough)
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (low, middle) if _power(n, level, middle) >= power else (middle, high)
    return high


def planned_blocks(
    pairs: int, noise: float, resolution: float, alpha: float = 0.05, power: float = POWER
) -> int:
    """The least number of blocks with which a true difference of ``resolution`` (0.02 is 2 %)
    between two profiles is found with that power. ``noise`` is the standard deviation of the log of
    one profile's value from block to block (0.01 is 1 %), what the blocks have in common taken out:
    the log ratio of two profiles then has noise * sqrt(2). Raises UsageError when more than 100 000
    would be needed.
    """
    if not (resolution > 0 and math.isfinite(resolution)):
        raise UsageError(
            "the resolution must be above 0",
            "give the smallest difference that matters to you, 2% say",
        )
    if not (noise >= 0 and math.isfinite(noise)):
        raise UsageError("the noise must be 0 or more", "'cnibench calibrate' measures it")
    least = least_blocks(pairs, alpha)
    if noise == 0:
        return least
    effect = math.log1p(resolution) / (noise * math.sqrt(2))
    level = alpha / max(1, pairs)
    n = max(least, math.ceil(_asymptotic(level, power) ** 2 / (_EFFICIENCY * effect**2)))
    if n > _MOST:
        raise UsageError(
            f"so fine a resolution ({resolution:.3g}) at this noise ({noise:.3g}) needs more than"
            f" {_MOST} blocks",
            "ask for a coarser one, or make each sample longer",
        )
    while n > least and _finds(n - 1, level, effect, power):
        n -= 1
    while not _finds(n, level, effect, power):
        n += 1
    return n


def _finds(n: int, level: float, effect: float, power: float) -> bool:
    """Do ``n`` blocks find a difference of ``effect`` standard deviations at that level with that
    power?
    """
    if n > _SIMULATED:
        return _asymptotic(level, power) <= effect * math.sqrt(n * _EFFICIENCY)
    return _power(n, level, effect) >= power


def _asymptotic(level: float, power: float) -> float:
    """Standard errors between no difference and one that a two-sided test of that level finds with
    that power.
    """
    from scipy.special import ndtri

    return float(ndtri(1 - level / 2) + ndtri(power))


def _power(n: int, level: float, effect: float) -> float:
    """The share of simulated comparisons under normal noise in which the exact test finds a
    difference of ``effect``.
    """
    import numpy as np

    from cnibench.stats.inference import signed_rank

    noise = np.random.default_rng(_SEED).standard_normal((_RUNS, n))
    return float(np.mean(signed_rank(noise + effect, interval=False).p <= level * (1 + 1e-12)))


def about(
    pairs: int, spread: float, difference: float, alpha: float = 0.05, power: float = POWER
) -> int:
    """About how many blocks find that difference (a fraction) when the log ratios have that
    ``spread``; planned_blocks knows it exactly.
    """
    if not (difference > 0 and spread >= 0):
        return 0
    errors = _asymptotic(alpha / max(1, pairs), power)
    return max(
        least_blocks(pairs, alpha),
        math.ceil((errors * spread / math.log1p(difference)) ** 2 / _EFFICIENCY),
    )


def detectable(
    n: int, pairs: int, spread: float, alpha: float = 0.05, power: float = POWER
) -> float:
    """The smallest difference, as a fraction, that ``n`` blocks could have found with that power,
    ``spread`` being the standard deviation of the log ratios; infinite when none."""
    effect = standard_effect(n, pairs, alpha, power)
    return math.inf if math.isinf(effect) else math.expm1(min(700.0, effect * spread))
