"""How many blocks a run needs, and what a run of so many could have found. Needs numpy only where it computes."""

from __future__ import annotations

import math
from functools import lru_cache

from cnibench.errors import UsageError

POWER = 0.8
_RUNS = 2000  # simulated comparisons: power is known to 0.9 percentage points
_SEED = 20210101
_SIMULATED = 60  # blocks up to which the exact test is simulated; beyond, its asymptotic efficiency is right to 2 %
_EFFICIENCY = 3 / math.pi  # of the signed-rank test against the t test under the normal distribution (Hodges and Lehmann, 1956)
_MOST = 100_000


def least_blocks(pairs: int, alpha: float = 0.05) -> int:
    """The least number of blocks with which ``pairs`` comparisons can be decided at all: an exact sign-flip test of n blocks never goes
    below p = 2/2^n, and Holm's first step asks for alpha / pairs. 1 pair: 6; 15 pairs: 10; 105 pairs: 13."""
    return max(1, math.ceil(math.log2(2 * max(1, pairs) / alpha) - 1e-9))


@lru_cache(maxsize=512)
def standard_effect(n: int, pairs: int, alpha: float = 0.05, power: float = POWER) -> float:
    """The true difference that ``n`` blocks find with that power in a family of so many pairs, in standard deviations of the log ratio
    between blocks; infinite when n blocks can find nothing.

    Normal noise is taken, the exact test is simulated with a fixed seed, and each pair must pass alpha / pairs, Holm's hardest step.
    """
    if n < least_blocks(pairs, alpha):
        return math.inf
    from scipy.special import ndtri

    level = alpha / max(1, pairs)
    rough = float(ndtri(1 - level / 2) + ndtri(power)) / math.sqrt(n * _EFFICIENCY)
    if n > _SIMULATED:
        return rough
    import numpy as np

    from cnibench.stats import signed_rank

    noise = np.random.default_rng(_SEED).standard_normal((_RUNS, n))
    low, high = 0.0, max(4.0, 3 * rough)
    for _ in range(10):
        middle = (low + high) / 2
        if float(np.mean(signed_rank(noise + middle, interval=False).p <= level * (1 + 1e-12))) >= power:
            high = middle
        else:
            low = middle
    return high


def planned_blocks(pairs: int, noise: float, resolution: float, alpha: float = 0.05, power: float = POWER) -> int:
    """The least number of blocks with which a true difference of ``resolution`` (0.02 is 2 %) between two profiles is found with that
    power. ``noise`` is the standard deviation of the log of one profile's value from block to block (0.01 is 1 %), what the blocks have in
    common taken out: the log ratio of two profiles then has noise * sqrt(2). Raises UsageError when more than 100 000 would be needed."""
    if not (resolution > 0 and math.isfinite(resolution)):
        raise UsageError("the resolution must be above 0", "give the smallest difference that matters to you, 2% say")
    if not (noise >= 0 and math.isfinite(noise)):
        raise UsageError("the noise must be 0 or more", "'cnibench calibrate' measures it")
    least = least_blocks(pairs, alpha)
    wanted = math.log1p(resolution)
    spread = noise * math.sqrt(2)

    def enough(n: int) -> bool:
        return standard_effect(n, pairs, alpha, power) * spread <= wanted if spread else True

    if enough(least):
        return least
    low, high = least, 2 * least
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST:
            raise UsageError(f"so fine a resolution ({resolution:.3g}) at this noise ({noise:.3g}) needs more than {_MOST} blocks",
                             "ask for a coarser one, or make each sample longer")  # fmt: skip
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def detectable(n: int, pairs: int, spread: float, alpha: float = 0.05, power: float = POWER) -> float:
    """The smallest difference, as a fraction, that ``n`` blocks could have found with that power, ``spread`` being the standard deviation
    of the log ratios; infinite when none."""
    effect = standard_effect(n, pairs, alpha, power)
    return math.inf if math.isinf(effect) else math.expm1(min(700.0, effect * spread))
