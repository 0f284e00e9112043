"""The ratio of two cells that took turns in rounds of slices."""

from __future__ import annotations

import math
from collections.abc import Iterable

from cnibench.run.slices.slice import Slice
from cnibench.stats.robust import trimmed


def log_ratio(slices: Iterable[Slice], one: str, other: str) -> tuple[float, float]:
    """(log of the ratio of two cells' rates, half width of its 95 % interval), over the rounds in
    which both moved something.
    """
    rates: dict[int, dict[str, float]] = {}
    for piece in slices:
        if piece.units > 0:
            rates.setdefault(piece.round, {})[piece.cell] = piece.rate
    return trimmed(
        [math.log(r[one] / r[other]) for r in rates.values() if {one, other} <= r.keys()]
    )
