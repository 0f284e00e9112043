"""How long what is missing of a run takes: the windows, the Pods made for them, and the profiles
where one follows the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.planning.plan import expected_seconds
from cnibench.testbed.cluster import Cluster

if TYPE_CHECKING:
    from cnibench.run.workload import Workload


def whole(
    missing: Sequence[tuple[Cell, int]],
    workloads: Mapping[str, Workload],
    duration: float,
    warmup: float,
    cluster: Cluster,
    profiles: Mapping[str, Profile],
) -> float:
    """Seconds for these (cell, block); ``duration`` and ``warmup`` of cells that have none of their
    own.

    Profiles that stand side by side are not in it: they are there before the first window, and take
    little.
    """
    seconds = expected_seconds(
        (cell for cell, _ in missing), workloads, duration, warmup, cluster.pod_seconds
    )
    kept: dict[
        tuple[str, int], int
    ] = {}  # by label, and by block where each block has a standing of its own
    for cell, block in missing:
        deployment = (cell.label, 0 if cluster.simultaneous else block)
        kept[deployment] = max(kept.get(deployment, 0), workloads[cell.workload].kept_pods(cell))
    seconds += sum(kept.values()) * cluster.pod_seconds
    if not cluster.simultaneous:
        seconds += sum(cluster.seconds(profiles[label]) for label, _ in kept)
    return seconds
