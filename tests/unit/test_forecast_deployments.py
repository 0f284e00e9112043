"""How often profiles are installed, in the forecast of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from cnibench.clusters.kind.cluster import KindCluster
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.planning.forecast import expected_seconds, whole
from cnibench.registry import providers
from cnibench.testbed.cluster import Options


@pytest.mark.parametrize(("kept", "deployments"), [(1, 6), (2, 3), (4, 2), (6, 1)])
def test_a_deployment_counts_once_for_all_blocks_that_it_has(kept: int, deployments: int) -> None:
    workloads: dict[str, Any] = providers("workloads")
    cell = Cell(
        label="a",
        profile="flannel",
        placement="inter",
        workload="tcp-rr",
        params=workloads["tcp-rr"].params({}),
    )
    cluster, profiles = KindCluster(Options()), {"a": builtin()["flannel"]}
    missing = [(cell, block) for block in range(6)]
    seconds = whole(missing, workloads, 2.0, 0.0, cluster, profiles, kept)
    measuring = expected_seconds([cell] * 6, workloads, 2.0, 0.0, cluster.pod_seconds)
    assert seconds == pytest.approx(measuring + deployments * cluster.seconds(profiles["a"]))
