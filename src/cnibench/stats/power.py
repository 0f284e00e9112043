"""How many blocks a run needs, and what a run of so many could have found. Needs numpy only where
it computes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from cnibench.errors import UsageError

if TYPE_CHECKING:
    from cnibench.stats.inference import Array

MOST_BLOCKS = 1000  # of one run
POWER = 0.8
_RUNS = 2000  # simulated comparisons: power is known to 0.9 percentage points
_SEED = 20210101
_JOINT_RUNS = 500
_FLIPS = 1600  # of all pairs, up to which the joint test is simulated: longer takes seconds
# blocks up to which the exact test is simulated; beyond, its asymptotic efficiency is right to 2 %
_SIMULATED = 60
_EFFICIENCY = (
    3 / math.pi
    # of the signed-rank test against the t test under the normal distribution (Hodges and Lehmann,
    # 1956)
)
_MOST = 100_000
# of 1/n, by which the difference that is found in so many blocks is larger where its standard
# deviation is estimated: half the second derivative of the power in units of the effect over the
# first, times the variance of the estimate's logarithm, 1/(2 * 0.82 n)
_ESTIMATED = 0.72


def least_blocks(pairs: int, alpha: float = 0.05) -> int:
    """The least number of blocks with which ``pairs`` comparisons can be decided at all: an exact
    sign-flip test of n blocks never goes below p = 2/2^n, and Holm's first step asks for alpha /
    pairs. 1 pair: 6; 15 pairs: 10; 105 pairs: 13.
    """
    return max(1, math.ceil(math.log2(2 * max(1, pairs) / alpha) - 1e-9))


@lru_cache(maxsize=512)
def standard_effect(
    n: int,
    pairs: int,
    alpha: float = 0.05,
    power: float = POWER,
    *,
    estimated: bool = False,
    jointly: bool = False,
) -> float:
    """The true difference that ``n`` blocks find with that power in a family of so many pairs, in
    standard deviations of the log ratio between blocks; infinite when n blocks can find nothing.

    Normal noise is taken, the exact test is simulated with a fixed seed, and each pair must pass
    alpha / pairs, Holm's hardest step. ``jointly``: the test is that of joint.py, with one profile
    that differs from all others; of many pairs and blocks it is not simulated, and a little more is
    found than is said. ``estimated``: the standard deviation is not known, but ``scale`` of so many
    blocks. What is found with that power on average over the estimates is larger: too low an
    estimate costs more power than too high a one gains.
    """
    jointly = jointly and pairs > 2 and pairs * 2 ** (n - 1) <= _FLIPS
    if n < least_blocks(1 if jointly else pairs, alpha):
        return math.inf
    level = alpha / max(1, pairs)
    rough = _asymptotic(level, power) / math.sqrt(n * _EFFICIENCY)
    if n > _SIMULATED:
        return rough * (1 + estimated * _ESTIMATED / n)
    low, high = 0.0, max(4.0, 3 * rough) * (1 + 4 * estimated / n)
    for _ in range(10):
        middle = (low + high) / 2
        found = (
            _joint_power(n, pairs, alpha, middle, estimated)
            if jointly
            else _power(n, level, middle, estimated)
        )
        low, high = (low, middle) if found >= power else (middle, high)
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


def _power(n: int, level: float, effect: float, estimated: bool = False) -> float:
    """The share of simulated comparisons under normal noise in which the exact test finds a
    difference of ``effect`` standard deviations, or estimates of it from ``n`` other blocks.
    """
    import numpy as np

    from cnibench.stats.inference import signed_rank

    noise = np.random.default_rng(_SEED).standard_normal((_RUNS, n))
    shift = effect * _estimates(n)[:, None] if estimated else effect
    return float(np.mean(signed_rank(noise + shift, interval=False).p <= level * (1 + 1e-12)))


def _joint_power(n: int, pairs: int, alpha: float, effect: float, estimated: bool) -> float:
    """The same of the joint test among all profiles, of which one differs by ``effect``."""
    import numpy as np

    from cnibench.stats.joint import different

    profiles = (1 + math.isqrt(1 + 8 * pairs)) // 2
    rng = np.random.default_rng(_SEED)
    values = rng.standard_normal((_JOINT_RUNS, profiles, n)) / math.sqrt(2)
    values[:, 0] += effect * _estimates(n)[:_JOINT_RUNS, None] if estimated else effect
    one, other = np.triu_indices(profiles, 1)
    p = different(values[:, one] - values[:, other])[:, : profiles - 1]
    return float(np.mean(p <= alpha * (1 + 1e-12)))


@lru_cache(maxsize=64)
def _estimates(n: int) -> Array:
    """What ``scale`` says of a standard deviation of 1, for each simulated comparison."""
    import numpy as np

    from cnibench.stats.scale import scale

    return scale(np.random.default_rng(_SEED + n).standard_normal((_RUNS, n)))


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


def decides(
    pairs: int,
    spread: float,
    difference: float,
    resolution: float,
    alpha: float = 0.05,
    power: float = POWER,
) -> int:
    """The number of blocks that decide about a pair whose true log ratio is ``difference`` with
    that power: it is found, or proven to be less than the resolution (a fraction). ``spread`` as
    for ``about``. 0 where neither is possible in 100 000 blocks.
    """
    try:
        found = planned_blocks(
            pairs, spread / math.sqrt(2), math.expm1(abs(difference)), alpha, power
        )
    except UsageError:
        found = 0
    margin = math.log1p(resolution) - abs(difference)
    if margin <= 0 or spread <= 0:
        return found
    level = 2 * alpha / max(1, pairs)
    # two one-sided tests, each of which may fail with half of what may fail
    errors = _asymptotic(level, (1 + power) / 2)
    n = max(2, math.ceil((errors * spread / margin) ** 2 / _EFFICIENCY))
    while n <= _SIMULATED and not _proves(n, level, difference / spread, margin, spread) >= power:
        n += 1
    return min(found or n, n) if n <= _MOST else found


def _proves(n: int, level: float, effect: float, margin: float, spread: float) -> float:
    """The share of simulated comparisons under normal noise in which the interval of that level is
    within the bounds that are ``margin`` beyond the effect.
    """
    import numpy as np

    from cnibench.stats.inference import intervals

    noise = np.random.default_rng(_SEED).standard_normal((_RUNS, n))
    low, high = intervals(noise + effect, level)
    bound = abs(effect) + margin / spread
    return float(np.mean((low >= -bound) & (high <= bound)))


def detectable(
    n: int, pairs: int, spread: float, alpha: float = 0.05, power: float = POWER
) -> float:
    """The smallest difference, as a fraction, that ``n`` blocks find with that power, ``spread``
    being the known standard deviation of the log ratios; infinite when none."""
    effect = standard_effect(n, pairs, alpha, power)
    return math.inf if math.isinf(effect) else math.expm1(min(700.0, effect * spread))
