"""Cells and collectors that need a capability which a kind of cluster does not have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cnibench.cli.measurement import checks, request
from cnibench.cli.measurement.checks import possible_cells, working_collectors
from cnibench.clusters.kind.cluster import KindCluster
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.errors import UnsupportedError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.planning.plan import build_plan
from cnibench.registry import providers
from cnibench.testbed.capabilities.policies import Policies
from cnibench.testbed.cluster import Cluster, Options
from cnibench.testbed.deployment import Deployment
from tests.unit._local_cluster import Local, LocalDeployment


def cell(workload: str, **more: Any) -> Cell:
    return Cell(label="flannel", profile="flannel", placement="inter", workload=workload, **more)


@pytest.mark.parametrize(
    ("planned", "lacks"),
    [
        (cell("pods"), "timing the start of Pods"),
        (cell("policy-effect"), "network policies"),
        (cell("tcp-rr-under-load"), "background Pods"),
        (cell("tcp-rr", params={"policy.entries": 10}), "conditions"),
        (cell("tcp-rr", path="clusterip"), "paths other than Pod to Pod"),
    ],
    ids=lambda one: one.id if isinstance(one, Cell) else "",
)
def test_a_cell_that_needs_what_is_missing_is_refused_by_name(planned: Cell, lacks: str) -> None:
    workloads, profiles = providers("workloads"), builtin()
    used = {planned.workload: workloads[planned.workload]}
    possible, refused = possible_cells(
        Local(Options()),
        [planned, cell("tcp-rr")],
        profiles,
        used | {"tcp-rr": workloads["tcp-rr"]},
    )
    assert [one.id for one in possible] == [cell("tcp-rr").id]
    assert len(refused) == 1
    assert f"--cluster local does not support {lacks}" in refused[0]
    assert possible_cells(LabCluster(Options()), [planned], profiles, used) == ([planned], [])
    for need in checks.needs(planned, workloads[planned.workload]):
        assert issubclass(KindCluster.deploys, need)


def test_a_reason_is_said_once_for_all_workloads_of_a_label() -> None:
    planned = [cell(name, path="clusterip") for name in ("tcp-rr", "tcp-stream")]
    planned.append(msgspec.structs.replace(planned[0], label="other"))
    profiles = {"flannel": builtin()["flannel"], "other": builtin()["flannel"]}
    _, refused = possible_cells(Local(Options()), planned, profiles, providers("workloads"))
    lacks = "--cluster local does not support paths other than Pod to Pod"
    assert refused == [
        f"flannel: tcp-rr, tcp-stream are left out: {lacks}",
        f"other: tcp-rr is left out: {lacks}",
    ]


def test_nothing_is_started_when_every_cell_needs_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unstarted(Local):
        def install(self, label: str, profile: Any) -> Deployment:
            raise AssertionError("nothing may be installed")

    monkeypatch.setattr(request, "provider", lambda package, name: Unstarted)
    plan = build_plan({"cni": ["flannel"], "workload": [{"name": "pods"}]}, None)
    with pytest.raises(UsageError, match="nothing is left to measure") as error:
        request.prepare(plan, request.cluster_of(plan))
    assert "--cluster local does not support timing the start of Pods" in error.value.message
    assert "choose another" in error.value.remedy


def test_a_run_goes_on_without_a_collector_that_needs_what_is_missing() -> None:
    plan = build_plan({"cni": ["flannel"], "windows": ["speed"]}, None)
    every = list(providers("collectors").values())
    working, _, notes = working_collectors(Local(Options()), every, plan)
    assert {"footprint", "sizes"}.isdisjoint(one.name for one in working)
    assert any("finding the CNI's own processes" in note for note in notes)
    assert any("naming the nodes' network devices" in note for note in notes)


def test_a_missing_capability_is_an_error_that_names_it() -> None:
    deployment = LocalDeployment(Local(Options()), "candidate", builtin()["flannel"])
    with pytest.raises(UnsupportedError, match="candidate does not support network policies"):
        Policies.of(deployment)


@pytest.mark.parametrize("interface", [Cluster, Deployment])
def test_the_required_interfaces_are_small(interface: type) -> None:
    methods = [
        name
        for name, value in vars(interface).items()
        if callable(value) or isinstance(value, classmethod | property)
        if not name.startswith("_")
    ]
    assert len(methods) <= 8
