"""Proof by observation: what a deployment does with probe packets is compared with what its profile
claims.

Expected comes from the profile and the run's options; observed from devices' counters, from the
frames on the wire and from what arrives.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cnibench.clusters.lab.attestation import capture, probe
from cnibench.clusters.lab.namespaces import features, links, wire
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.model.cell import Attestation, Placement
from cnibench.testbed.traffic_checks import arrives, stays_inside

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment

_PLACEMENTS: tuple[Placement, ...] = ("intra", "inter")
_PROBE = 192 * 1024  # bytes: some hundred packets of an MTU, some ten super-packets
# bytes: largest MTU of which a window's beginning and the kernel's 64 KiB always hold several
# segments
_JUMBO = 9216
# s that denied connections are given; inside one machine an allowed one needs less than a
# millisecond
_DENIAL = 0.4
_LARGER = 0.1  # s that a packet larger than the path is given
_SAME = {
    "ovs-vxlan": "vxlan",
    "evpn": "vxlan",
    "ila": "none",
}  # what an encapsulation looks like on the wire


def attest(deployment: LabDeployment) -> list[Attestation]:
    """All checks, passed or not."""
    found = deployment.verify()
    with contextlib.ExitStack() as stack:
        stack.enter_context(capture.tapped(deployment.nodes()))
        # What must not come through has time to do so while the others are made.
        strange = _begun(deployment, stack) if deployment.claim.policy == "enforced" else []
        found += _wire(deployment)
        for family in deployment.families:
            found += inside(deployment, family)
            found += _between(deployment, family)
        # not before the streams: what refuses it may tell its sender the size of the path
        large = {family: _larger(deployment, family, stack) for family in deployment.families}
        found += deployment.datapath.checks()
        for family, attempt in large.items():
            found += _mtu(deployment, family, attempt)
        if strange:
            found += _denied(deployment, strange)
    return found


def _wire(deployment: LabDeployment) -> Iterator[Attestation]:
    """The wire itself: its features, and the packet sizes that a plain TCP stream from node to node
    has on it.
    """
    name = wire.model(deployment.options)
    for node in deployment.nodes():
        wanted = {**wire.bits(name), **deployment.datapath.underlay_features(node)}
        now = features.read(node.ns, node.wire)
        wrong = [
            f"{bit} {'on' if now.get(bit) else 'off'}"
            for bit, on in wanted.items()
            if now.get(bit, False) != on
        ]
        yield deployment.attestation(
            f"wire-features-{node.name}",
            f"offload model {name}",
            ", ".join(wrong) or "as the model says",
            not wrong,
        )
    a, b = deployment.nodes()
    with capture.watching(a) as seen:
        failure = probe.stream(a.ns, b.ns, b.addresses[4], 4, _PROBE)
    packets = seen.between(a.addresses[4], b.addresses[4])
    yield _sizes(deployment, "wire-offload", packets, "none", 4, failure)


def _sizes(
    deployment: LabDeployment,
    check: str,
    packets: list[capture.Packet],
    encapsulation: str,
    family: int,
    failure: str,
) -> Attestation:
    on = {
        **wire.bits(wire.model(deployment.options)),
        **deployment.datapath.underlay_features(deployment.a),
    }
    limit = deployment.wire_mtu + 14  # Ethernet header
    whole = wire.passes_whole(on, encapsulation, family) and (
        check == "wire-offload" or deployment.datapath.super_packets
    )
    longest = max((packet.length for packet in packets), default=0)
    if deployment.wire_mtu > _JUMBO:
        expected = (
            f"frames of any length: above an MTU of {_JUMBO} B not every stream is sent in"
            " super-packets"
        )
        return deployment.attestation(
            check,
            expected,
            failure or f"longest {longest} B",
            not failure and bool(packets),
            family,
        )
    expected = f"frames longer than {limit} B" if whole else f"no frame longer than {limit} B"
    passed = not failure and bool(packets) and (longest > limit) == whole
    return deployment.attestation(
        check, expected, failure or f"longest {longest} B", passed, family
    )


def inside(deployment: LabDeployment, family: int) -> Iterator[Attestation]:
    """Traffic inside a node: it arrives and never reaches the wire."""
    client, server = deployment.pair("intra")
    with capture.watching(deployment.a) as seen:
        failure = probe.stream(client.ns, server.ns, server.addresses[family], family, _PROBE)
    yield arrives(deployment, "reach-intra", failure, family)
    astray = len(seen.between(client.addresses[family], server.addresses[family]))
    yield stays_inside(deployment, astray, family)


def _between(deployment: LabDeployment, family: int) -> Iterator[Attestation]:
    """Traffic between nodes, opened from either: it arrives, data and replies in the claimed
    encapsulation and in no other, through the tunnel devices when there are any.
    """
    near, far = deployment.pair("inter")
    yield from _from(deployment, family, near, far, "")
    yield from _from(deployment, family, far, near, "-back")


def _from(
    deployment: LabDeployment, family: int, client: LabPod, server: LabPod, way: str
) -> Iterator[Attestation]:
    """The same of one connection; ``way`` marks its checks."""
    claimed = deployment.claim.encapsulation
    expected = _SAME.get(claimed, claimed)
    ends = (client.node, server.node)
    tunnels = [deployment.datapath.tunnel_on(node, family) for node in ends]
    before = [
        links.statistics(node.ns, name) for node, name in zip(ends, tunnels, strict=True) if name
    ]
    with capture.watching(client.node) as seen, capture.watching(server.node) as answered:
        failure = probe.stream(client.ns, server.ns, server.addresses[family], family, _PROBE)
    yield arrives(deployment, f"reach-inter{way}", failure, family)

    on_wire = deployment.datapath.on_wire
    data = _packets(
        seen,
        expected,
        on_wire(client, family, opener=True, source=True),
        on_wire(server, family, opener=False, source=False),
    )
    replies = _packets(
        answered,
        expected,
        on_wire(server, family, opener=False, source=True),
        on_wire(client, family, opener=True, source=False),
    )
    checksum = deployment.profile.features.outer_checksum
    for packets, suffix in ((data, way), (replies, f"{way}-replies")):
        yield deployment.attestation(
            f"encapsulation{suffix}", *capture.encapsulation(packets, expected), family
        )
        if checksum is not None and expected in capture.KEYED and family == 4:
            yield deployment.attestation(
                f"outer-checksum{suffix}", *capture.outer_checksum(packets, checksum), family
            )
    yield _sizes(deployment, f"offload-inter{way}", data, claimed, family, failure)

    if before:
        after = [links.statistics(node.ns, name) for node, name in zip(ends, tunnels, strict=True)]
        sent, got = (
            after[0]["tx_bytes"] - before[0]["tx_bytes"],
            after[1]["rx_bytes"] - before[1]["rx_bytes"],
        )
        back = after[1]["tx_packets"] - before[1]["tx_packets"]
        yield deployment.attestation(
            f"tunnel-device{way}",
            f"{tunnels[0]} counts at least {_PROBE} B, and replies",
            f"{sent} B out of {ends[0].name}'s, {got} B into {ends[1].name}'s, {back} replies",
            min(sent, got) >= _PROBE and back > 0,
            family,
        )


def _packets(seen: capture.Seen, expected: str, source: str, target: str) -> list[capture.Packet]:
    """The packets of a connection in one direction; encrypted ones cannot be distinguished from
    others of the same kind.
    """
    if expected in ("wireguard", "esp"):
        plain = seen.between(source, target)
        return [packet for packet in seen.packets if packet.encapsulation == expected] + plain
    return seen.between(source, target)


def _larger(deployment: LabDeployment, family: int, stack: contextlib.ExitStack) -> probe.Datagram:
    """A packet between nodes that is one byte larger than the path, sent."""
    client, server = deployment.pair("inter")
    return stack.enter_context(
        probe.sent(
            client.ns, server.ns, server.addresses[family], family, deployment.path_mtu + 1, _LARGER
        )
    )


def _mtu(deployment: LabDeployment, family: int, larger: probe.Datagram) -> Iterator[Attestation]:
    """A packet with DF as large as the path passes between nodes, one byte more does not."""
    client, server = deployment.pair("inter")
    device, path = _device_mtu(deployment, client), deployment.path_mtu
    full = probe.datagram(client.ns, server.ns, server.addresses[family], family, path)
    more = larger.missing()
    observed = f"device {device} B; {path} B {full or 'passes'}; {path + 1} B {more or 'passes'}"
    expected = f"device {deployment.mtu} B; {path} B with DF passes, {path + 1} B does not"
    yield deployment.attestation(
        "mtu", expected, observed, device == deployment.mtu and not full and bool(more), family
    )


def _device_mtu(deployment: LabDeployment, pod: LabPod) -> int:
    return links.mtu(pod.ns, pod.interface or deployment.a.wire)


class _Attempt(NamedTuple):
    """A connection of a stranger's that must not come about; ``until`` on the monotonic clock it
    is given time to.
    """

    check: str
    family: int
    listener: socket.socket
    until: float


def _begun(deployment: LabDeployment, stack: contextlib.ExitStack) -> list[_Attempt]:
    """Strangers of both nodes try the servers of both placements."""
    begun = []
    for node in deployment.nodes():
        stranger = deployment.stranger(node)
        for family in deployment.families:
            for placement in _PLACEMENTS:
                server = deployment.pair(placement)[1]
                _, listener = stack.enter_context(
                    probe.attempt(stranger.ns, server.ns, server.addresses[family], family)
                )
                way = "intra" if server.node is node else "inter"
                check = f"denied-{way}" if node is deployment.a else f"denied-{way}-{node.name}"
                begun.append(_Attempt(check, family, listener, time.monotonic() + _DENIAL))
    return begun


def _denied(deployment: LabDeployment, begun: Sequence[_Attempt]) -> Iterator[Attestation]:
    """Whom the policy does not let in stays out, inside a node and between nodes; whom it lets in
    was seen above (reach-*).

    So that the denial is the policy's and not a dead Pod's, each stranger has to be reachable from
    its node.
    """
    for node in deployment.nodes():
        stranger = deployment.stranger(node)
        for family in deployment.families:
            alive = probe.stream(node.ns, stranger.ns, stranger.addresses[family], family, 1)
            check = "stranger-alive" if node is deployment.a else f"stranger-alive-{node.name}"
            yield deployment.attestation(
                check, "its node reaches it", alive or "reached", not alive, family
            )
    for each in begun:
        through = probe.reached(each.listener, max(each.until - time.monotonic(), 0))
        observed = "it got through" if through else "denied"
        yield deployment.attestation(
            each.check,
            "a connection that no policy allows is denied",
            observed,
            not through,
            each.family,
        )
