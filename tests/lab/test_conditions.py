"""Policies and features as conditions of a cell, through real datapaths: there during the cell,
seen by packets, gone afterwards.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.datapaths.bridge import Bridge
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import features
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.rules.entries import CHAIN
from cnibench.clusters.lab.rules.ruleset import Part, end
from cnibench.errors import ClusterError, LimitError, UnsupportedError
from cnibench.model.conditions import Conditions, Offload, Policies
from cnibench.registry import provider
from cnibench.run.sample_context import SampleContext
from cnibench.run.windows.sample import measure
from cnibench.workloads import policy_effect
from tests.lab._samples import sample

MakeDeployment = Callable[..., LabDeployment]


def under(
    deployment: LabDeployment, asked: Conditions, placement: Literal["intra", "inter"] = "inter"
) -> Any:
    client, server = deployment.pair(placement)
    return deployment.apply_conditions(asked, client, server)


def context(
    deployment: LabDeployment, workload: str, raw: Path, ip: int = 4, **params: Any
) -> SampleContext:
    work = provider("workloads", workload)
    own = {key: value for key, value in params.items() if "." not in key}
    checked = {**work.params(own), **params}
    return sample(deployment, workload, checked, raw, ip=ip)


def rules_of(node: LabNode, options: str = "") -> list[str]:
    text = node.run(["sh", "-c", f"iptables-nft-save {options} -t filter"], timeout=20).stdout
    mine = f"-A {CHAIN} "
    return [line for line in text.splitlines() if mine in line]


def packets(rule: str) -> int:
    return int(rule[1:].partition(":")[0])


@pytest.mark.parametrize("name", ["bridge-static", "flannel", "calico-wp-xsub", "kube-router"])
@pytest.mark.parametrize("setting", ["no-match", "top-of-chain"])
def test_entries_are_there_met_and_gone(
    make_deployment: MakeDeployment, name: str, setting: Literal["no-match", "top-of-chain"]
) -> None:
    deployment = make_deployment(name, ip=(4, 6))
    client, server = deployment.pair("inter")
    asked = Policies(entries=40, setting=setting, restrictions=7, conntrack="bypassed")
    with under(deployment, Conditions(policy=asked)) as (record,):
        assert set(record["found"].values()) == {47}
        assert set(record["found"]) == {
            f"{node}, IPv{family}" for node in "ab" for family in (4, 6)
        }
        for family in (4, 6):
            assert (
                probe.stream(client.ns, server.ns, server.addresses[family], family, 100_000) == ""
            )
        rules = rules_of(deployment.b, "-c")
        assert len(rules) == 47
        matched = [packets(rule) for rule in rules]
        assert (matched[7] > 4) == (setting == "top-of-chain")
        assert not any(matched[:7])
        assert not any(matched[8:])
    assert not rules_of(deployment.a) + rules_of(deployment.b)
    assert not deployment.alive()
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 1000) == ""


def test_five_thousand_entries_and_conntrack_used(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment("bridge-static")
    client, server = deployment.pair("intra")
    with under(deployment, Conditions(policy=Policies(entries=5000)), "intra") as (record,):
        assert set(record["found"].values()) == {5001}
        assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 500_000) == ""
        first = rules_of(deployment.a, "-c")[0]
        assert "RELATED,ESTABLISHED" in first
        assert packets(first) > 4
    assert not rules_of(deployment.a)


@pytest.mark.parametrize("setting", ["no-match", "top-of-chain"])
def test_entries_of_an_ebpf_map(
    make_deployment: MakeDeployment, setting: Literal["no-match", "top-of-chain"]
) -> None:
    deployment = make_deployment("cilium-native")
    client, server = deployment.pair("inter")
    with under(
        deployment, Conditions(policy=Policies(entries=5000, setting=setting, restrictions=40))
    ) as (record,):
        assert record["found"] == {"a": 5040, "b": 5040}
        assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 100_000) == ""
    assert deployment.datapath.policies_found() == {"a": 0, "b": 0}


def test_what_is_not_there_is_unsupported(make_deployment: MakeDeployment) -> None:
    with (
        pytest.raises(UnsupportedError, match="no packet filter"),
        under(make_deployment("veth-baseline"), Conditions(policy=Policies())),
    ):
        pass
    with (
        pytest.raises(UnsupportedError, match="proxy") as caught,
        under(make_deployment("cilium-native"), Conditions(policy=Policies(layer="L7"))),
    ):
        pass
    assert "--cluster" in caught.value.remedy


class _Refused(Bridge):
    """A daemon whose second node's rules the kernel refuses while policies are asked for."""

    name = "refused"

    def parts(self, node: LabNode, family: int) -> Part:
        wrong = (end("filter", "FORWARD", "-m set --match-set nosuchset src -j DROP"),)
        return (
            *super().parts(node, family),
            wrong if self._asked is not None and node.number == 1 else (),
        )  # type: ignore[return-value]


def test_rules_that_fail_to_load_half_way_leave_nothing(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment("bridge-static")
    deployment.datapath.__class__ = _Refused
    with (
        pytest.raises(ClusterError, match="ended with"),
        under(deployment, Conditions(policy=Policies(entries=10))),
    ):
        pytest.fail("must not be measured")
    assert not rules_of(deployment.a) + rules_of(deployment.b)
    assert deployment.alive() == ""
    deployment.reset_state()


def test_a_stand_that_cannot_be_cleaned_is_not_measured_on(
    make_deployment: MakeDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = make_deployment("bridge-static")
    with (
        pytest.raises(ClusterError, match="could not be taken back"),
        under(deployment, Conditions(policy=Policies(entries=3))),
    ):
        monkeypatch.setattr(deployment.datapath, "policies_expected", lambda asked: 99)
    with pytest.raises(ClusterError, match="could not be taken back"):
        deployment.reset_state()
    assert deployment.alive()


def longest(deployment: LabDeployment) -> int:
    """The longest packet that the server's interface receives during a stream."""
    client, server = deployment.pair("intra")
    with server.ns.inside():
        watch = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    with watch:
        watch.bind((server.interface, 0x0800))
        watch.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 500_000) == ""
        watch.setblocking(False)
        found = 0
        try:
            while True:
                found = max(found, len(watch.recv(1 << 17)))
        except BlockingIOError:
            return found


def test_virtual_tso_off_and_on(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment("bridge-static")
    client, server = deployment.pair("intra")
    before = features.read(client.ns, "eth0")
    with under(deployment, Conditions(offload=Offload(pods="tso-off")), "intra") as records:
        assert len(records) == 4
        assert not features.read(server.ns, "eth0")["tx-tcp-segmentation"]
        assert 0 < longest(deployment) <= 1514
    assert features.read(client.ns, "eth0") == before
    with under(deployment, Conditions(offload=Offload(pods="tso-on")), "intra"):
        assert longest(deployment) > 1514
    assert features.read(client.ns, "eth0") == before


def test_the_wire_of_one_cell(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment("bridge-static")
    before = [features.read(node.ns, node.wire) for node in deployment.nodes()]
    with under(deployment, Conditions(offload=Offload(wire="none"))):
        assert not features.read(deployment.a.ns, deployment.a.wire)["tx-tcp-segmentation"]
    assert [features.read(node.ns, node.wire) for node in deployment.nodes()] == before


def test_a_workload_under_conditions_says_so(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    deployment = make_deployment("bridge-static")
    s = context(deployment, "tcp-rr", tmp_path, **{"policy.entries": 20, "offload.pods": "tso-off"})
    found = measure(s, provider("workloads", "tcp-rr"), []).measurements
    told = [record for name, record in found.records if name == "conditions"]
    assert [record["condition"] for record in told].count("policy") == 1
    assert len(told) == 5
    assert any(reading.metric == "latency_mean" for reading in found.readings)
    assert not rules_of(deployment.a)


@pytest.mark.parametrize("name", ["bridge-static", "cilium-native"])
@pytest.mark.parametrize("ip", [4, 6])
def test_the_time_until_a_policy_takes_effect(
    make_deployment: MakeDeployment, tmp_path: Path, name: str, ip: int
) -> None:
    deployment = (
        make_deployment(name, ip=(4, 6))
        if name == "bridge-static"
        else make_deployment(name, ip=(ip,))
    )
    s = context(deployment, "policy-effect", tmp_path, ip, **{"policy.entries": 100})
    found = measure(s, provider("workloads", "policy-effect"), []).measurements
    (reading,) = found.readings
    assert reading.metric == "policy_effect"
    assert 0 < reading.value < 30
    (record,) = [record for kind, record in found.records if kind == "policy_effect"]
    assert record["load"] > 0
    again = measure(
        context(deployment, "policy-effect", tmp_path / "again", ip),
        provider("workloads", "policy-effect"),
        [],
    )
    assert again.measurements.readings[0].value > 0


class _Remembering(Bridge):
    """As many CNIs do it: what belongs to a flow that was let in before is let in first, whatever
    the policies say by now.
    """

    name = "remembering"

    def text(self, node: LabNode, family: int) -> str:
        denied = f"-A {CHAIN} -p udp"
        text = (
            super()
            .text(node, family)
            .replace(denied, f"-A {CHAIN} -m connmark --mark 0x1 -j ACCEPT\n{denied}")
        )
        return (
            text
            + "*mangle\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -p udp -j CONNMARK --set-mark"
            " 0x1\nCOMMIT\n"
        )


def test_a_policy_takes_effect_where_flows_that_stand_are_let_in(
    make_deployment: MakeDeployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = make_deployment("bridge-static")
    deployment.datapath.__class__ = _Remembering
    deployment.datapath.policies(None)
    work = provider("workloads", "policy-effect")
    found = measure(context(deployment, "policy-effect", tmp_path), work, []).measurements
    assert found.readings[0].value > 0
    deployment.reset_state()
    monkeypatch.setattr(
        policy_effect, "_SOURCES", range(40000, 40001)
    )  # so it would be with one flow
    monkeypatch.setattr(policy_effect, "_LIMIT", 5.0)
    with pytest.raises(LimitError, match="did not take effect within 5 s"):
        measure(context(deployment, "policy-effect", tmp_path / "one"), work, [])
    assert not rules_of(deployment.a) + rules_of(deployment.b)
