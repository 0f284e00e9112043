"""When a run that ends as soon as all pairs are decided may be looked at, and at which level.

The looks are fixed before the run starts, and so is the level of each. The levels add up to 5 %, so
by Bonferroni's inequality all statements together keep it, whatever made a look the last one: the
error spending of E. Slud and L. J. Wei (JASA 77, 1982) and K. K. G. Lan and D. L. DeMets
(Biometrika 70, 1983) without an assumption on how the looks depend on each other, which no exact
test provides. Early looks get the least level at which a test of so few blocks can find anything,
2/2^n, so that the last one keeps most of it. Which number of blocks is the last may also be decided
by a clock: it then gets what is left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cnibench.stats.power import least_blocks

ALPHA = 0.05
_FEW = 12  # blocks up to which three or more profiles are tested jointly (joint.py)
_MANY = 19  # blocks up to which one early look is enough


class Level(NamedTuple):
    """``different``: of tests and intervals; ``equal``: of proofs that two profiles differ by less
    than the resolution. Neither counts against the other: no pair can be wrong in both ways.
    """

    different: float
    equal: float


def looks(most: int, profiles: int, alpha: float = ALPHA) -> tuple[tuple[int, Level], ...]:
    """(number of blocks, levels) of each look at a run of at most ``most`` blocks.

    There is no early look where it would leave the last one too little to decide every pair. Two
    profiles, to which the joint test is of no use, spend less at early looks, and nothing in a run
    of 15 blocks or less, where it would cost more power than it saves time. Proofs of equality have
    half of their level at early looks, if that can prove any.
    """
    early = _early(most, profiles)
    left = alpha - sum(level for _, level in early)
    pairs = max(1, profiles * (profiles - 1) // 2)
    if not early or left <= 0 or least_blocks(pairs, left) > most:
        return ((most, Level(alpha, alpha)),)
    equal = alpha / 2 / len(early)
    if pairs / 2 ** early[0][0] > equal:
        equal = 0.0
    return (
        *((look, Level(level, equal)) for look, level in early),
        (most, Level(left, alpha - equal * len(early))),
    )


def _early(most: int, profiles: int) -> list[tuple[int, float]]:
    """(number of blocks, level) of the looks that come into question."""
    if profiles < 2:
        return []
    first = 10 if profiles == 2 else 8
    if most > _MANY:
        least = 2.0 ** (-9 if profiles == 2 else -7)
        return [(first, least), (round(math.sqrt(first * most)), min(least, 2.0**-8))]
    if profiles == 2:
        return [(10, 2.0**-9)] if most > 15 else []
    if most > _FEW:
        return [(8, 2.0**-7)]
    return [(7, 2.0**-6)] if most > 7 else []


def level_after(blocks: int, most: int, profiles: int, alpha: float = ALPHA) -> Level:
    """The levels of every statement about a run that ended after so many blocks: those of its last
    look, or what the looks before have left where something else ended it.
    """
    planned = looks(most, profiles, alpha)
    for look, level in planned:
        if look == blocks:
            return level
    made = [level for look, level in planned[:-1] if look < blocks]
    return Level(
        alpha - sum(level.different for level in made), alpha - sum(level.equal for level in made)
    )


def last_level(most: int, profiles: int, alpha: float = ALPHA) -> float:
    """The level of the tests of the last look."""
    return looks(most, profiles, alpha)[-1][1].different
