"""Whether neighbouring blocks of a run depend on each other, over all that it decides about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cnibench.analysis.comparison.contexts import Context
from cnibench.stats.diagnostics import Dependence, dependence_together
from cnibench.stats.inference import Array

_LEVEL = 0.05

ASSUMED = (
    "This assumes that neighbouring blocks do not depend on each other, which these values do not"
    " exclude."
)


def main_contexts(contexts: Sequence[Context], main: Mapping[str, str]) -> list[Context]:
    """What is decided about: each place's main metric, measured without perf, of two labels or
    more.
    """
    return [
        one
        for one in contexts
        if one.window == "speed"
        and len(one.members) > 1
        and not one.where["reading"]
        and one.where["metric"] == main.get(one.where["workload"])
    ]


def dependence(contexts: Sequence[Context]) -> str:
    """A sentence that neighbouring blocks depend on each other, and by how much; '' where the test
    does not say so.
    """
    return _said(dependence_together(_tables(contexts)))


def independence(contexts: Sequence[Context], known: bool) -> str:
    """A sentence where blocks depend on each other, or where the values do not exclude it though
    verdicts are ``known``; else ''. The repeats of other tools are no neighbours.
    """
    paired = [one for one in contexts if one.paired]
    if not paired:
        return ""
    found = dependence_together(_tables(paired))
    excluded = found is not None and found.excluded
    return _said(found) or (ASSUMED if known and not excluded else "")


def _said(found: Dependence | None) -> str:
    if found is None or found.p > _LEVEL:
        return ""
    return (
        "Neighbouring blocks seem to depend on each other (lag-1 correlation"
        f" {found.correlation:.2f} over all profiles, p={found.p:.2g}): differences may be false"
        " and intervals too narrow; measure again, more blocks over a longer time."
    )


def _tables(contexts: Sequence[Context]) -> list[Array]:
    return [table for one in contexts if (table := _table(one)) is not None]


def _table(context: Context) -> Array | None:
    """The logs of the blocks that all labels have (labels x blocks)."""
    values = [member.values for member in context.members.values()]
    both = sorted(set.intersection(*(set(one) for one in values)))
    table = np.array([[one[block] for block in both] for one in values])
    return np.log(table) if table.size and bool((table > 0).all()) else None
