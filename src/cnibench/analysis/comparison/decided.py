"""Which pairs of a run are decided while it goes on: the rule by which it ends."""

from __future__ import annotations

from dataclasses import replace

from cnibench.analysis.build import contexts_of, main_of
from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.comparison.host_baseline import to_host
from cnibench.analysis.comparison.levels import level_of, look_at
from cnibench.analysis.comparison.neighbours import dependence, main_contexts
from cnibench.analysis.comparison.outcome import Decided, outcome
from cnibench.analysis.comparison.pairs import compare
from cnibench.rundir.reader import RunReader


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
    return outcome(pairs, blocks or done, reader.plan.resolution, level, dependence(contexts))


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
