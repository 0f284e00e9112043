"""When a run may end by itself (``--target-ci``) without the errors of peeking.

The rule: the run is looked at after set numbers of blocks, fixed before it starts, and at no other
time. At each of at most 4 looks, and in the report, every test and interval is made at alpha / 4.
By Bonferroni's inequality all statements together then keep the level alpha whatever the reason for
which a look ended the run; it is the group sequential design of S. J. Pocock (Biometrika 64, 1977)
with the conservative constant, which needs no assumption on how the looks depend on each other. The
run ends at the first look at which the interval of every comparison, at that level over their
number, is no wider than asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cnibench.model.units import plural
from cnibench.stats.power import least_blocks

ALPHA = 0.05
_LOOKS = 4
# from look to look: fewer looks than after each block, and at most 40 % more blocks than needed
_GROWTH = 1.4


def looks(comparisons: int, max_blocks: int, alpha: float = ALPHA) -> tuple[int, ...]:
    """The numbers of blocks after which the run is looked at, the last being ``max_blocks``; they
    depend on nothing that is measured.
    """
    first = least_blocks(comparisons, alpha / _LOOKS)
    if first >= max_blocks:
        return (max_blocks,)
    found = [first]
    while len(found) < _LOOKS - 1 and math.ceil(found[-1] * _GROWTH) < max_blocks:
        found.append(math.ceil(found[-1] * _GROWTH))
    return (*found, max_blocks)


def level(alpha: float = ALPHA) -> float:
    """The level of each test and interval of a run that may end by itself, however many of its
    looks were made.
    """
    return alpha / _LOOKS


@dataclass(frozen=True)
class Decision:
    """``widest`` is the largest half width now, as a fraction (0.02 is 2 %), of ``comparison``;
    infinite when there is no interval yet.
    """

    stop: bool
    reason: str
    widest: float
    comparison: str


def decide(
    series: Mapping[str, Sequence[float]], target: float, max_blocks: int, alpha: float = ALPHA
) -> Decision:
    """Whether the run ends after the block just finished.

    ``series`` maps each comparison to its log ratios, one a finished block (with a single profile:
    to the logs of its values). ``target`` is the half width asked for as a fraction. A comparison
    with failed blocks has fewer values, and just a wider interval. A pure function.
    """
    blocks = max((len(values) for values in series.values()), default=0)
    planned = looks(len(series), max_blocks, alpha)
    if not series or blocks not in planned:
        following = next((look for look in planned if look > blocks), 0)
        if blocks and not following:
            return Decision(True, f"the most blocks allowed ({max_blocks}) are done", math.inf, "")
        return Decision(
            False, f"the next look is after block {following or planned[0]}", math.inf, ""
        )
    each = level(alpha) / len(series)
    name, widest = max(
        ((name, _half_width(values, each)) for name, values in series.items()),
        key=lambda item: item[1],
    )
    if widest <= target:
        return Decision(
            True,
            f"after {plural(blocks, 'block')} every interval is within ±{widest:.2%},"
            f" {target:.2%} was asked for",
            widest,
            name,
        )
    if blocks >= max_blocks:
        return Decision(
            True,
            f"the most blocks allowed ({max_blocks}) are done, the interval of {name} is still"
            f" ±{widest:.2%}",
            widest,
            name,
        )
    following = next(look for look in planned if look > blocks)
    return Decision(
        False,
        f"the interval of {name} is ±{widest:.2%}; the next look is after block {following}",
        widest,
        name,
    )


def _half_width(values: Sequence[float], alpha: float) -> float:
    """Half the width of the interval of the centre, as a fraction of the value itself."""
    import numpy as np

    from cnibench.stats.inference import signed_rank

    finite = np.asarray([value for value in values if math.isfinite(value)], dtype=np.float64)
    if not len(finite):
        return math.inf
    found = signed_rank(finite[None, :], alpha)
    low, high = float(found.low[0]), float(found.high[0])
    return math.inf if math.isnan(low) else math.expm1((high - low) / 2)
