"""The workload rule-path: hooks as Table III of qi2021 has them, rules as they are known
beforehand, and nothing left on the nodes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.rules import kubeproxy
from cnibench.clusters.lab.rules.ruleset import save_text
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS, many
from cnibench.errors import LimitError
from cnibench.registry import provider
from cnibench.run.windows.sample import measure
from tests.lab._samples import sample

Make = Callable[..., LabDeployment]
# Table III: hooks inside a node, hooks between nodes (both nodes added up)
TABLE_III = {
    "flannel": (3, 10),
    "kube-router": (3, 6),
    "calico-wp-xsub": (3, 6),
    "cilium": (0, 4),
    "bridge-static": (3, 6),
}

# What the packet is compared with, by hand: FORWARD 1 to 4 and X 1 to 3 and FORWARD 5, 6; an
# established one: FORWARD 1.
RULES = """*filter
:FORWARD ACCEPT [0:0]
:X - [0:0]
-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT
-A FORWARD -p tcp --dport 1 -j DROP
-A FORWARD -p tcp --dport 2 -j DROP
-A FORWARD -j X
-A FORWARD -j MARK --set-mark 7
-A FORWARD -p udp -j ACCEPT
-A FORWARD -p sctp -j DROP
-A X -p sctp -j DROP
-A X -p gre -j DROP
-A X -j RETURN
-A X -p esp -j DROP
COMMIT
"""
OURS = (
    "table inet own {\nchain c { type filter hook forward priority 10; meta mark 7 goto d;\nmeta"
    " mark 7 drop; }\nchain d { counter; }\n}\n"
)


def path(
    deployment: LabDeployment,
    raw: Path,
    placement: Literal["intra", "inter"],
    packet: str,
    ip: int = 4,
) -> dict[str, Any]:
    """The record of one measurement. netperf's UDP_RR never ends when one of its datagrams is lost:
    once more then.
    """
    for _ in range(2):
        try:
            return measured(deployment, raw, placement, packet, ip)
        except LimitError:
            shutil.rmtree(raw)
    return measured(deployment, raw, placement, packet, ip)


def measured(
    deployment: LabDeployment, raw: Path, placement: Literal["intra", "inter"], packet: str, ip: int
) -> dict[str, Any]:
    workload = provider("workloads", "rule-path")
    params = workload.params({"packet": packet})
    s = sample(deployment, "rule-path", params, raw, placement=placement, ip=ip)
    found = measure(s, workload, []).measurements
    (record,) = (record for name, record in found.records if name == "rulepath")
    assert {reading.metric: reading.value for reading in found.readings} == {
        name: record[name] for name in ("hooks", "chains", "rules")
    }
    for node in deployment.nodes():
        assert "cnibench_path" not in node.run(["nft", "list", "tables"], timeout=10).stdout
    return record


@pytest.mark.parametrize("name", TABLE_III)
def test_hooks_are_those_of_the_study(make_deployment: Make, name: str, tmp_path: Path) -> None:
    deployment = make_deployment(name)
    found = [
        path(deployment, tmp_path / placement, placement, "first")
        for placement in ("intra", "inter")
    ]
    assert tuple(record["hooks"] for record in found) == TABLE_III[name]


def test_an_established_connection_and_ipv6(make_deployment: Make, tmp_path: Path) -> None:
    deployment = make_deployment("flannel", ip=(4, 6))
    first, later = (
        path(deployment, tmp_path / packet, "inter", packet, 6)
        for packet in ("first", "established")
    )
    assert first["hooks"] == later["hooks"] == 10
    assert first["rules"] > later["rules"] > 0
    assert {
        chain["family"]
        for node in first["nodes"]
        for hook in node["path"]
        for chain in hook["chains"]
    } == {"ip6"}


def test_known_rules_are_counted_one_by_one(make_deployment: Make, tmp_path: Path) -> None:
    deployment = make_deployment("veth-baseline")
    deployment.a.run(["iptables-nft-restore"], timeout=10, input=RULES)
    deployment.a.run(["nft", "-f", "-"], timeout=10, input=OURS)
    first, established = (
        path(deployment, tmp_path / packet, "intra", packet) for packet in ("first", "established")
    )
    assert [first[name] for name in ("hooks", "chains", "rules", "matched")] == [3, 4, 9 + 2, 4 + 2]
    # the connection's mark is the packet's own: an established one is accepted before it is set
    assert [established[name] for name in ("hooks", "chains", "rules", "matched")] == [
        3,
        2,
        1 + 2,
        1,
    ]
    text = (tmp_path / "first" / "a.ruleset.txt").read_text()
    assert "goto d" in text


def test_a_node_with_the_rules_of_two_thousand_services(
    make_deployment: Make, tmp_path: Path
) -> None:
    """nft monitor loads all of them before it listens, and begins anew with each change."""
    deployment = make_deployment("veth-baseline")
    part = kubeproxy.rules(4, CLUSTER_CIDRS[4], many(4, 2000, 1))
    deployment.a.run(["iptables-nft-restore"], timeout=60, input=save_text([part]))
    assert measured(deployment, tmp_path, "intra", "first", 4)["rules"] > 2000


def test_the_older_iptables_gives_the_same_counts(make_deployment: Make, tmp_path: Path) -> None:
    """A kernel without ip_tables cannot have such rules; where it has, both kinds are read."""
    deployment = make_deployment("veth-baseline")
    switch = "/proc/sys/net/netfilter/nf_log/2"
    before = deployment.a.read_text(switch)
    if deployment.a.run(
        ["iptables-legacy-restore"], timeout=10, input=RULES, check=False
    ).returncode:
        return
    first, established = (
        path(deployment, tmp_path / packet, "intra", packet) for packet in ("first", "established")
    )
    assert [first[name] for name in ("hooks", "chains", "rules", "matched")] == [3, 2, 9, 4]
    assert [established[name] for name in ("hooks", "chains", "rules", "matched")] == [3, 1, 1, 1]
    (forward,) = (hook for hook in first["nodes"][0]["path"] if hook["hook"] == "forward")
    assert [chain["chain"] for chain in forward["chains"]] == ["FORWARD", "X"]
    assert deployment.a.read_text(switch) == before
