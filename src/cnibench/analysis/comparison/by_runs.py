"""Several runs of one machine in one context: the run is the unit on top of its blocks.

The two-level model: log ratio = true ratio + what the run adds + what the block adds. Blocks of one
run share what the run adds, so that more blocks in each run do not make a small number of runs
large. Each label's blocks of a run become one value, and the tests of pairs see one value for each
run. For runs of as many blocks this is the analysis of means at the highest level of T. Kalibera
and R. Jones (Rigorous Benchmarking in Reasonable Time, ISMM 2013).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.comparison.few_repeats import table_of
from cnibench.model.metrics import COUNTED
from cnibench.stats.additive import levels


def by_runs(context: Context) -> Context:
    """The context with one value a run, by its number, where any label has values of several runs;
    else the same.

    A run's value of a label is the geometric mean over its blocks (the mean for counts, and where a
    value is not positive), without what a block adds to all labels, as blocks may lack some.
    """
    every = [{run for run, _ in one.values} for one in context.members.values()]
    if all(len(runs) < 2 for runs in every):
        return context
    positive = all(value > 0 for one in context.members.values() for value in one.values.values())
    logs = positive and context.where["metric"] not in COUNTED
    found = replace(context, members={}, replicate="run")
    for label, member in context.members.items():
        found.members[label] = replace(member, values={})
    for run in sorted(set().union(*every)):
        table = table_of(_only(context, run))
        values = levels(np.log(table) if logs else table, paired=context.paired and logs)
        for member, value in zip(found.members.values(), values.tolist(), strict=True):
            if not math.isnan(value):
                member.values[0, run] = math.exp(value) if logs else value
    return found


def _only(context: Context, run: int) -> Context:
    """The blocks of one run."""
    members = {
        label: replace(one, values={key: x for key, x in one.values.items() if key[0] == run})
        for label, one in context.members.items()
    }
    return replace(context, members=members)
