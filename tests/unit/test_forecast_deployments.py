"""How often profiles are installed, in the forecast of a plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.existing.cluster import ExistingCluster
from cnibench.clusters.kind.cluster import KindCluster
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.planning.forecast import expected_seconds, of_services, whole
from cnibench.registry import providers
from cnibench.run.windows.method import Windows
from cnibench.testbed.cluster import Options


def _with_services(label: str, workload: str, **services: int) -> Cell:
    usual = providers("workloads")[workload].params({})
    asked = {f"services.{name}": value for name, value in services.items()}
    return Cell(
        label=label,
        profile="flannel",
        placement="inter",
        workload=workload,
        params={**usual, **asked},
    )


def test_services_take_what_their_implementation_takes() -> None:
    workloads: dict[str, Any] = providers("workloads")
    flannel = builtin()["flannel"]
    profiles = {name: flannel.model_copy(update={"proxy": name}) for name in ("nftables", "ebpf")}

    cluster = LabCluster(Options())
    manifest = SimpleNamespace(duration=1.0, warmup=0.0)
    session: Any = SimpleNamespace(
        workloads=workloads,
        cluster=cluster,
        profiles=profiles,
        writer=SimpleNamespace(manifest=manifest),
    )

    def seconds(label: str, **services: int) -> float:
        cell = _with_services(label, "tcp-connect", **services)
        forecast = whole([(cell, 0)], workloads, 1.0, 0.0, cluster, profiles)
        # the time left counts down by the same
        assert Windows(session, []).expected(cell) == pytest.approx(forecast)
        return forecast

    few, many = (seconds("nftables", count=count) for count in (1, 10_000))
    assert many - few > 10 * (seconds("ebpf", count=10_000) - seconds("ebpf", count=1)) > 0
    assert seconds("nftables", count=5000, endpoints=2) == pytest.approx(many)


@pytest.mark.parametrize("cluster", [KindCluster(Options()), ExistingCluster(Options())])
def test_services_take_time_on_clusters_too(cluster: Any) -> None:
    cell = _with_services("a", "tcp-crr", count=10_000)
    flannel = builtin()["flannel"]
    seconds = of_services(cell, cluster, {"a": flannel})
    assert seconds == pytest.approx(10_000 * cluster.service_seconds(flannel))
    assert seconds > 0


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
