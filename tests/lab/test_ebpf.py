"""Cilium's datapath with real traffic: forwarded, filtered, tracked and counted by the eBPF
programs, and nothing of it left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.ebpf.maps import ALLOW_ALL, NodeMaps, Rule
from cnibench.clusters.lab.namespaces import links, tree
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.model.profile import Profile, builtin

_PROFILES = (
    "cilium",
    "cilium-native",
    "cilium-kpr",
)  # through the node's stack, and by eBPF host routing
_TCP, _PORT = 6, 7777
_FRAGMENT_NOT_FOUND, DENIED_BY_POLICY = 175, 133  # reasons of metrics.h
_BPF = {"x86_64": 321}.get(platform.machine(), 280)  # bpf(2)
_MAP_GET_NEXT_ID = 12
_AF = {4: socket.AF_INET, 6: socket.AF_INET6}
_LIMIT = 10.0

Make = Callable[..., LabDeployment]


def _variant(name: str, policy: str = "default-chains", **options: Any) -> Profile:
    profile = builtin()[name]
    assert profile.datapath
    return profile.model_copy(
        update={
            "datapath": profile.datapath.model_copy(update={"policy": policy, "options": options})
        }
    )


def _until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + _LIMIT
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def map_ids() -> set[int]:
    """The numbers of all maps in the kernel."""
    libc, found, number = ctypes.CDLL(None, use_errno=True), set[int](), 0
    while True:
        attributes = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12)
        if libc.syscall(_BPF, _MAP_GET_NEXT_ID, attributes, 12):
            assert ctypes.get_errno() == errno.ENOENT, os.strerror(ctypes.get_errno())
            return found
        number = struct.unpack_from("=I", attributes.raw, 4)[0]
        found.add(number)


def _maps(deployment: LabDeployment, node: str = "a") -> NodeMaps:
    maps: NodeMaps = deployment.datapath.maps[node]  # type: ignore[attr-defined]
    return maps


def _own_ids(maps: NodeMaps) -> set[int]:
    """The kernel's numbers of the maps of one node."""
    descriptors = [one.fd for one in (*maps._maps.values(), *maps._policies.values())]
    texts = [Path(f"/proc/self/fdinfo/{one}").read_text() for one in descriptors]
    return {int(re.search(r"^map_id:\s+(\d+)", text, re.MULTILINE)[1]) for text in texts}  # type: ignore[index]


@contextlib.contextmanager
def _connected(
    client: LabPod, server: LabPod, family: int, port: int, limit: float = _LIMIT
) -> Iterator[tuple[socket.socket, socket.socket] | None]:
    """An open TCP connection to ``port``: (client's end, server's end), or None when it is not made
    within ``limit`` seconds.
    """
    with contextlib.ExitStack() as stack:
        with server.ns.inside():
            listener = stack.enter_context(socket.socket(_AF[family], socket.SOCK_STREAM))
        with client.ns.inside():
            near = stack.enter_context(socket.socket(_AF[family], socket.SOCK_STREAM))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((server.addresses[family], port))
        listener.listen(1)
        near.setblocking(False)
        near.connect_ex((server.addresses[family], port))
        if not select.select([listener], [], [], limit)[0]:
            yield None
            return
        far = stack.enter_context(listener.accept()[0])
        far.setblocking(False)
        yield near, far


def _checksum_errors(ns: Namespace) -> int:
    names, values = (
        line.split() for line in ns.read("/proc/net/snmp").splitlines() if line.startswith("Tcp:")
    )
    return int(dict(zip(names, values, strict=True))["InCsumErrors"])


@pytest.mark.parametrize("routing", ["ebpf", "legacy"])
@pytest.mark.parametrize("name", ["cilium", "cilium-native"])
def test_attests_and_denies_under_both_ways_of_host_routing(
    make_deployment: Make, name: str, routing: str
) -> None:
    deployment = make_deployment(_variant(name, "enforced", host_routing=routing), ip=(4, 6))
    found = deployment.attest()
    assert [item for item in found if not item.passed] == []
    checks = {item.check for item in found}
    assert {
        "denied-intra",
        "denied-inter",
        "ebpf-forwards-intra",
        "ebpf-forwards-inter",
        "no-rules-intra",
    } <= checks
    assert ("identity-in-vni" in checks) == (name == "cilium")
    for node in "ab":
        assert set(_maps(deployment, node).dropped()) == {DENIED_BY_POLICY}
    if (name, routing) == (
        "cilium-native",
        "legacy",
    ):  # between nodes it does go through the stack: the count that was 0 inside is no blind one
        assert deployment.datapath.routed(deployment.a, 4) > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", ["none", "plain", "vxlan"])
@pytest.mark.parametrize("name", _PROFILES)
def test_streams_arrive_whole_with_right_checksums_under_each_offload_model(
    make_deployment: Make, name: str, model: str
) -> None:
    deployment = make_deployment(name, ip=(4, 6), wire_offload=model)
    for placement in ("intra", "inter"):
        client, server = deployment.pair(placement)  # type: ignore[arg-type]
        for family in (4, 6):
            assert (
                probe.stream(
                    client.ns, server.ns, server.addresses[family], family, 8 << 20, limit=20
                )
                == ""
            )
        assert _checksum_errors(server.ns) == 0
    assert _maps(deployment).dropped() == {}


@pytest.mark.parametrize("name", _PROFILES)
def test_fragments_find_their_ports(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name, ip=(4, 6))
    for placement in ("intra", "inter"):
        client, server = deployment.pair(placement)  # type: ignore[arg-type]
        for family in (4, 6):
            with server.ns.inside():
                receiver = socket.socket(_AF[family], socket.SOCK_DGRAM)
            with client.ns.inside():
                sender = socket.socket(_AF[family], socket.SOCK_DGRAM)
            with receiver, sender:
                receiver.bind((server.addresses[family], _PORT))

                def arrives(
                    sender: socket.socket = sender, receiver: socket.socket = receiver
                ) -> bool:
                    sender.sendto(bytes(5000), receiver.getsockname())
                    return bool(select.select([receiver], [], [], 0.5)[0])

                assert _until(arrives)
                assert len(receiver.recv(8192)) == 5000
    # a later fragment that overtakes the first on another CPU is dropped, as by Cilium; nothing
    # else is
    assert set(_maps(deployment).dropped()) | set(_maps(deployment, "b").dropped()) <= {
        _FRAGMENT_NOT_FOUND
    }


@pytest.mark.parametrize("name", _PROFILES)
def test_nodes_and_pods_reach_each_other(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name, ip=(4, 6))
    near, far = deployment.pair("inter")
    for family in (4, 6):
        assert (
            probe.stream(
                deployment.a.ns, near.ns, near.addresses[family], family, 100000, limit=_LIMIT
            )
            == ""
        )
        assert (
            probe.stream(
                deployment.a.ns, far.ns, far.addresses[family], family, 100000, limit=_LIMIT
            )
            == ""
        )
        assert (
            probe.stream(
                near.ns,
                deployment.a.ns,
                deployment.a.addresses[family],
                family,
                100000,
                limit=_LIMIT,
            )
            == ""
        )


def test_replies_pass_by_the_connection_table_until_their_entry_has_expired(
    make_deployment: Make,
) -> None:
    """Out only to the server's port: what the server sends back passes by conntrack alone
    (bpf_lxc.c: replies skip the policy).
    """
    deployment = make_deployment("cilium", ip=(4, 6))
    client, server = deployment.pair("inter")
    for node in "ab":
        _maps(deployment, node).policy(0, (Rule(), Rule(egress=True, proto=_TCP, port=_PORT)))
    maps = _maps(deployment, "b")
    for family in (4, 6):
        with _connected(client, server, family, _PORT) as ends:
            assert ends
            near, far = ends
            far.send(b"reply")
            assert select.select([near], [], [], _LIMIT)[0]
            assert near.recv(10) == b"reply"
            before = maps.dropped().get(DENIED_BY_POLICY, 0)

            def entries(maps: NodeMaps = maps, family: int = family) -> list[str]:
                key = (client.addresses[family], server.addresses[family], _TCP, _PORT)
                return [
                    c.direction
                    for c in maps.connections(family)
                    if (c.source, c.target, c.proto, c.target_port) == key and not c.related
                ]

            assert entries() == ["in"]
            assert entries(_maps(deployment, "a")) == ["out"]
            assert maps.expire() == 0  # nothing is that old
            assert (
                maps.expire(time.monotonic() + 10000) >= 2
            )  # the connection and its entry for ICMP errors
            assert entries() == []
            far.send(b"unknown")
            assert _until(lambda before=before: maps.dropped().get(DENIED_BY_POLICY, 0) > before)  # type: ignore[misc]


def test_a_policy_of_5000_entries_decides_by_the_most_specific_entry(make_deployment: Make) -> None:
    deployment = make_deployment("cilium", ip=(4,))
    client, server = deployment.pair("intra")
    others = [
        Rule(identity=100000 + number, proto=_TCP, port=1 + number % 60000)
        for number in range(5000)
    ]
    identity = 0x4E01  # of the benchmark's Pods

    def through(*rules: Rule, limit: float = _LIMIT) -> bool:
        _maps(deployment).policy(0, (*others, ALLOW_ALL[1], *rules))
        with _connected(client, server, 4, _PORT, limit) as ends:
            return ends is not None

    def denied(*rules: Rule) -> bool:
        before = _maps(deployment).dropped()
        return not through(*rules, limit=0.3) and _maps(deployment).dropped() != before

    matching = Rule(identity=identity, proto=_TCP, port=_PORT)
    assert through(matching)
    entry = _maps(deployment)._policies[0].lookup(matching.key())
    assert entry is not None
    assert struct.unpack_from("=Q", entry, 8)[0] > 0  # packets that it decided
    assert denied()  # no entry matches
    assert through(Rule(proto=_TCP, port=_PORT))  # any identity
    assert through(Rule(identity=identity, proto=_TCP))  # any port
    assert denied(Rule(identity=identity, proto=17))
    assert denied(Rule(identity=identity, proto=_TCP, port=_PORT, deny=True), Rule())
    assert denied(Rule(identity=identity), Rule(proto=_TCP, port=_PORT, deny=True))
    assert through(Rule(identity=identity, deny=False), Rule(proto=_TCP, port=_PORT + 1, deny=True))


def test_a_source_address_that_is_not_the_pods_is_dropped(make_deployment: Make) -> None:
    deployment = make_deployment("cilium-native", ip=(4,))
    client, server = deployment.pair("intra")
    links.address(client.ns, client.interface, "10.244.0.99/32")
    with client.ns.inside():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sender:
        sender.bind(("10.244.0.99", 0))
        sender.sendto(b"x", (server.addresses[4], _PORT))
    assert _until(lambda: _maps(deployment).dropped().get(132, 0) >= 1)


def test_a_disconnected_pod_is_forgotten(make_deployment: Make) -> None:
    deployment = make_deployment("cilium", ip=(4,))
    client, server = deployment.pair("intra")
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 1000, limit=_LIMIT) == ""
    deployment.datapath.disconnect(server)
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 1000, limit=0.3) != ""


def test_nothing_of_it_stays(make_deployment: Make) -> None:
    deployment = make_deployment("cilium", ip=(4, 6))
    pins = set(tree.BPF.iterdir())
    ids = _own_ids(_maps(deployment)) | _own_ids(_maps(deployment, "b"))
    assert len(ids) >= 20
    assert ids <= map_ids()
    deployment.remove()
    assert _until(lambda: not ids & map_ids())
    assert set(tree.BPF.iterdir()) == pins
