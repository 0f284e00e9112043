"""How many blocks or runs a non-inferiority test takes. Needs numpy and scipy only where it
computes.

Effects are margins in standard deviations: of the log ratio from block to block, or of a run's mean
log from run to run. Noise is taken as normal, cells as independent; positively dependent cells pass
together more often than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from cnibench.errors import UsageError
from cnibench.stats.power import MOST_BLOCKS, least_blocks

if TYPE_CHECKING:
    from cnibench.stats.inference import Array

POWER = 0.9
_CONFIDENCE = 0.8
# blocks up to which the exact test is simulated; beyond, its power is that of Student's test with
# its efficiency to one percentage point, for levels down to 0.0004
_SIMULATED = 20
_RUNS = 4000  # simulated tests: their power is known to 0.5 percentage points
_SEED = 20220707
_EFFICIENCY = 3 / math.pi  # of the signed-rank test under normal noise (Hodges and Lehmann, 1956)
_MOST_RUNS = 200
_MOST_REPEATS = 12  # runs of one candidate
_START = 3  # blocks that take as long as to start a run
_FREEDOM = 2  # degrees of freedom without which no candidate passes (gate/noninferiority.py)


def upper_spread(spread: float, freedom: int) -> float:
    """The upper 80 % confidence limit of a standard deviation that was estimated with so many
    degrees of freedom, normal noise. A plan made with it has at least the power asked for in 80 %
    of all pilots (R. H. Browne, Statist. Med. 14, 1995).
    """
    from scipy.special import chdtri

    return spread * math.sqrt(freedom / float(chdtri(freedom, _CONFIDENCE)))


def proves(blocks: int, effect: float, level: float) -> float:
    """The probability with which the one-sided exact signed-rank test of that level finds a true
    difference of ``effect``; infinite effects are found by as many blocks as can find anything.
    """
    if blocks < least_blocks(1, 2 * level):
        return 0.0
    if math.isinf(effect):
        return 1.0
    if blocks > _SIMULATED:
        return _student(blocks - 1, effect * math.sqrt(blocks * _EFFICIENCY), level)
    import numpy as np

    limits = _limits(blocks, level)
    return 1.0 - float(np.searchsorted(limits, -effect, side="right")) / len(limits)


@lru_cache(maxsize=512)
def _limits(blocks: int, level: float) -> Array:
    """Of simulated noise, the lower confidence limits, sorted: the test finds an effect where the
    limit of noise + effect is above 0, being the test's own inversion.
    """
    import numpy as np

    from cnibench.stats.inference import signed_rank

    noise = np.random.default_rng(_SEED).standard_normal((_RUNS, blocks))
    return np.sort(signed_rank(noise, 2 * level).low)


def all_pass(blocks: int, effects: Sequence[float], level: float) -> float:
    """The probability that every one of these independent cells passes."""
    return math.prod(proves(blocks, effect, level) for effect in effects)


def blocks_to_pass(effects: Sequence[float], level: float, power: float = POWER) -> int | None:
    """The least number of blocks with which all cells together pass with that power; None above
    1000. Raises UsageError when the power is not between 0 and 1.
    """
    if not 0 < power < 1:
        raise UsageError(
            f"the power must be above 0 and below 1, not {power:g}", "write --power 90%"
        )
    least = least_blocks(1, 2 * level)
    return _least(least, MOST_BLOCKS, lambda blocks: all_pass(blocks, effects, level) >= power)


def _least(low: int, high: int, enough: Callable[[int], bool]) -> int | None:
    """The least number from ``low`` to ``high`` that is enough, as all larger ones are."""
    if high < low or not enough(high):
        return None
    low -= 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def runs_to_pass(
    effects: Sequence[float], level: float, power: float = POWER, base: int = 3
) -> tuple[int, int] | None:
    """(base runs, candidate runs), as few as possible, with which all cells together pass Student's
    test of runs against runs, whose variance is that of the base runs; at least ``base`` base runs.
    None above 200 in total.
    """
    for total in range(base + 1, _MOST_RUNS + 1):
        for candidates in range(1, total - base + 1):
            if _runs_pass(total - candidates, candidates, effects, level) >= power:
                return total - candidates, candidates
    return None


def repeats_to_pass(
    effects: Sequence[float], level: float, power: float = POWER, freedom: int = 0
) -> tuple[int, int] | None:
    """(runs, blocks of each), with as little to measure as possible, with which all cells together
    pass Student's test of the runs' mean log ratios; ``freedom`` are the degrees of freedom that
    other candidates' runs add. Runs are taken to differ no more than their blocks explain. None
    above 1000 blocks a run.
    """
    found = []
    for runs in range(max(1, _FREEDOM + 1 - freedom), _MOST_REPEATS + 1):
        passes = partial(_repeats_enough, runs, effects, level, freedom, power)
        blocks = _least(math.ceil(least_blocks(1, 2 * level) / runs), MOST_BLOCKS, passes)
        if blocks is not None:
            found.append((runs, blocks))
    return min(found, key=lambda one: one[0] * (one[1] + _START), default=None)


def _repeats_enough(
    runs: int, effects: Sequence[float], level: float, freedom: int, power: float, blocks: int
) -> bool:
    return repeats_pass(runs, blocks, effects, level, freedom) >= power


def repeats_pass(
    runs: int, blocks: int, effects: Sequence[float], level: float, freedom: int
) -> float:
    """The probability that all of these independent cells pass that test, or that of all blocks,
    whichever is less: nobody knows which of the two will decide.
    """
    known, total = freedom + runs - 1, runs * blocks
    return math.prod(
        min(_student(known, effect * math.sqrt(total), level), proves(total, effect, level))
        for effect in effects
    )


def _runs_pass(base: int, candidates: int, effects: Sequence[float], level: float) -> float:
    error = math.sqrt(1 / base + 1 / candidates)
    return math.prod(_student(base - 1, effect / error, level) for effect in effects)


def _student(freedom: int, shift: float, level: float) -> float:
    """The power of Student's one-sided test; ``shift`` is the difference in standard errors."""
    from scipy.special import nctdtr, stdtrit

    critical = float(stdtrit(freedom, 1 - level))
    missed = float(nctdtr(freedom, min(shift, 10 * critical + 30.0), critical))
    # far from the critical value, where nothing is missed, the function gives up at times
    return 1.0 if math.isnan(missed) else 1.0 - missed
