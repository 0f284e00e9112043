"""The studies' plans on clusters: what these cannot have is given up and told, what was typed is
refused, and the wire's MTU is held to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnibench.cli.measurement.plan import plan_of, suited
from cnibench.cli.options.plan import PlanOptions
from cnibench.clusters.existing import ExistingCluster
from cnibench.clusters.existing.deployment import wire_mtu
from cnibench.clusters.kind.cluster import KindCluster
from cnibench.model.cell import Cell
from cnibench.model.profile import choose
from cnibench.planning.cells import cells
from cnibench.planning.plan import Plan
from cnibench.planning.plans import named
from cnibench.registry import providers
from cnibench.testbed.cluster import Cluster, Options

CLUSTERS = {"kind": KindCluster, "existing": ExistingCluster}


def asked(**values: Any) -> tuple[Plan, list[str]]:
    options = PlanOptions(**values)
    return suited(plan_of(options), options)


def measured(plan: Plan, cluster: type[Cluster]) -> tuple[list[Cell], list[str]]:
    """The cells that the cluster does not refuse, and why it refuses the others."""
    profiles = choose(plan.cni)
    every, _ = cells(plan, providers("workloads"), profiles)
    there = cluster(Options(mtu=plan.mtu))
    reasons = {cell.id: there.refuses(profiles[cell.label], cell) for cell in every}
    return [cell for cell in every if not reasons[cell.id]], [
        reason for reason in reasons.values() if reason
    ]


@pytest.mark.parametrize("kind", CLUSTERS)
def test_bruijn2017_is_carried_out_with_the_conntrack_that_clusters_have(kind: str) -> None:
    plan, told = asked(plan="bruijn2017", cluster=kind)
    found, refused = measured(plan, CLUSTERS[kind])
    assert {
        cell.params.get("policy.conntrack") for cell in found if cell.label == "cilium-native"
    } == {"used"}
    every, _ = cells(named("bruijn2017"), providers("workloads"), choose(["cilium-native"]))
    assert sum(cell.label == "cilium-native" for cell in found) == len(every) > 50, (
        "all of its cells"
    )
    assert all("does not enforce NetworkPolicy" in reason for reason in refused), (
        "Docker's own rules are none of Kubernetes"
    )
    assert len(told) == 1
    assert told[0].startswith(
        f"--cluster {kind} changes the plan: policy.conntrack: used instead of bypassed, for"
        " iperf3-tcp, tcp-rr"
    )


def test_in_the_lab_nothing_is_given_up() -> None:
    for name in ("bruijn2017", "makowski2018"):
        assert asked(plan=name) == (named(name), [])


def test_makowski2018_needs_no_conntrack_of_its_own_and_kind_has_one_mtu() -> None:
    assert "bypassed" not in named("makowski2018").model_dump_json(), (
        "in eBPF's models it changes nothing, and clusters refuse it"
    )
    plan, told = asked(plan="makowski2018", cluster="kind")
    assert (plan.mtu, told) == (
        1500,
        [
            "--cluster kind changes the plan: an MTU of 1500 instead of 9000, the only one that its"
            " wire supports"
        ],
    )
    found, _ = measured(plan, KindCluster)
    assert {cell.params.get("policy.entries") for cell in found if cell.label == "cilium"} == {0, 1}
    assert {cell.mtu for cell in found} == {1500}
    (profile,) = choose(["cilium"]).values()
    assert not any("MTU" in one.lacks for one in KindCluster(Options(mtu=plan.mtu)).check(profile))


def test_what_was_typed_is_refused_rather_than_given_up() -> None:
    plan, told = asked(plan="makowski2018", cluster="kind", mtu=9000)
    assert (plan.mtu, told) == (9000, [])
    (profile,) = choose(["cilium"]).values()
    assert any(
        "MTU of 9000" in one.lacks for one in KindCluster(Options(mtu=plan.mtu)).check(profile)
    )
    typed = ["tcp-rr:policy.conntrack=bypassed"]
    for values in ({"plan": "makowski2018", "cni": ["cilium"]}, {"cni": ["cilium"]}):
        plan, told = asked(**values, cluster="kind", workload=typed)
        assert not any("conntrack" in one for one in told)
        found, refused = measured(plan, KindCluster)
        assert not found
        assert all("bypassed is for the lab" in reason for reason in refused)


def test_a_plan_file_that_sweeps_both_keeps_what_clusters_have(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "cni: cilium\ncluster: kind\nworkload:\n- {name: tcp-rr, sweep: {policy.entries: [1, 5],"
        " policy.conntrack: [used, bypassed]}}\n- {name: tcp-crr, params: {policy.entries: 3}}\n-"
        " tcp-stream\n"
    )
    plan, told = asked(plan=str(file))
    assert "for tcp-rr:" in told[0]
    found, refused = measured(plan, KindCluster)
    assert not refused
    swept = [
        (cell.params["policy.entries"], cell.params["policy.conntrack"])
        for cell in found
        if cell.workload == "tcp-rr"
    ]
    assert set(swept) == {(1, "used"), (5, "used")}
    assert [work.sweep for work in plan.workload[1:]] == [{}, {}]


@pytest.mark.parametrize(
    ("said", "found", "passed"),
    [
        (1500, {"a": 1500, "b": 1500}, True),
        (9000, {"a": 9000, "b": 9000}, True),
        (1500, {"a": 9001, "b": 9001}, False),
        (9000, {"a": 1500, "b": 1500}, False),
        (9000, {"a": 9000, "b": 1500}, False),
        (9000, {"a": 0, "b": 0}, False),
        (1500, {"a": 0, "b": 0}, None),
    ],
)
def test_an_existing_cluster_is_held_to_the_mtu_that_samples_say(
    said: int, found: dict[str, int], passed: bool | None
) -> None:
    told = wire_mtu(said, found)
    assert (told and told[2]) == passed
    if told:
        assert f"{said} B" in told[0]
        assert "--mtu" in told[0]
        assert all(f"{mtu} B on {name}" in told[1] for name, mtu in found.items() if mtu)


def test_qi2021_has_the_rules_of_both_packets() -> None:
    found, _ = cells(named("qi2021"), providers("workloads"), choose(["flannel"]))
    assert {
        (cell.placement, cell.params["packet"], cell.blocks)
        for cell in found
        if cell.workload == "rule-path"
    } == {
        (placement, packet, 1)
        for placement in ("intra", "inter")
        for packet in ("first", "established")
    }


def test_bruijn2017_has_the_sizes_of_super_packets_with_tso_and_without() -> None:
    plan = named("bruijn2017")
    lengths = providers("collectors")["lengths"]
    found, _ = cells(plan, providers("workloads"), choose(plan.cni))
    seen = [
        cell
        for cell in found
        if cell.window in lengths.windows and providers("workloads")[cell.workload].collected
    ]
    for label in ("bridge-static", "cilium-native"):
        for placement in ("intra", "inter"):
            here = [
                cell.params for cell in seen if (cell.label, cell.placement) == (label, placement)
            ]
            assert {
                params["policy.entries"] for params in here if params["offload.pods"] == "tso-off"
            } == {0, 100, 200}
            assert {
                params["policy.entries"] for params in here if params["offload.pods"] == "tso-on"
            } == {1, 200}
