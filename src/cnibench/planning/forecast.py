"""What cells take: the time of their windows and slices, of the Pods and Services made for them and
of the profiles where one follows the other, and the bytes that they send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.testbed.capabilities.service_time import ServiceTime
from cnibench.testbed.cluster import Cluster

if TYPE_CHECKING:
    from cnibench.run.workload import Workload

# s around a window, measured in the lab on two CPUs: its server, settings, conditions and readings.
AROUND = 0.4
CROSS_CHECK = 1.5  # s of a window of the tool, once for each cell in slices, with its start
_SLICED = 1.4  # times its slices that a cell takes in a block, with lead-ins and its start


def expected_seconds(
    plan_cells: Iterable[Cell],
    workloads: Mapping[str, Workload],
    duration: float,
    warmup: float,
    pod: float = 0.0,
) -> float:
    """Time of one block in seconds, without making and attesting the profiles; pairs that are
    measured at the same time count once.

    ``pod`` is what one Pod that a sample makes takes (Cluster.pod_seconds).
    """
    known = ((cell, workloads[cell.workload]) for cell in plan_cells)
    return sum(
        _SLICED * (cell.duration or duration)
        if cell.method == "slices"
        else AROUND
        + work.seconds(cell.params, cell.duration or duration, warmup)
        + pod * work.pods(cell)
        for cell, work in known
        if not work.runs_concurrently(cell)
    )


def of_services(cell: Cell, cluster: Cluster, profiles: Mapping[str, Profile]) -> float:
    """Seconds for the Services of the cell's condition; 0 where the cluster does not know."""
    count = cell.params.get("services.count", 0)
    if count <= 0 or not isinstance(cluster, ServiceTime):
        return 0.0
    endpoints: int = count * cell.params.get("services.endpoints", 1)
    return endpoints * cluster.service_seconds(profiles[cell.label])


def expected_bytes(
    plan_cells: Iterable[Cell], workloads: Mapping[str, Workload], duration: float
) -> float:
    """A rough upper bound of the bytes that one block sends."""
    return sum(
        workloads[cell.workload].bytes(cell.params, cell.duration or duration)
        for cell in plan_cells
    )


def passes(plan_cells: Iterable[Cell], blocks: int) -> list[tuple[Cell, int]]:
    """Each cell as often as it is measured, in ``blocks`` blocks or in its own number, with the
    number of the block.
    """
    return [
        (cell, block) for cell in plan_cells for block in range(min(cell.blocks or blocks, blocks))
    ]


def whole(
    missing: Sequence[tuple[Cell, int]],
    workloads: Mapping[str, Workload],
    duration: float,
    warmup: float,
    cluster: Cluster,
    profiles: Mapping[str, Profile],
    kept: int = 1,
) -> float:
    """Seconds for these (cell, block); ``duration`` and ``warmup`` of cells that have none of their
    own. A deployment has ``kept`` blocks, unless profiles are installed once for all blocks.

    Profiles that exist at the same time are not in it: they are there before the first window, and
    take little.
    """
    seconds = expected_seconds(
        (cell for cell, _ in missing), workloads, duration, warmup, cluster.pod_seconds
    )
    seconds += CROSS_CHECK * sum(
        cell.method == "slices" and cell.window == "speed" and block == 0 for cell, block in missing
    )
    pods: dict[tuple[str, int], int] = {}  # by label, and by deployment where it has several
    for cell, block in missing:
        deployment = (cell.label, 0 if cluster.simultaneous else block // kept)
        pods[deployment] = max(pods.get(deployment, 0), workloads[cell.workload].kept_pods(cell))
    seconds += sum(pods.values()) * cluster.pod_seconds
    seconds += sum(of_services(cell, cluster, profiles) for cell, _ in missing)
    if not cluster.simultaneous:
        seconds += sum(cluster.seconds(profiles[label]) for label, _ in pods)
    return seconds
