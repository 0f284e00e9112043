"""Weave's models have what Weave 2.8.1 makes: the offloads of its Pods, its rules on nodes and in
Pods, and ESP for marked packets only.

What is expected is spelled out from Weave's sources: net/veth.go, net/bridge.go, net/expose.go,
net/arp.go and net/ipsec/ipsec.go. The fast datapath needs Open vSwitch; the tests in a VM run them
where this kernel lacks it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cnibench.clusters.lab.attestation import capture, probe
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import features
from cnibench.clusters.lab.namespaces.netns import Namespace
from tests.lab._profiles import lacking

Make = Callable[..., LabDeployment]
FAST = ("weave", "weave-encrypted")
ALL = (*FAST, "weave-sleeve")
CHECKSUM = "tx-checksum-ip-generic"


@pytest.fixture
def make(make_deployment: Make) -> Make:
    def checked(name: str) -> LabDeployment:
        if missing := lacking(name):
            pytest.skip(f"this kernel lacks {', '.join(missing)}")
        return make_deployment(name)

    return checked


def rules(ns: Namespace, table: str, chain: str) -> list[str]:
    said = ns.run(["iptables-nft", "-t", table, "-S", chain], timeout=20).stdout
    return [line.removeprefix(f"-A {chain} ") for line in said.splitlines() if line[:2] == "-A"]


def longest(deployment: LabDeployment) -> int:
    client, server = deployment.pair("inter")
    with capture.watching(deployment.a) as seen:
        assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 64 * 1024) == ""
    return max(packet.length for packet in seen.packets)


@pytest.mark.parametrize("name", ALL)
def test_checksum_offload_is_off_without_the_fast_datapath_alone(make: Make, name: str) -> None:
    """CreateAndAttachVeth turns it off `if !bridgeType.IsFastdp()`, bridgeImpl.init on the
    bridge.
    """
    deployment = make(name)
    for pod in deployment.pods():
        assert features.read(pod.ns, pod.interface)[CHECKSUM] == (name in FAST)
        assert features.read(pod.node.ns, pod.host_end)[CHECKSUM]
    for node in deployment.nodes():
        assert features.read(node.ns, "weave")[CHECKSUM] == (name in FAST)


@pytest.mark.parametrize("name", ALL)
def test_rules_on_a_node_are_those_of_weave(make: Make, name: str) -> None:
    deployment = make(name)
    ns = deployment.a.ns
    assert rules(ns, "filter", "FORWARD")[:4] == [
        "-i weave -o weave -j ACCEPT",
        "-o weave -j WEAVE-EXPOSE",
        "-i weave ! -o weave -j ACCEPT",
        "-o weave -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    ]
    assert rules(ns, "filter", "WEAVE-EXPOSE") == ["-d 10.244.0.0/16 -j ACCEPT"]
    assert rules(ns, "nat", "WEAVE") == [
        "-m set --match-set weaver-no-masq-local dst -m comment --comment"
        ' "Prevent SNAT to locally running containers" -j RETURN',
        "-s 10.244.0.0/16 -d 224.0.0.0/4 -j RETURN",
        "! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE",
        "-s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE",
    ]
    assert rules(ns, "nat", "POSTROUTING")[-1] == "-j WEAVE"
    (control,) = [rule for rule in rules(ns, "filter", "INPUT") if "6784" in rule]
    assert control == (
        "-d 127.0.0.1/32 -p tcp -m tcp --dport 6784 -m addrtype ! --src-type LOCAL -m conntrack !"
        " --ctstate RELATED,ESTABLISHED -m comment --comment"
        ' "Block non-local access to Weave Net control port" -j DROP'
    )
    for table in ("mangle", "nat", "filter"):
        assert rules(ns, table, "WEAVE-CANARY") == []
    listed = ns.run(["ipset", "save", "weaver-no-masq-local"], timeout=20).stdout.splitlines()
    assert "hash:net family inet" in listed[0]
    assert "comment" in listed[0]
    assert listed[1].startswith("add weaver-no-masq-local 10.244.0.0/24")


@pytest.mark.parametrize("name", ALL)
def test_a_pod_has_its_own_rules_and_its_neighbours_age_fast(make: Make, name: str) -> None:
    deployment = make(name)
    for pod in deployment.pods():
        assert rules(pod.ns, "filter", "INPUT") == [
            "-s 10.244.0.0/16 -d 224.0.0.0/4 -i eth0 -j ACCEPT",
            "-d 224.0.0.0/4 -i eth0 -j DROP",
        ]
        own = "/proc/sys/net/ipv4/neigh/eth0"
        assert pod.ns.read(f"{own}/base_reachable_time").strip() == "5"
        assert pod.ns.read(f"{own}/ucast_solicit").strip() == "1"
        port = pod.node.ns.run(["ip", "-d", "link", "show", pod.host_end], timeout=20).stdout
        assert "hairpin on" in port


def test_the_fast_datapath_sends_super_packets(make: Make) -> None:
    assert longest(make("weave")) > 9000


def test_sleeve_and_esp_send_no_frame_longer_than_the_wires_mtu(make: Make) -> None:
    assert longest(make("weave-sleeve")) <= 1514


def test_encrypted_packets_are_selected_by_a_mark_and_others_are_refused(make: Make) -> None:
    deployment = make("weave-encrypted")
    a, b = deployment.a.ns, deployment.b.ns
    assert rules(a, "mangle", "WEAVE-IPSEC-OUT") == [
        "-s 192.168.100.1/32 -d 192.168.100.2/32 -p udp -m udp --dport 6784 -j WEAVE-IPSEC-OUT-MARK"
    ]
    assert rules(a, "mangle", "WEAVE-IPSEC-OUT-MARK") == ["-j MARK --set-xmark 0x20000/0x20000"]
    assert rules(b, "filter", "WEAVE-IPSEC-IN") == [
        "-s 192.168.100.1/32 -d 192.168.100.2/32 -p udp -m udp --dport 6784"
        " -m mark ! --mark 0x20000/0x20000 -j DROP"
    ]
    policies = a.run(["ip", "xfrm", "policy"], timeout=20).stdout
    assert policies.count("dir out") == 1
    assert "dir in" not in policies
    assert "mark 0x20000/0x20000" in policies
    assert "flag esn" in a.run(["ip", "xfrm", "state"], timeout=20).stdout
    assert longest(deployment) <= 1514
    client, server = deployment.pair("inter")
    a.run(["iptables-nft", "-t", "mangle", "-F", "WEAVE-IPSEC-OUT"], timeout=20)
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 1000, limit=1.0)
