"""Deployments of the profiles without a CNI: traffic, proof, and that the proof catches what is not
as claimed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from cnibench.clusters.lab.attestation import capture, probe
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import features, links, tree, wire
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.errors import ClusterError, LimitError
from cnibench.model.cell import Attestation
from cnibench.model.profile import builtin
from cnibench.testbed.cluster import Options

Make = Callable[..., LabDeployment]


def failed(found: list[Attestation]) -> set[str]:
    return {item.check for item in found if not item.passed}


@pytest.mark.parametrize("model", wire.MODELS)
@pytest.mark.parametrize("profile", ["host", "veth-baseline"])
def test_every_offload_model_is_attested_in_both_families(
    make_deployment: Make, profile: str, model: str
) -> None:
    deployment = make_deployment(profile, ip=(4, 6), wire_offload=model)
    found = deployment.attest()
    assert not [item for item in found if not item.passed]
    assert {item.ip for item in found} == {4, 6}
    sizes = {item.observed for item in found if item.check == "wire-offload"}
    assert len(sizes) == 1
    longest = int(sizes.pop().split()[1])
    assert (longest > 1514) == (model != "none")


@pytest.mark.parametrize("placement", ["intra", "inter"])
@pytest.mark.parametrize("family", [4, 6])
def test_netperf_runs_between_pods(make_deployment: Make, placement: str, family: int) -> None:
    deployment = make_deployment("veth-baseline", ip=(4, 6))
    client, server = deployment.pair(placement)  # type: ignore[arg-type]
    target = server.addresses[family]
    with server.spawn(["netserver", "-D", f"-{family}", "-L", target]):
        deadline = time.monotonic() + 10
        while ":3241 " not in server.read_text("/proc/net/tcp") + server.read_text(
            "/proc/net/tcp6"
        ):  # port 12865
            assert time.monotonic() < deadline
        done = client.run(
            [
                "netperf",
                f"-{family}",
                "-H",
                target,
                "-l",
                "1",
                "-t",
                "TCP_STREAM",
                "--",
                "-o",
                "THROUGHPUT",
            ],
            timeout=30,
        )
    assert float(done.stdout.splitlines()[-1]) > 1  # 10^6 bit/s: it is alive
    assert deployment.alive() == ""


def test_the_proof_catches_a_wire_with_other_features(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline", wire_offload="none")
    features.write(deployment.a.ns, deployment.a.wire, wire.bits("all"))
    assert failed(deployment.attest()) == {
        "kernel-state-a",
        "wire-features-a",
        "wire-offload",
        "offload-inter",
    }


def test_the_proof_catches_a_wrong_mtu(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline")
    client, _ = deployment.pair("inter")
    links.set_link(client.ns, client.interface, mtu=1400)
    assert failed(deployment.attest()) == {"kernel-state-a0", "mtu"}


def test_the_proof_catches_a_path_with_a_smaller_mtu(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline")
    links.set_link(deployment.b.ns, deployment.b.wire, mtu=1400)
    links.set_link(deployment.a.ns, deployment.a.wire, mtu=1400)
    assert "mtu" in failed(deployment.attest())


def test_the_proof_catches_a_tunnel_that_is_not_there(make_deployment: Make) -> None:
    plain = builtin()["veth-baseline"]
    assert plain.datapath is not None
    lie = plain.model_copy(
        update={"datapath": plain.datapath.model_copy(update={"encapsulation": "vxlan"})}
    )
    found = failed(make_deployment(lie, wire_offload="plain").attest())
    assert {"encapsulation", "offload-inter"} <= found


def test_the_proof_catches_a_policy_that_denies_nothing(make_deployment: Make) -> None:
    plain = builtin()["veth-baseline"]
    assert plain.datapath is not None
    lie = plain.model_copy(
        update={"datapath": plain.datapath.model_copy(update={"policy": "enforced"})}
    )
    assert failed(make_deployment(lie).attest()) == {
        "denied-intra",
        "denied-inter",
        "denied-intra-b",
        "denied-inter-b",
    }


def test_the_proof_catches_a_node_that_does_not_forward(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline")
    deployment.b.ns.sysctl({"net/ipv4/ip_forward": 0})
    assert {"reach-inter", "mtu"} <= failed(deployment.attest())


def test_the_proof_catches_a_wire_that_passes_more_than_the_mtu(make_deployment: Make) -> None:
    """The route allows more than the device's MTU, and veth has room for a VLAN tag."""
    deployment = make_deployment("host")
    assert "mtu" not in failed(deployment.attest())
    a, b = deployment.nodes()
    route = ["ip", "route", "replace", f"{b.addresses[4]}/32", "dev", a.wire, "mtu", "1600"]
    a.ns.run(route)
    assert "mtu" in failed(deployment.attest())


def test_a_limited_wire_carries_its_rate(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline", wire_rate=1e8)
    for node in deployment.nodes():
        shown = node.ns.run(["tc", "qdisc", "show", "dev", node.wire]).stdout
        assert "rate 100Mbit" in shown
    client, server = deployment.pair("inter")
    count = 5_000_000  # bytes: 0.4 s at 100 Mbit/s, 0.05 s at eight times as much
    began = time.monotonic()
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, count) == ""
    assert time.monotonic() - began > 0.3


def test_jumbo_wire_and_rate(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline", mtu=9000, wire_rate=1e9)
    assert not failed(deployment.attest())
    assert "tbf" in deployment.a.ns.run(["tc", "qdisc", "show", "dev", deployment.a.wire]).stdout


def test_a_hundred_pods_a_node(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline")
    deployment.add_pods(deployment.a, 97)
    deployment.add_pods(deployment.b, 98)
    pods = list(deployment.pods())
    assert len({pod.addresses[4] for pod in deployment.pods()}) == 99 + 99
    last_a, last_b = pods[98], pods[-1]
    assert probe.stream(last_a.ns, last_b.ns, last_b.addresses[4], 4, 100_000) == ""
    assert [name for name, _ in deployment.steps[last_b.name]] == [
        "sandbox",
        "link",
        "address",
        "routes",
    ]
    assert all(seconds > 0 for _, seconds in deployment.steps[last_b.name])
    assert not failed(deployment.attest())


def test_more_pairs_and_no_more_addresses(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline")
    assert [pod.name for pod in deployment.pair("intra", 1)] == ["a2", "a3"]
    assert [pod.name for pod in deployment.pair("inter", 1)] == ["a2", "b1"]
    with pytest.raises(ClusterError, match="no address left"):
        deployment.add_pods(deployment.b, 249)


@pytest.mark.parametrize("profile", ["calico-wp-xsub", "veth-baseline"])
def test_pairs_are_apart_from_the_stranger_and_the_background_load(
    make_deployment: Make, profile: str
) -> None:
    """The stranger of an enforcing profile is the third Pod of its node; the load's Pods may be
    made before the second pair.
    """
    deployment = make_deployment(profile)
    load = [*deployment.add_pods(deployment.a, 3), *deployment.add_pods(deployment.b, 2)]
    pairs = [
        pod
        for number in (0, 1)
        for pod in (*deployment.pair("intra", number), deployment.pair("inter", number)[1])
    ]
    assert len({pod.name for pod in pairs}) == 6
    assert not {pod.name for pod in pairs} & {pod.name for pod in load}
    assert deployment.pair("intra", 1)[0] is deployment.pair("inter", 1)[0]
    if profile != "veth-baseline":
        assert deployment.stranger(deployment.a) not in pairs
    for client, server in (
        deployment.pair("intra", 1),
        deployment.pair("inter", 1),
        (load[0], load[-1]),
    ):
        assert isinstance(client, LabPod)
        assert isinstance(server, LabPod)
        assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 1000) == ""
    assert not failed(deployment.attest())


def test_several_profiles_stand_side_by_side_and_go() -> None:
    with LabCluster(Options(ip=(4,))) as cluster:
        deployments = [
            cluster.install(name, builtin()[name])
            for name in ("host", "veth-baseline", "veth-baseline")
        ]
        assert all(not failed(deployment.attest()) for deployment in deployments)
        facts = cluster.environment()
        assert facts["sysctls"]["a"]["net/ipv4/ip_forward"] == "1"
        assert facts["sysctls"]["pod"]["net/ipv4/tcp_no_metrics_save"] == "1"
        # Whether the machine forwards, which a new namespace inherits, is no matter of a Pod.
        assert facts["sysctls"]["pod"]["net/ipv4/ip_forward"] == "1"
        assert "rx-gro" in facts["wire_features"]["a"]
        assert any(tree.NETNS.iterdir())
    assert not list(tree.NETNS.iterdir())
    for deployment in deployments:
        deployment.remove()  # twice is no error


def test_programs_in_a_place(make_deployment: Make) -> None:
    deployment = make_deployment("veth-baseline")
    pod, _ = deployment.pair("intra")
    assert pod.run(["cat"], timeout=5, input="hello").stdout == "hello"
    with pytest.raises(ClusterError, match="ended with 1"):
        pod.run(["false"], timeout=5)
    with pytest.raises(LimitError):
        pod.run(["sleep", "30"], timeout=0.2)
    with pytest.raises(ClusterError, match="no/such"):
        pod.read_text("/proc/net/no/such")
    assert "eth0" in pod.read_text("/proc/net/dev")


def test_the_tap_sees_what_leaves_and_nothing_else(make_deployment: Make) -> None:
    deployment = make_deployment("host", wire_offload="none")
    with capture.watching(deployment.a) as seen:
        assert (
            probe.stream(deployment.b.ns, deployment.a.ns, deployment.a.addresses[4], 4, 300_000)
            == ""
        )
    assert seen.between("192.168.100.1", "192.168.100.2")
    assert not seen.between("192.168.100.2", "192.168.100.1")
    assert {packet.encapsulation for packet in seen.packets} == {"none"}


def test_a_tap_that_could_not_see_all_says_so(
    make_deployment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = make_deployment("host", wire_offload="none")
    monkeypatch.setattr(capture, "_BLOCKS", 1)
    with (
        pytest.raises(ClusterError, match="packets on the wire of node a were not seen"),
        capture.watching(deployment.a),
    ):
        assert (
            probe.stream(deployment.a.ns, deployment.b.ns, deployment.b.addresses[4], 4, 300_000)
            == ""
        )


def test_devices_are_made_as_asked(make_deployment: Make) -> None:
    """As iproute2 tells them: what the requests that are encoded here have become in the kernel."""
    ns = make_deployment("veth-baseline").a.ns

    def told(*words: str) -> Any:
        return json.loads(ns.run([*words]).stdout)

    mac, more = links.mac(7, 1), links.mac(7, 2)
    below = links.index(ns, "eth0")
    links.add(
        ns,
        "tunnel",
        "vxlan",
        vxlan_id=77,
        vxlan_link=below,
        vxlan_port=4790,
        vxlan_learning=0,
        vxlan_l2miss=1,
        vxlan_local="192.168.100.1",
        address=mac,
        mtu=1400,
    )
    (tunnel,) = told("ip", "-j", "-d", "link", "show", "tunnel")
    data = tunnel["linkinfo"]["info_data"]
    assert (tunnel["address"], tunnel["mtu"], "UP" in tunnel["flags"]) == (mac, 1400, True)
    assert (data["id"], data["port"], data["link"], data["local"]) == (
        77,
        4790,
        "eth0",
        "192.168.100.1",
    )
    assert (data["learning"], data["l2miss"]) == (False, True)
    links.add(
        ns,
        "six",
        "vxlan",
        vxlan_collect_metadata=True,
        vxlan_port=4791,
        vxlan_local6="fd00:100::1",
        up=False,
    )
    (six,) = told("ip", "-j", "-d", "link", "show", "six")
    assert six["linkinfo"]["info_data"]["external"]
    assert six["linkinfo"]["info_data"]["local6"] == "fd00:100::1"
    links.add(ns, "between", "bridge", address=more)
    assert told("ip", "-j", "-d", "link", "show", "between")[0]["linkinfo"]["info_kind"] == "bridge"
    links.add(
        ns, "other", "macvlan", link=below, macvlan_mode="private"
    )  # of an attribute that only pyroute2 knows
    assert (
        told("ip", "-j", "-d", "link", "show", "other")[0]["linkinfo"]["info_data"]["mode"]
        == "private"
    )
    for target in (
        "192.168.100.2",
        "192.168.100.3",
    ):  # a second end of one address, as for flooding
        links.fdb(ns, "tunnel", "00:00:00:00:00:00", target)
    entries = [
        entry
        for entry in told("bridge", "-j", "fdb", "show", "dev", "tunnel")
        if entry["mac"] == "00:00:00:00:00:00"
    ]
    assert {(entry["dst"], entry["state"]) for entry in entries} == {
        ("192.168.100.2", "permanent"),
        ("192.168.100.3", "permanent"),
    }
    with pytest.raises(ClusterError, match="vxlan device tunnel"):
        links.add(ns, "tunnel", "vxlan", vxlan_id=78)
    for name in ("tunnel", "six", "between", "other", "never-there"):
        links.delete(ns, name)
    with pytest.raises(ClusterError, match="delete lo"):  # no namespace is without it
        links.delete(ns, "lo")
    assert {link["ifname"] for link in told("ip", "-j", "link")} & {
        "tunnel",
        "six",
        "between",
        "other",
    } == set()


def test_a_program_fails_where_it_is_not_installed_and_where_the_place_is_gone(
    make_deployment: Make,
) -> None:
    """As a status, where that is asked for: what is removed may be removed once more."""
    deployment = make_deployment("veth-baseline")
    assert deployment.a.run(["no-such-program"], timeout=20, check=False).returncode == 127
    deployment.remove()
    assert deployment.a.run(["true"], timeout=20, check=False).returncode
    with pytest.raises(ClusterError):
        deployment.a.run(["true"], timeout=20)
