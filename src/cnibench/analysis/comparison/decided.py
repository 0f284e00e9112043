"""Which pairs of a run are decided, and what the others need: the rule by which a run ends.

A pair is decided if its profiles are significantly different, or if it is proven that they differ
by less than the resolution. Differences hold together at the level of the run, over all of its
looks, and so do proofs of less: no pair can be wrong in both ways.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cnibench.analysis.build import contexts_of, main_of
from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.comparison.host_baseline import to_host
from cnibench.analysis.comparison.levels import level_of, look_at
from cnibench.analysis.comparison.neighbours import dependence, main_contexts
from cnibench.analysis.comparison.pairs import compare
from cnibench.analysis.model import Pair
from cnibench.model.units import plural
from cnibench.rundir.reader import RunReader
from cnibench.stats.power import decides


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
    dependence: str

    @property
    def pairs(self) -> int:
        return len(self.different) + len(self.equal) + len(self.undecided)

    @property
    def reason(self) -> str:
        """Why the run may end, '' while it may not."""
        if self.undecided or self.dependence or not self.pairs:
            return ""
        return f"every pair is decided after {plural(self.blocks, 'block')}"


def decided(reader: RunReader, blocks: int = 0) -> Decided:
    """What the first ``blocks`` blocks decide, 0: all that are there."""
    level = level_of(reader.plan)
    contexts = main_contexts(
        to_host([_first(one, blocks) for one in contexts_of(reader)])[0], main_of([reader])
    )
    pairs, _ = compare(contexts, level, look_at(reader, blocks), groups=False)
    done = 1 + max(
        (block for one in contexts for it in one.members.values() for _, block in it.values),
        default=-1,
    )
    different = [pair for pair in pairs if _different(pair)]
    rest = [pair for pair in pairs if not _different(pair)]
    resolution = reader.plan.resolution
    equal = [pair for pair in rest if pair.within is not None and pair.within <= resolution]
    undecided = [pair for pair in rest if pair.within is None or pair.within > resolution]
    return Decided(
        blocks or done, resolution, different, equal, undecided, level, dependence(contexts)
    )


def _different(pair: Pair) -> bool:
    """What only the model of few repeats says ends no run: its level is not that of the looks."""
    return pair.verdict in ("a-better", "b-better") and pair.basis != "additive model"


def needed(found: Decided, pair: Pair) -> int:
    """How many blocks would decide an undecided pair, 0 where nobody can tell."""
    if pair.ratio is None or pair.ratio <= 0 or not pair.scale:
        return 0
    return decides(pair.family, pair.scale, math.log(pair.ratio), found.resolution, found.level)


def _first(context: Context, blocks: int) -> Context:
    if not blocks:
        return context
    members = {
        label: replace(
            member,
            values={block: value for block, value in member.values.items() if block[1] < blocks},
        )
        for label, member in context.members.items()
    }
    return replace(context, members={name: one for name, one in members.items() if one.values})
