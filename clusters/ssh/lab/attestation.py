"""Proof by observation that a deployment between two machines is what its profile claims: the
checks of the lab (clusters/lab/attestation), with a program on either machine.

Each machine's kernel is compared with the same half of the deployment, made there once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cnibench.clusters.lab.attestation import capture
from cnibench.clusters.lab.attestation.capture import Packet
from cnibench.clusters.lab.namespaces import wire
from cnibench.clusters.ssh.lab.pair import Pair
from cnibench.clusters.ssh.lab.places import SidePod
from cnibench.model.cell import Attestation, Placement

_PROBE = 192 * 1024  # bytes
_LIMIT = 3.0  # s
_DENIAL = 1.0  # s that denied connections are given
_LARGER = 0.5  # s that a packet larger than the path is given
_DENIED_PORT = 9  # discard: the policies do not name it
_UNREACHED = (
    "; are both NICs in one Ethernet segment, and does its switch or hypervisor let other MAC"
    " addresses through?"
)


def compared(deployment: Pair) -> list[Attestation]:
    """What both kernels have of it."""
    return [
        one
        for remote in deployment.remotes
        for one in _read(remote.ask("compare", label=deployment.label))
    ]


def attest(deployment: Pair) -> list[Attestation]:
    """All checks, passed or not."""
    near, far = deployment.pair("inter")
    found = compared(deployment)
    found += _read(deployment.remotes[0].ask("inside", label=deployment.label))
    found += _from(deployment, near, far, "")
    found += _from(deployment, far, near, "-back")
    found += _mtu(deployment, near, far)
    if deployment.claim.policy == "enforced":
        found += _denied(deployment, near, far)
    return found


def _read(answer: dict[str, Any]) -> list[Attestation]:
    return [msgspec.convert(one, Attestation) for one in answer["found"]]


def _from(deployment: Pair, client: SidePod, server: SidePod, way: str) -> Iterator[Attestation]:
    """A TCP stream between the machines: it arrives, data and replies in the claimed encapsulation
    and in no other, through the tunnel devices when there are any.
    """
    label, expected = deployment.label, deployment.claim.encapsulation
    sender, receiver = deployment.side_of(client), deployment.side_of(server)
    tunnels = [deployment.tunnels[remote.own] for remote in (sender, receiver)]
    before = _counters(deployment, (client, server), tunnels)
    for remote in (sender, receiver):
        remote.ask("watch", label=label)
    waiting = receiver.ask("listen", label=label, pod=server.name)
    target = [waiting["address"], waiting["port"]]
    failure = sender.ask("stream", label=label, pod=client.name, target=target, size=_PROBE)[
        "failure"
    ]
    came = receiver.ask(
        "arrived", handle=waiting["handle"], size=_PROBE, limit=0.0 if failure else 1.0
    )
    if not failure and came["bytes"] < _PROBE:
        failure = f"{came['bytes']} of {_PROBE} bytes arrived"
    yield deployment.attestation(
        f"reach-inter{way}",
        "a TCP stream arrives",
        f"{failure}{_UNREACHED}" if failure else "arrived",
        not failure,
    )
    ends = {"label": label, "opener": client.name, "server": server.name}
    data, replies = sender.ask("seen", **ends)["data"], receiver.ask("seen", **ends)["replies"]
    for seen, suffix in ((data, way), (replies, f"{way}-replies")):
        packets = [Packet(**one) for one in seen["packets"]]
        yield from _encapsulated(deployment, packets, expected, suffix)
    yield _frames(deployment, sender.features, data, way, failure)
    if before:
        after = _counters(deployment, (client, server), tunnels)
        sent = after[0]["tx_bytes"] - before[0]["tx_bytes"]
        got = after[1]["rx_bytes"] - before[1]["rx_bytes"]
        back = after[1]["tx_packets"] - before[1]["tx_packets"]
        yield deployment.attestation(
            f"tunnel-device{way}",
            f"{tunnels[0]} counts at least {_PROBE} B, and replies",
            f"{sent} B out of {client.node.name}'s, {got} B into {server.node.name}'s, {back}"
            " replies",
            min(sent, got) >= _PROBE and back > 0,
        )


def _counters(
    deployment: Pair, pods: Sequence[SidePod], tunnels: Sequence[str]
) -> list[dict[str, int]]:
    return [
        deployment.side_of(pod).ask("counters", label=deployment.label, device=device)
        for pod, device in zip(pods, tunnels, strict=True)
        if device
    ]


def _encapsulated(
    deployment: Pair, packets: Sequence[Packet], expected: str, suffix: str
) -> Iterator[Attestation]:
    yield deployment.attestation(
        f"encapsulation{suffix}", *capture.encapsulation(packets, expected)
    )
    checksum = deployment.profile.features.outer_checksum
    if checksum is not None and expected in capture.KEYED:
        yield deployment.attestation(
            f"outer-checksum{suffix}", *capture.outer_checksum(packets, checksum)
        )


def _frames(
    deployment: Pair, features: dict[str, bool], seen: dict[str, Any], way: str, failure: str
) -> Attestation:
    """What the kernel hands to the NIC. One that announces an offload may still refuse it (a VXLAN
    port that it does not know): what it does not announce it never gets.
    """
    limit = deployment.options.mtu + 14  # Ethernet header
    encapsulation = deployment.claim.encapsulation
    whole = wire.passes_whole(features, encapsulation, 4)
    longest = seen["longest"]
    cut = "longer than the MTU" if longest > limit else "cut by the kernel"
    of_what = "plain TCP" if encapsulation == "none" else f"TCP in {encapsulation}"
    return deployment.attestation(
        f"offload-inter{way}",
        f"the NIC announces segmentation of {of_what}: frames of any length"
        if whole
        else f"the NIC announces no segmentation of {of_what}: no frame longer than {limit} B",
        failure or f"longest {longest} B, {cut}",
        not failure and longest > 0 and (whole or longest <= limit),
    )


def _mtu(deployment: Pair, client: SidePod, server: SidePod) -> Iterator[Attestation]:
    """A packet with DF as large as the path passes between the machines, one byte more does not."""
    sender, label = deployment.side_of(client), deployment.label
    device = sender.ask("device_mtu", label=label, pod=client.name)["mtu"]
    path = deployment.path_mtu
    full = _datagram(deployment, client, server, path, _LIMIT)
    more = _datagram(deployment, client, server, path + 1, _LARGER)
    yield deployment.attestation(
        "mtu",
        f"device {deployment.mtu} B; {path} B with DF passes, {path + 1} B does not",
        f"device {device} B; {path} B {full or 'passes'}; {path + 1} B {more or 'passes'}",
        device == deployment.mtu and not full and more != "",
    )


def _datagram(deployment: Pair, client: SidePod, server: SidePod, packet: int, limit: float) -> str:
    """'' when it arrived, else why not."""
    label, receiver = deployment.label, deployment.side_of(server)
    waiting = receiver.ask("listen", label=label, pod=server.name, stream=False)
    target = [waiting["address"], waiting["port"]]
    asked = {"label": label, "pod": client.name, "target": target, "packet": packet}
    refused: str = deployment.side_of(client).ask("datagram", **asked)["failure"]
    came = receiver.ask(
        "arrived", handle=waiting["handle"], size=1, limit=0.0 if refused else limit
    )
    return refused or ("" if came["accepted"] else f"not within {limit:g} s")


def _denied(deployment: Pair, near: SidePod, far: SidePod) -> Iterator[Attestation]:
    """Whom the policy does not let in stays out, inside a node and between the machines, and ports
    that it does not name are closed. Whom it lets in was seen before (reach-*).
    """
    label = deployment.label
    both: tuple[Placement, ...] = ("intra", "inter")
    for node, remote in zip(deployment.nodes(), deployment.remotes, strict=True):
        stranger = deployment.stranger(node)
        first = remote.own == 0
        alive = remote.ask("stranger_reached", label=label, pod=stranger.name)["failure"]
        yield deployment.attestation(
            "stranger-alive" if first else f"stranger-alive-{node.name}",
            "its node reaches it",
            alive or "reached",
            not alive,
        )
        for placement in both:
            server = deployment.pair(placement)[1]
            way = "intra" if server.node is node else "inter"
            through = _through(deployment, stranger, server)
            yield deployment.attestation(
                f"denied-{way}" if first else f"denied-{way}-{node.name}",
                "a connection that no policy allows is denied",
                "it got through" if through else "denied",
                not through,
            )
    through = _through(deployment, near, far, _DENIED_PORT)
    yield deployment.attestation(
        "denied-port",
        f"TCP port {_DENIED_PORT}, which no policy opens, is closed",
        "open" if through else "closed",
        not through,
    )


def _through(deployment: Pair, client: SidePod, server: SidePod, port: int = 0) -> bool:
    """Is a connection made?"""
    label, receiver = deployment.label, deployment.side_of(server)
    waiting = receiver.ask("listen", label=label, pod=server.name, port=port)
    target = [waiting["address"], waiting["port"]]
    deployment.side_of(client).ask(
        "stream", label=label, pod=client.name, target=target, size=1, limit=_DENIAL
    )
    return bool(receiver.ask("arrived", handle=waiting["handle"], size=0, limit=0.0)["accepted"])
