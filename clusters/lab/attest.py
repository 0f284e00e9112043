"""Proof by observation: what a stand does with probe packets is compared with what its profile claims.

Expected comes from the profile and the run's options; observed from devices' counters, from the frames on the wire and from what arrives.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cnibench.cell import Attestation, Placement
from cnibench.clusters.lab import features, links, probe, tap, wire
from cnibench.clusters.lab.places import LabPod

if TYPE_CHECKING:
    from cnibench.clusters.lab.stand import Stand

_PLACEMENTS: tuple[Placement, ...] = ("intra", "inter")
_PROBE = 192 * 1024  # bytes: some hundred packets of an MTU, some ten super-packets
_JUMBO = 9216  # bytes: largest MTU of which a window's beginning and the kernel's 64 KiB always hold several segments
_DENIAL = 0.4  # s that denied connections are given; inside one machine an allowed one needs less than a millisecond
_SAME = {"ovs-vxlan": "vxlan", "evpn": "vxlan", "ila": "none"}  # what an encapsulation looks like on the wire


def attest(stand: Stand) -> list[Attestation]:
    """All checks, passed or not."""
    found: list[Attestation] = []
    with contextlib.ExitStack() as stack:
        strange = _begun(stand, stack) if stand.claim.policy == "enforced" else []  # has time to come through while the others are made
        found += _wire(stand)
        for family in stand.families:
            found += _inside(stand, family)
            found += _between(stand, family)
            found += _mtu(stand, family)
        if strange:
            found += _denied(stand, strange)
    found += stand.datapath.checks()
    return found


def _wire(stand: Stand) -> Iterator[Attestation]:
    """The wire itself: its features, and the packet sizes that a plain TCP stream from node to node has on it."""
    name = wire.model(stand.options)
    for node in stand.nodes():
        wanted = {**wire.bits(name), **stand.datapath.underlay_features(node)}
        now = features.read(node.ns, node.wire)
        wrong = [f"{bit} {'on' if now.get(bit) else 'off'}" for bit, on in wanted.items() if now.get(bit, False) != on]
        yield stand.attestation(f"wire-features-{node.name}", f"offload model {name}", ", ".join(wrong) or "as the model says", not wrong)
    a, b = stand.nodes()
    with tap.watching(a) as seen:
        failure = probe.stream(a.ns, b.ns, b.addresses[4], 4, _PROBE)
    packets = seen.between(a.addresses[4], b.addresses[4])
    yield _sizes(stand, "wire-offload", packets, "none", 4, failure)


def _sizes(stand: Stand, check: str, packets: list[tap.Packet], encapsulation: str, family: int, failure: str) -> Attestation:
    on = {**wire.bits(wire.model(stand.options)), **stand.datapath.underlay_features(stand.a)}
    limit = stand.wire_mtu + 14  # Ethernet header
    whole = wire.passes_whole(on, encapsulation, family) and (check == "wire-offload" or stand.datapath.super_packets)
    longest = max((packet.length for packet in packets), default=0)
    if stand.wire_mtu > _JUMBO:
        expected = f"frames of any length: above an MTU of {_JUMBO} B not every stream is sent in super-packets"
        return stand.attestation(check, expected, failure or f"longest {longest} B", not failure and bool(packets), family)
    expected = f"frames longer than {limit} B" if whole else f"no frame longer than {limit} B"
    passed = not failure and bool(packets) and (longest > limit) == whole
    return stand.attestation(check, expected, failure or f"longest {longest} B", passed, family)


def _inside(stand: Stand, family: int) -> Iterator[Attestation]:
    """Traffic inside a node: it arrives and never reaches the wire."""
    client, server = stand.pair("intra")
    with tap.watching(stand.a) as seen:
        failure = probe.stream(client.ns, server.ns, server.addresses[family], family, _PROBE)
    yield stand.attestation("reach-intra", "a TCP stream arrives", failure or "arrived", not failure, family)
    astray = len(seen.between(client.addresses[family], server.addresses[family]))
    yield stand.attestation("intra-stays-inside", "no packet of it on the wire", f"{astray} packets on the wire", not astray, family)


def _between(stand: Stand, family: int) -> Iterator[Attestation]:
    """Traffic between nodes: it arrives, in the claimed encapsulation and in no other, through the tunnel device when there is one."""
    client, server = stand.pair("inter")
    claimed = stand.claim.encapsulation
    expected = _SAME.get(claimed, claimed)
    tunnels = [stand.datapath.tunnel_on(node, family) for node in stand.nodes()]
    before = [links.statistics(node.ns, name) for node, name in zip(stand.nodes(), tunnels, strict=True) if name]
    with tap.watching(stand.a) as seen:
        failure = probe.stream(client.ns, server.ns, server.addresses[family], family, _PROBE)
    yield stand.attestation("reach-inter", "a TCP stream arrives", failure or "arrived", not failure, family)

    source, target = stand.datapath.on_wire(client, family), stand.datapath.on_wire(server, family)
    packets = seen.between(source, target)
    if expected in ("wireguard", "esp"):  # the inner packet cannot be read, which is the point of it
        packets = [packet for packet in seen.packets if packet.encapsulation == expected]
    kinds = {kind: sum(packet.encapsulation == kind for packet in packets) for kind in sorted({p.encapsulation for p in packets})}
    observed = ", ".join(f"{count} packets {kind}" for kind, count in kinds.items()) or "no packet of it on the wire"
    yield stand.attestation("encapsulation", f"all {expected}", observed, list(kinds) == [expected], family)
    checksum = stand.profile.features.outer_checksum
    if checksum is not None and expected in tap.KEYED and family == 4:
        yield stand.attestation("outer-checksum", *tap.outer_checksum(packets, checksum), family)
    yield _sizes(stand, "offload-inter", packets, claimed, family, failure)

    if before:
        after = [links.statistics(node.ns, name) for node, name in zip(stand.nodes(), tunnels, strict=True)]
        sent, got = after[0]["tx_bytes"] - before[0]["tx_bytes"], after[1]["rx_bytes"] - before[1]["rx_bytes"]
        seen_by = f"{sent} B out of a's, {got} B into b's"
        yield stand.attestation("tunnel-device", f"{tunnels[0]} counts at least {_PROBE} B", seen_by, min(sent, got) >= _PROBE, family)


def _mtu(stand: Stand, family: int) -> Iterator[Attestation]:
    """A full-size packet with DF passes between nodes, one byte more does not."""
    client, server = stand.pair("inter")
    device = _device_mtu(stand, client)
    full = probe.datagram(client.ns, server.ns, server.addresses[family], family, stand.mtu)
    more = probe.datagram(client.ns, server.ns, server.addresses[family], family, stand.mtu + 1, limit=0.1)
    observed = f"device {device} B; {stand.mtu} B {full or 'passes'}; {stand.mtu + 1} B {more or 'passes'}"
    expected = f"device {stand.mtu} B; {stand.mtu} B with DF passes, {stand.mtu + 1} B does not"
    yield stand.attestation("mtu", expected, observed, device == stand.mtu and not full and bool(more), family)


def _device_mtu(stand: Stand, pod: LabPod) -> int:
    return links.mtu(pod.ns, pod.interface or stand.a.wire)


class _Attempt(NamedTuple):
    """A connection of the stranger's that must not come about; ``until`` on the monotonic clock it is given time to."""

    family: int
    placement: Placement
    listener: socket.socket
    until: float


def _begun(stand: Stand, stack: contextlib.ExitStack) -> list[_Attempt]:
    stranger = stand.stranger(stand.a)
    begun = []
    for family in stand.families:
        for placement in _PLACEMENTS:
            server = stand.pair(placement)[1]
            _, listener = stack.enter_context(probe.attempt(stranger.ns, server.ns, server.addresses[family], family))
            begun.append(_Attempt(family, placement, listener, time.monotonic() + _DENIAL))
    return begun


def _denied(stand: Stand, begun: Sequence[_Attempt]) -> Iterator[Attestation]:
    """Whom the policy does not let in stays out, inside a node and between nodes; whom it lets in was seen above (reach-*).

    So that the denial is the policy's and not a dead Pod's, the stranger itself has to be reachable from its node.
    """
    stranger = stand.stranger(stand.a)
    for family in stand.families:
        alive = probe.stream(stand.a.ns, stranger.ns, stranger.addresses[family], family, 1)
        yield stand.attestation("stranger-alive", "its node reaches it", alive or "reached", not alive, family)
    for each in begun:
        through = probe.reached(each.listener, max(each.until - time.monotonic(), 0))
        observed = "it got through" if through else "denied"
        yield stand.attestation(
            f"denied-{each.placement}", "a connection that no policy allows is denied", observed, not through, each.family
        )
