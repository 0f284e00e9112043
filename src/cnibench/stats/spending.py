"""The level of each look at data that accumulate, so that all looks together keep one level.

Look k of a series spends level / (k (k + 1)): half of it at the first look, a sixth at the second.
These parts add up to level * k / (k + 1) after k looks, so that a series of any length, whose end
nobody has to know, stays below the level. It is a spending function (K. K. G. Lan and D. L. DeMets,
Biometrika 70, 1983) in the number of looks, used with Bonferroni's inequality: that needs nothing
known of how the looks depend on each other, and every test may be one that is exact by itself. When
a look takes place, and how much is measured until then, must not follow from the differences seen.
"""

from __future__ import annotations


def level_of_look(look: int, level: float) -> float:
    """What the ``look``-th look (from 1) spends of ``level``."""
    return level / (look * (look + 1))


def spent(looks: int, level: float) -> float:
    """What the first ``looks`` looks have spent together."""
    return level * looks / (looks + 1)
