"""When a run that ends as soon as all pairs are decided may be looked at.

The looks are fixed before the run starts. What each of them spends of the level is in the p of
joint.py. 6 blocks are the least that can decide anything: whatever the test, a profile with two
speeds is in 5 blocks as often on one side of the others as 5 tosses of a coin agree, in 6.25 %.
"""

from __future__ import annotations

import math
from typing import NamedTuple

ALPHA = 0.05
NORMAL = 0.005  # what an early look spends if the noise is normal and of one size
_FIRST = 6
_GROWTH = 1.25  # from look to look: at most a quarter more blocks than needed
_LONG = 28  # blocks from which on looks are further apart: few runs get there
_WORTH = 2  # blocks that an early look has to save


class Look(NamedTuple):
    """``before``: the numbers of blocks of earlier looks. ``early``: others follow it.
    ``resolution``: two profiles are equal if they differ by less than that fraction.
    """

    before: tuple[int, ...]
    early: bool
    resolution: float


def looks(most: int) -> tuple[int, ...]:
    """The numbers of blocks of the looks at a run of at most ``most`` blocks."""
    found = [_FIRST]
    while found[-1] <= most - _WORTH:
        growth = _GROWTH if found[-1] < _LONG else 2
        found.append(math.ceil(found[-1] * growth))
    return (*found[:-1], most)


def look_after(blocks: int, most: int, resolution: float) -> Look:
    """The look that so many blocks are: one that was planned, or the last one where something else
    ended the run.
    """
    early = looks(most)[:-1]
    return Look(tuple(look for look in early if look < blocks), blocks in early, resolution)


def left(most: int, alpha: float = ALPHA) -> float:
    """What the early looks of a run leave of the level for its last one, if the noise is normal."""
    return alpha - NORMAL * min(8, len(looks(most)) - 1)
