"""From which value of a swept parameter on is one of two profiles better, where a turning point
cannot be claimed because they may be equal at the first value?

The values are tested in a fixed order, the largest first, until one is not significant (W. Maurer,
L. A. Hothorn and W. Lehmacher, in: Biometrie in der chemisch-pharmazeutischen Industrie 6, 1995):
each at the full level, which Bonferroni's inequality shares among the pairs of the sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cnibench.stats.inference import Array, signed_rank


class Onset(NamedTuple):
    """The smallest ``value`` of those from which on the same one is better: the first of the pair
    (``first``), or the other.
    """

    value: float
    first: bool


def onset(table: Array, values: Sequence[float], level: float, family: int) -> Onset | None:
    """``table``: log ratios of one pair (shape: blocks x values), above 0 where the first is
    better; ``values`` rise. None where the largest value decides nothing.
    """
    if not table.size or not np.isfinite(table).all():
        return None
    tested = signed_rank(table.T)
    found = None
    for at in reversed(range(len(values))):
        side = bool(tested.centre[at] > 0)
        if tested.p[at] * family > level or (found and found.first != side):
            break
        found = Onset(values[at], side)
    return found
