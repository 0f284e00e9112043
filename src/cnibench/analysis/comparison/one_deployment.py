"""Whether verdicts rest on blocks that all have the same deployment of each profile."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Pair
from cnibench.rundir.schema import Manifest

NOTE = (
    "windows in the lab: all blocks have the same deployment of each profile, so p values and"
    " intervals do not contain by how much deployments differ (slices deploy for each block)"
)


def notes(plan: Manifest, pairs: Sequence[Pair]) -> list[str]:
    """``NOTE``, where it is true of windows that any of the ``pairs`` of this one run rests on."""
    if plan.cluster != "lab" or plan.deployment_blocks:
        return []
    decided = (one for one in pairs if one.verdict in PROVEN or one.within)
    return [NOTE] if any(one.method == "windows" and not one.exact for one in decided) else []
