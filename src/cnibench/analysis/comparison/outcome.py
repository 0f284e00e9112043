"""Which pairs of a run are decided, and what the others need.

A pair is decided if its profiles are significantly different, or if it is proven that they differ
by less than the resolution. Differences hold together at the level of the run, over all of its
looks, and so do proofs of less: no pair can be wrong in both ways.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Pair
from cnibench.model.units import plural
from cnibench.stats.power import MOST_BLOCKS, decides


@dataclass(frozen=True)
class Decided:
    """``blocks`` are those that are finished, ``level`` is that of their tests. ``dependence`` says
    that neighbouring blocks depend on each other, '' where they do not seem to.
    """

    blocks: int
    resolution: float
    different: Sequence[Pair]
    equal: Sequence[Pair]
    undecided: Sequence[Pair]
    level: float
    dependence: str = ""

    @property
    def pairs(self) -> int:
        return len(self.different) + len(self.equal) + len(self.undecided)

    @property
    def blocks_for_all(self) -> int:
        """How many blocks would decide every pair, 0 where nobody can tell or none has as many."""
        each = [needed(self, pair) for pair in self.undecided]
        return max(each) if each and self.blocks < max(each) <= MOST_BLOCKS and all(each) else 0

    @property
    def reason(self) -> str:
        """Why the run may end, '' while it may not."""
        if self.undecided or self.dependence or not self.pairs:
            return ""
        return f"every pair is decided after {plural(self.blocks, 'block')}"


def outcome(
    pairs: Sequence[Pair], blocks: int, resolution: float, level: float, dependence: str = ""
) -> Decided:
    """These pairs, by what is known of each."""
    different = [pair for pair in pairs if _different(pair)]
    rest = [pair for pair in pairs if not _different(pair)]
    return Decided(
        blocks,
        resolution,
        different,
        [pair for pair in rest if equal(pair, resolution)],
        [pair for pair in rest if not equal(pair, resolution)],
        level,
        dependence,
    )


def equal(pair: Pair, resolution: float) -> bool:
    """Is it proven that the two differ by at most ``resolution``?"""
    return pair.within is not None and pair.within <= resolution


def needed(found: Decided, pair: Pair) -> int:
    """How many blocks would decide an undecided pair, 0 where nobody can tell."""
    if pair.ratio is None or pair.ratio <= 0 or not pair.scale:
        return 0
    return decides(pair.family, pair.scale, math.log(pair.ratio), found.resolution, found.level)


def _different(pair: Pair) -> bool:
    """What only the model of few repeats says ends no run: its level is not that of the looks."""
    return pair.verdict in PROVEN and pair.basis != "additive model"
