"""Every workload through a real CNI, flannel; what needs enforced policies is refused."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from _fidelity import Seen
from _kind_cluster import Kept
from _kind_fidelity import Found, rules
from _kind_runs import SHORT, cnibench, output, until
from _kind_sabotages import FLUSHED, SABOTAGES, carry_out, others_come_and_go, refuted
from _kind_samples import context, records, sample
from _kubectl import got

from cnibench.clusters.kubernetes.cni.attest import attest
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.nodes.nodes import facts
from cnibench.clusters.kubernetes.pods.background import EnteredPod
from cnibench.errors import CnibenchError, LimitError, MeasureError, UnsupportedError
from cnibench.model.metrics import METRICS
from cnibench.model.profile import builtin
from cnibench.registry import provider, providers
from cnibench.run.sample_context import Measurements
from tests._each_workload import METRICS_OF, SMALL, values

pytestmark = pytest.mark.timeout(600)
OTHERS = {
    "tcp-rr-under-load",
    "tcp-stream-under-load",
    "pods",
    "policy-effect",
    "rule-path",
    "service-change",
}
on_flannel = pytest.mark.parametrize("deployment", ["flannel"], indirect=True, scope="module")


def test_no_workload_is_left_out() -> None:
    assert set(providers("workloads")) == set(METRICS_OF) | OTHERS


def test_nodes_come_up_without_a_cni_and_with_the_plugins_of_kinds_own_image(
    bare_cluster: Kept,
) -> None:
    def lack_a_cni() -> bool:  # of one that has just gone kubelets tell some seconds later
        nodes = list(map(facts, bare_cluster.access.listed("nodes")))
        return len(nodes) == 2 and all(one.lacks_only_cni for one in nodes)

    until(lack_a_cni)
    for node in bare_cluster.nodes:
        plugins = output("podman", "exec", node.facts.name, "ls", "/opt/cni/bin").split()
        assert plugins == ["host-local", "loopback", "portmap", "ptp"]


@on_flannel
@pytest.mark.timeout(1200)  # where it is carried out alone, the other CNIs are its own
def test_after_other_cnis_a_packet_meets_the_same_rules(
    real: Found, deployment: KubernetesDeployment, bare_cluster: Kept, tmp_path: Path
) -> None:
    """This flannel stands on nodes that are as they were before the first one: flannel-host-gw and
    Cilium have been there.
    """
    bare_cluster.ready(builtin()["flannel"], dns=True)
    assert [one for one in attest(deployment) if not one.passed] == []
    seen = Seen(deployment, tmp_path)
    seen.trace()
    assert seen.found["path"] == real["flannel"]["path"]
    assert rules(bare_cluster) == real["flannel"]["rules"] != real["cilium"]["rules"]


@on_flannel
@pytest.mark.parametrize("workload", METRICS_OF)
def test_gives_its_metrics(deployment: KubernetesDeployment, tmp_path: Path, workload: str) -> None:
    found = sample(deployment, workload, tmp_path, **SMALL.get(workload, {}))
    figures = values(found)
    assert set(figures) == METRICS_OF[workload]
    assert figures.keys() <= METRICS.keys()
    assert all(
        value > 0 for name, value in figures.items() if name not in ("loss", "failed_requests")
    )
    if workload == "http":
        (cdf,) = records(found, "cdf")
        assert len(cdf["values"]) == 101
        assert cdf["values"] == sorted(cdf["values"])
        (said,) = records(found, "tools")
        assert said["values"]["complete"] > 0


@on_flannel
def test_names_resolve_in_pods(deployment: KubernetesDeployment, bare_cluster: Kept) -> None:
    bare_cluster.ready(builtin()["flannel"], dns=True)
    for pod in deployment.pair("inter"):
        asked = ["getent", "hosts", "kubernetes.default.svc.cluster.local"]
        assert "10.96.0.1" in pod.run(asked, timeout=30).stdout


@on_flannel
def test_load_beside_the_pair_and_the_footprint_of_the_cni(
    deployment: KubernetesDeployment, tmp_path: Path
) -> None:
    """Six connections over three pairs of Pods, entered from their nodes; the same Pods serve the
    next cell.
    """
    load = {"connections": 6, "pods": 3, "rate": "1M"}
    found = sample(
        deployment, "tcp-rr-under-load", tmp_path / "rr", collectors=("footprint",), **load
    )
    assert values(found)["transaction_rate"] > 0
    (told,) = records(found, "background")
    assert (told["connections"], told["pairs"]) == (6, 3)
    assert told["achieved"] > 0
    known = {pod.name for pod in deployment.pods()}
    made = [pod for pod in deployment.pods() if isinstance(pod, EnteredPod)]
    assert sorted(pod.name for pod in made) == ["ax0", "ax1", "ax2", "bx0", "bx1", "bx2"]
    assert not any(pod.gateway.python for pod in made), "none has a connection of its own"
    assert (
        values(sample(deployment, "tcp-stream-under-load", tmp_path / "stream", **load))[
            "throughput"
        ]
        > 0
    )
    assert {pod.name for pod in deployment.pods()} == known
    grown = {line["process"]: line for line in records(found, "footprint")}
    assert {"flanneld on a", "flanneld on b"} <= set(grown)
    assert all(
        len(line["values"]) >= 2 and min(line["values"]) > 1 << 20 for line in grown.values()
    )
    memory = [reading for reading in found.readings if reading.metric == "memory"]
    assert {reading.params["process"] for reading in memory} == set(grown)


@on_flannel
def test_rules_of_one_packet(deployment: KubernetesDeployment, tmp_path: Path) -> None:
    """The hooks are those of the study's Table III, 3 inside a node and 10 between nodes; an
    established packet meets fewer rules.
    """
    found = {}
    for placement, hooks in (("intra", 3), ("inter", 10)):
        for packet in ("first", "established"):
            for again in range(
                3
                # a datagram may be lost, and another packet may have the length of ours: both are
                # told,
                # not counted
            ):
                try:
                    found[placement, packet] = values(
                        _rules(
                            deployment,
                            tmp_path / f"{placement}-{packet}-{again}",
                            placement,
                            packet,
                        )
                    )
                    break
                except (LimitError, MeasureError):
                    if again == 2:
                        raise
            assert found[placement, packet]["hooks"] == hooks
    assert found["inter", "first"]["rules"] > found["inter", "established"]["rules"] > 0
    for node in deployment.nodes():
        assert "cnibench_path" not in node.run(["nft", "list", "tables"], timeout=20).stdout


def _rules(
    deployment: KubernetesDeployment, raw: Path, placement: str, packet: str
) -> Measurements:
    return sample(deployment, "rule-path", raw, placement, packet=packet)  # type: ignore[arg-type]


@on_flannel
def test_rules_of_the_older_iptables_count_as_well(
    deployment: KubernetesDeployment, tmp_path: Path
) -> None:
    """Where the kernel has none of them (ip_tables), a node cannot either."""
    node = deployment.nodes()[0]
    rules = (
        "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p sctp -j DROP\n-A FORWARD -p udp -j"
        " ACCEPT\n-A FORWARD -p gre -j DROP\nCOMMIT\n"
    )
    before = values(_rules(deployment, tmp_path / "before", "intra", "first"))
    if node.run(["iptables-legacy-restore"], timeout=20, input=rules, check=False).returncode:
        assert not node.run(
            ["sh", "-c", "cat /proc/net/ip_tables_names 2>/dev/null; true"], timeout=20
        ).stdout
        return
    try:
        after = values(_rules(deployment, tmp_path / "after", "intra", "first"))
    finally:
        node.run(["iptables-legacy", "-F", "FORWARD"], timeout=20)
    assert (after["chains"] - before["chains"], after["rules"] - before["rules"]) == (1, 2)


@on_flannel
def test_services_beside_the_measured_one(deployment: KubernetesDeployment, tmp_path: Path) -> None:
    """Both nodes have rules for each, and nothing of them is left."""
    before = _services(deployment)
    found = sample(
        deployment, "tcp-crr", tmp_path, **{"services.count": 40, "services.endpoints": 3}
    )
    assert values(found)["transaction_rate"] > 0
    (told,) = records(found, "conditions")
    assert told["found"] == {"a": 40, "b": 40}
    assert (told["count"], told["endpoints"], told["proxy"]) == (40, 3, "iptables")
    assert _services(deployment) == before
    rules = deployment.nodes()[0].run(["iptables-save", "-t", "nat"], timeout=30).stdout
    assert "/other-0" not in rules


@on_flannel
@pytest.mark.parametrize("change", ["service", "endpoint"])
def test_the_time_until_a_service_is_reachable(
    deployment: KubernetesDeployment, tmp_path: Path, change: str
) -> None:
    """The request to the API server is a part of it, and the rules of kube-proxy the rest. From
    1000 endpoints on, kube-proxy leaves the chains of a Service that is gone for a while.
    """
    before = _services(deployment)
    others = {"services.count": 11, "services.endpoints": 100}
    found = sample(deployment, "service-change", tmp_path, change=change, **others)
    (told,) = records(found, "service_change")
    assert told["change"] == change
    assert 0 < told["written"] < told["reachable"] == values(found)["service_reachable"]
    assert _services(deployment) == before


def _services(deployment: KubernetesDeployment) -> list[str]:
    kinds = ("services", "endpointslices")
    there = [got(deployment.access, one, "-n", deployment.namespace)["items"] for one in kinds]
    return sorted(f"{item['kind']} {item['metadata']['name']}" for some in there for item in some)


@on_flannel
@pytest.mark.parametrize(("count", "at_once"), [(1, False), (3, True)])
def test_pods_are_timed_step_by_step(
    deployment: KubernetesDeployment, tmp_path: Path, count: int, at_once: bool
) -> None:
    found = sample(deployment, "pods", tmp_path, "inter", count=count, at_once=at_once)
    figures = values(found)
    assert 0 < figures["pod_network"] < figures["pod_ready"]
    told = records(found, "pods")
    assert len({line["pod"] for line in told}) == count
    for line in told:
        steps = {step["step"]: step["seconds"] for step in line["steps"]}
        assert list(steps) == [
            "scheduled",
            "sandbox",
            "ip-allocation",
            "rest-of-cni-add",
            "container",
            "ready",
            "first-packet",
        ]
        assert line["network"] == pytest.approx(steps["ip-allocation"] + steps["rest-of-cni-add"])
        assert min(steps.values()) >= 0
        assert sum(steps.values()) >= line["ready"] - 0.001
    left = got(deployment.access, "pods", "-n", deployment.namespace)["items"]
    assert not {item["metadata"]["name"] for item in left} & {line["pod"] for line in told}


@on_flannel
def test_policies_that_nobody_enforces_are_refused(
    deployment: KubernetesDeployment, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match="does not enforce NetworkPolicy"):
        sample(deployment, "tcp-rr", tmp_path, **{"policy.entries": 5})
    with pytest.raises(UnsupportedError, match="does not enforce NetworkPolicy"):
        sample(deployment, "policy-effect", tmp_path)


@on_flannel
def test_a_background_pod_that_dies_marks_the_cell(
    deployment: KubernetesDeployment, tmp_path: Path
) -> None:
    """Last of flannel's: a deployment with a dead Pod is not measured on any more."""
    work = provider("workloads", "tcp-rr-under-load")
    s = context(deployment, "tcp-rr-under-load", tmp_path, connections=2, pods=2, rate="1M")

    def measured() -> None:
        with work.serve(s), work.start(s) as client:
            assert deployment.alive() == ""
            victim = next(pod for pod in deployment.pods() if pod.name == "bx1")
            assert isinstance(victim, EnteredPod)
            victim.node.run(["kill", "-9", str(victim.pid)], timeout=20)
            client.wait(30)
            work.measurements(s)

    with pytest.raises(CnibenchError, match=r"background load broke|the (background )?Pod bx1"):
        measured()
    assert "bx1" in until(deployment.alive)


def test_what_is_known_beforehand_is_refused_beforehand(bare_cluster: Kept, tmp_path: Path) -> None:
    run = (
        "run",
        "--cluster",
        "kind",
        "--cni",
        "flannel",
        "--set",
        f"chart={bare_cluster.charts['flannel']}",
        *SHORT,
    )
    said = cnibench(
        *run, "--workload", "policy-effect,tcp-rr:policy.entries=5", cwd=tmp_path, status=2
    ).stderr
    assert "nothing is left to measure" in said
    assert "does not enforce NetworkPolicy" in said
    shown = cnibench(
        *run,
        "--workload",
        "tcp-rr,tcp-rr:policy.conntrack=bypassed",
        "--dry-run",
        "--json",
        cwd=tmp_path,
    )
    told = json.loads(shown.stdout)
    assert {json.dumps(cell["params"].get("policy.conntrack")) for cell in told["cells"]} == {
        "null"
    }
    assert any(
        re.search(r"tcp-rr is left out: .*bypassing conntrack", note) for note in told["notes"]
    )


@on_flannel
def test_the_second_attestation_finds_what_changed_and_not_what_others_do(
    deployment: KubernetesDeployment,
) -> None:
    """All changes are there at once, and each of them is named."""
    with others_come_and_go(deployment):
        assert refuted(deployment) == {}
    assert refuted(deployment) == {}
    with contextlib.ExitStack() as undone:
        for sabotage in SABOTAGES.values():
            carry_out(deployment, sabotage, sabotage.do)
            undone.callback(carry_out, deployment, sabotage, sabotage.undo)
        found = refuted(deployment)
        flushed = SABOTAGES[FLUSHED]
        if flushed.found not in found["kernel-state-a"]:  # kube-proxy was faster
            carry_out(deployment, flushed, flushed.do)
            found = refuted(deployment)
    for name, sabotage in SABOTAGES.items():
        assert sabotage.found in found[f"kernel-state-{sabotage.place}"], name
    assert refuted(deployment) == {}
