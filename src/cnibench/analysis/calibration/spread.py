"""Where the noise of one place comes from: deployments, blocks of a deployment, slices of a block.

All of it is of the log ratios of two equal labels, so that what they share cancels, and is halved:
one label's part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cnibench.analysis.calibration.deployments import Deployments
from cnibench.model.units import plural
from cnibench.stats.components import Component, nested
from cnibench.stats.diagnostics import outliers
from cnibench.stats.robust import error

_FEW = 20  # one value in so many, and one in any case, may be left out as an outlier

# block to (half width of its log ratio, number of slices)
Halves = Mapping[int, tuple[float, int]]


@dataclass(frozen=True)
class Part:
    """A standard deviation, as a fraction of the value, with its 95 % interval."""

    sd: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """None where that part is unknown: ``notes`` say why. ``slices`` is what they add to the
    value of a block, ``one_slice`` the standard deviation of one of ``slices_each``. ``blocks``
    contains the deployments if each has one block. ``left_out`` blocks are outliers.
    """

    deployments_measured: int
    blocks_measured: int
    slices_each: int
    left_out: int
    deployments: Part | None
    blocks: Part | None
    slices: Part | None
    one_slice: float | None
    notes: list[str] = field(default_factory=list)


def spread(ratios: Mapping[int, float], halves: Halves, measured: Deployments) -> Spread:
    """``ratios`` has the log ratio of each block, both of whose values are there."""
    kept = _without_outliers(ratios)
    groups = measured.grouped(list(kept))
    sizes = [halves[block] for block in kept if block in halves]
    found = nested([[kept[block] for block in one] for one in groups], [error(*it) for it in sizes])
    each = round(float(np.median([n for _, n in sizes]))) if sizes else 0
    slices = _part(found.slices)
    return Spread(
        deployments_measured=len(groups),
        blocks_measured=len(kept),
        slices_each=each,
        left_out=len(ratios) - len(kept),
        deployments=_part(found.deployments),
        blocks=_part(found.blocks),
        slices=slices,
        one_slice=slices.sd * math.sqrt(each) if slices else None,
        notes=_notes(groups, len(ratios) - len(kept), sliced=bool(sizes)),
    )


def _without_outliers(ratios: Mapping[int, float]) -> dict[int, float]:
    """Without a few that are far from all others: mean squares would be theirs alone. Many are no
    outliers but the noise.
    """
    far = outliers(np.array(list(ratios.values()))[None, :])[0] if ratios else np.zeros(0, bool)
    if far.sum() > max(1, len(ratios) // _FEW):
        return dict(ratios)
    return {
        block: value for (block, value), bad in zip(ratios.items(), far, strict=True) if not bad
    }


def _part(found: Component | None) -> Part | None:
    """Of one label: half of the variance of the ratio of two."""
    if found is None:
        return None
    sd, low, high = (math.sqrt(one / 2) for one in (found.variance, found.low, found.high))
    return Part(sd, low, high)


def _notes(groups: Sequence[Sequence[int]], left_out: int, *, sliced: bool) -> list[str]:
    found = []
    if left_out:
        found.append(f"{plural(left_out, 'outlier')} not used for the spread")
    if len(groups) < 2:
        found.append("one deployment does not show how deployments differ")
    elif max(map(len, groups)) < 2:
        found.append("one block of each deployment does not tell deployments from blocks")
    if not sliced:
        found.append("windows have no slices: their part is in that of the blocks")
    return found
