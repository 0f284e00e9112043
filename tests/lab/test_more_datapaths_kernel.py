"""Further systems of the studies that this kernel can carry: each is built, proven, carries
traffic, goes again, and is watched.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.daemons import frr
from cnibench.clusters.lab.daemons.processes import Daemons
from cnibench.clusters.lab.datapaths.evpn import Evpn, learnt
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.errors import ClusterError
from cnibench.model.cell import Attestation
from tests.lab._profiles import transactions, with_options

Make = Callable[..., LabDeployment]

FAMILIES: dict[str, tuple[int, ...]] = {
    "flannel-udp": (4,),
    "weave-sleeve": (4,),
    "macvlan": (4, 6),
    "swarm-vxlan": (4,),
    "swarm-vxlan-filter": (4,),
    "calico-ebpf": (4, 6),
    "ila-ebpf": (6,),
    "evpn-vxlan": (4, 6),
}
WITH_DAEMONS = ("flannel-udp", "weave-sleeve", "evpn-vxlan")


def failed(found: list[Attestation]) -> set[str]:
    return {f"{item.check} ({item.ip}): {item.observed}" for item in found if not item.passed}


def daemons(deployment: LabDeployment) -> Daemons:
    found = deployment.datapath.daemons  # type: ignore[attr-defined]
    assert isinstance(found, Daemons)
    return found


def wait_for(condition: Callable[[], object], words: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, words
        time.sleep(0.02)


@pytest.mark.parametrize("name", FAMILIES)
def test_is_built_proven_and_carries_traffic(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name, ip=FAMILIES[name])
    found = deployment.attest()
    assert not failed(found)
    for placement in ("intra", "inter"):
        client, server = deployment.pair(placement)  # type: ignore[arg-type]
        for family in FAMILIES[name]:
            assert transactions(client, server, server.addresses[family]) > 1
    assert deployment.alive() == ""


@pytest.mark.parametrize("name", FAMILIES)
def test_more_pods_talk_over_both_placements(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name, ip=FAMILIES[name])
    near, far = deployment.add_pods(deployment.a, 5), deployment.add_pods(deployment.b, 5)
    for family in FAMILIES[name]:
        for one, other in ((near[0], near[-1]), (near[-1], far[-1]), (far[0], near[1])):
            assert probe.stream(one.ns, other.ns, other.addresses[family], family, 1000) == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", WITH_DAEMONS)
def test_a_killed_daemon_is_noticed_and_none_is_left(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name)
    pids = daemons(deployment).pids()
    assert pids
    first, *_ = pids
    os.kill(pids[first], signal.SIGKILL)
    wait_for(deployment.alive, "it was not noticed")
    assert first in deployment.alive()
    folder = daemons(deployment).folder
    deployment.remove()
    assert not folder.exists()
    for pid in pids.values():
        assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("name", ["flannel-udp", "weave-sleeve"])
def test_packets_between_nodes_cross_the_program_and_no_others(
    make_deployment: Make, name: str
) -> None:
    deployment = make_deployment(name)
    client, server = deployment.pair("inter")
    pid = daemons(deployment).pids()[f"{name}-a"]
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 1000) == ""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: "(stopped)" in Path(f"/proc/{pid}/status").read_text(), "it did not stop")
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 1000, limit=0.3)
    os.kill(pid, signal.SIGCONT)
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 100_000, limit=10) == ""
    near = deployment.pair("intra")
    os.kill(pid, signal.SIGSTOP)
    assert (
        probe.stream(near[0].ns, near[1].ns, near[1].addresses[4], 4, 1000) == ""
    )  # inside a node it has no part
    os.kill(pid, signal.SIGCONT)


def test_the_socket_of_flannels_program_is_as_flanneld_has_it(make_deployment: Make) -> None:
    """What /proc shows of flanneld v0.28.4 too: the socket blocks, and a thread waits for it in an
    epoll instance that has it twice, edge-triggered.
    """
    deployment = make_deployment("flannel-udp")
    pid = daemons(deployment).pids()["flannel-udp-a"]
    process = Path(f"/proc/{pid}")
    wait_for(lambda: len(list((process / "task").iterdir())) == 2, "no thread waits")
    info = {one.name: one.read_text() for one in (process / "fdinfo").iterdir()}
    watched = [
        line.split() for text in info.values() for line in text.splitlines() if "tfd:" in line
    ]
    assert len(watched) == 2
    assert len({words[1] for words in watched}) == 2, "two descriptors"
    for words in watched:
        assert int(words[3], 16) & (1 << 31), "edge-triggered"
        flags = info[words[1]].split("flags:")[1].split()[0]
        assert not int(flags, 8) & os.O_NONBLOCK


def test_a_flushed_filter_of_swarm_is_caught(make_deployment: Make) -> None:
    deployment = make_deployment("swarm-vxlan-filter")
    for network in deployment.datapath.networks.values():  # type: ignore[attr-defined]
        network.run(["iptables", "-P", "FORWARD", "ACCEPT"])
        network.run(["iptables", "-F", "FORWARD"])
    caught = {item.check for item in deployment.attest() if not item.passed}
    assert {"denied-port", "filter-in-namespace"} <= caught


def test_the_filter_of_the_study_opens_its_port_alone(make_deployment: Make) -> None:
    deployment = make_deployment(with_options("swarm-vxlan-filter", ports=["5201"]))
    for placement in ("intra", "inter"):
        client, server = deployment.pair(placement)  # type: ignore[arg-type]
        for port, opened in ((5201, True), (5202, False)):
            with probe.attempt(client.ns, server.ns, server.addresses[4], 4, port) as (_, listener):
                assert probe.reached(listener, 10 if opened else 0.2) == opened


def test_a_missing_translation_of_ila_is_caught(make_deployment: Make) -> None:
    deployment = make_deployment("ila-ebpf", ip=(6,))
    deployment.datapath.disconnect(deployment.pair("inter")[1])
    caught = {item.check for item in deployment.attest() if not item.passed}
    assert {"encapsulation", "locator-on-wire", "ebpf-translates"} <= caught


@pytest.fixture
def second_pod() -> Iterator[Callable[[LabNode, int], LabPod]]:
    """Makes further Pods: (node, number) gives one with the same addresses as the deployment's Pod
    of that number.
    """
    made: list[Namespace] = []

    def make(node: LabNode, number: int) -> LabPod:
        made.append(Namespace(f"second-{node.name}{number}"))
        return LabPod(f"second-{node.name}{number}", made[-1], node, number, "bench", (4,))

    yield make
    for ns in made:
        ns.remove()


def test_two_tenants_with_the_same_addresses_on_evpn(
    make_deployment: Make, second_pod: Callable[[LabNode, int], LabPod]
) -> None:
    deployment = make_deployment(with_options("evpn-vxlan", tenants=2))
    evpn = deployment.datapath
    assert isinstance(evpn, Evpn)
    ours = deployment.pair("inter")
    theirs = second_pod(deployment.a, ours[0].number), second_pod(deployment.b, ours[1].number)
    with evpn.batch():
        for pod in theirs:
            list(evpn.attach(pod, 1))
    for one, other in zip(ours, theirs, strict=True):
        assert one.addresses[4] == other.addresses[4]
    # Both at the same time, to the same address: each connection is accepted by its own tenant's
    # Pod alone.
    target = ours[1].addresses[4]
    with probe.attempt(ours[0].ns, ours[1].ns, target, 4, 7777) as (_, first):
        assert probe.reached(first, 10)
        with probe.attempt(theirs[0].ns, theirs[1].ns, target, 4, 7777) as (_, second):
            assert probe.reached(second, 10)
            first.accept()[0].close()
            assert not probe.reached(first, 0.1)
    for client, server in (ours, theirs):
        assert probe.stream(client.ns, server.ns, target, 4, 100_000) == ""
    links.set_link(theirs[1].ns, "eth0", state="down")
    assert probe.stream(theirs[0].ns, theirs[1].ns, target, 4, 1000, limit=0.3)
    assert probe.stream(ours[0].ns, ours[1].ns, target, 4, 1000) == ""
    assert (
        set(learnt(deployment.a, 0).values())
        == set(learnt(deployment.a, 1).values())
        == {deployment.b.addresses[4]}
    )
    assert set(learnt(deployment.a, 0)).isdisjoint(learnt(deployment.a, 1))


def test_two_tenants_with_the_same_address_are_refused_on_ila(
    make_deployment: Make, second_pod: Callable[[LabNode, int], LabPod]
) -> None:
    deployment = make_deployment("ila-ebpf", ip=(6,))
    client, server = deployment.pair("inter")
    theirs = second_pod(deployment.b, server.number)
    with pytest.raises(ClusterError, match=f"{server.addresses[6]} is mapped") as told:
        list(deployment.datapath.connect(theirs))
    assert "evpn-vxlan" in told.value.remedy
    assert (
        probe.stream(client.ns, server.ns, server.addresses[6], 6, 100_000) == ""
    )  # the first tenant's is as it was
    assert not failed(deployment.attest())


def test_a_bgp_session_that_never_establishes_is_an_error_and_leaves_nothing(
    make_deployment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The route server expects other systems than the nodes have: it refuses each session."""
    whole = frr.server_config
    monkeypatch.setattr(
        frr,
        "server_config",
        lambda name, peers: whole(name, {peer: system + 100 for peer, system in peers.items()}),
    )
    before = set(os.listdir("/proc"))
    with pytest.raises(
        ClusterError, match="BGP sessions with the route server: not within 1 s"
    ) as told:
        make_deployment(with_options("evpn-vxlan", converge=1))
    assert "converge" in told.value.remedy
    assert not [
        name
        for name in set(os.listdir("/proc")) - before
        if name.isdigit() and _is_child_frr(int(name))
    ]


def _is_child_frr(pid: int) -> bool:
    """Is it a daemon of FRR that this process started?"""
    try:
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        return (
            b"/usr/lib/frr/" in Path(f"/proc/{pid}/cmdline").read_bytes()
            and int(parent) == os.getpid()
        )
    except OSError:
        return False
