"""Proof by observation on a real cluster: what the nodes send and count during a probe is compared
with what the profile claims.

The checks have the names that the lab's have (clusters/lab/attestation/checks.py). The frames on
the wire are read by the same function.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_interface

from cnibench.clusters.kubernetes.nodes import probe
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.clusters.lab.attestation.capture import KEYED, Packet, outer_checksum, read_frame
from cnibench.errors import ClusterError
from cnibench.model.cell import Attestation, Placement
from cnibench.model.installation import Installation
from cnibench.model.profile import Profile
from cnibench.testbed.traffic_checks import arrives, stays_inside

_PLACEMENTS: tuple[Placement, ...] = ("intra", "inter")
_PROBE = 192 * 1024  # bytes, as in the lab
_DENIAL = 2.0  # s that denied connections are given; an allowed one needs milliseconds
_SAME = {
    "ovs-vxlan": "vxlan",
    "evpn": "vxlan",
    "ila": "none",
}  # what an encapsulation looks like on the wire
_UNREADABLE = ("wireguard", "esp")  # the inner packet cannot be read, which is the point of it


def attest(deployment: MeasuredPods) -> list[Attestation]:
    """All checks, passed or not. Raises ClusterError, LimitError when one cannot be made."""
    found: list[Attestation] = []
    further = _further(deployment)
    servers = [deployment.pair(placement)[1] for placement in _PLACEMENTS] + [
        deployment.pair("inter", pair)[1] for pair in further
    ]
    with probe.serving(*dict.fromkeys(servers)):
        for family in deployment.families:
            found += _inside(deployment, family)
            for pair in (0, *further):
                found += _between(deployment, family, pair)
            found += _mtu(deployment, family)
        if deployment.profile.kubernetes and deployment.profile.kubernetes.policy in (
            "unused",
            "enforced",
        ):
            found += _stranger(
                deployment, enforced=deployment.profile.kubernetes.policy == "enforced"
            )
    return found


def makes_claims(profile: Profile) -> bool:
    """Does it say how its packets look on the wire? One that only others install may not."""
    about = profile.kubernetes
    return about is not None and bool(
        not about.installed_by or about.encapsulation or profile.datapath
    )


_TUNNELS = {"ipip": 20, "vxlan": 50}  # bytes that one adds over IPv4


def claims(profile: Profile) -> tuple[str, dict[int, int]]:
    """(encapsulation on the wire, family to the bytes that the Pods' packets must leave free for
    it).
    """
    about = profile.kubernetes or Installation(host_network=True)
    datapath = profile.datapath
    encapsulation = about.encapsulation or (datapath.encapsulation if datapath else "none")
    four = about.overhead if about.overhead is not None else datapath.overhead if datapath else 0
    more = (
        about.overhead_ipv6
        if about.overhead_ipv6 is not None
        else datapath.overhead_ipv6
        if datapath
        else 0
    )
    return _SAME.get(encapsulation, encapsulation), {4: four, 6: four + more}


def _inside(deployment: MeasuredPods, family: int) -> Iterator[Attestation]:
    """Traffic inside a node: it arrives and never reaches the wire."""
    client, server = deployment.pair("intra")
    failure, packets = _watched(deployment.nodes()[0], client, server, family)
    yield arrives(deployment, "reach-intra", failure, family)
    astray = len(_of(packets, client, server, family))
    if client.interface:  # Pods on the node's own network have one address
        yield stays_inside(deployment, astray, family)


def _further(deployment: MeasuredPods) -> list[int]:
    """The pairs after the first that are between other nodes than any before them."""
    ways = [deployment.between("inter", pair) for pair in range(deployment.options.pairs)]
    return [pair for pair, way in enumerate(ways) if pair and way not in ways[:pair]]


def _between(deployment: MeasuredPods, family: int, pair: int = 0) -> Iterator[Attestation]:
    """Traffic between nodes: it arrives, in the claimed encapsulation and in no other, through the
    tunnel device when there is one.
    """
    client, server = deployment.pair("inter", pair)
    nodes = (client.node, server.node)
    beside = (
        f"-{nodes[0].name}-to-{nodes[1].name}" if pair else ""
    )  # the first pair's checks have the names that the lab's have
    about = deployment.profile.kubernetes
    expected, _ = claims(deployment.profile)
    if about and about.between_subnets and not one_subnet(*nodes, family):
        expected = about.between_subnets
    pattern = _tunnel(deployment.profile, family)
    before = [counted(node, pattern) for node in nodes]
    failure, packets = _watched(nodes[0], client, server, family)
    yield arrives(deployment, f"reach-inter{beside}", failure, family)

    if expected in _UNREADABLE:
        packets = [packet for packet in packets if packet.encapsulation == expected] + _of(
            packets, client, server, family
        )
    else:
        packets = _of(packets, client, server, family)
    kinds = {
        kind: sum(packet.encapsulation == kind for packet in packets)
        for kind in sorted({one.encapsulation for one in packets})
    }
    observed = (
        ", ".join(f"{count} packets {kind}" for kind, count in kinds.items())
        or "no packet of it on the wire"
    )
    yield deployment.attestation(
        f"encapsulation{beside}", f"all {expected}", observed, list(kinds) == [expected], family
    )
    checksum = deployment.profile.features.outer_checksum
    if (
        checksum is not None
        and expected in KEYED
        and family == 4
        and all(4 in node.addresses for node in deployment.nodes())
    ):
        yield deployment.attestation(
            f"outer-checksum{beside}", *outer_checksum(packets, checksum), family
        )

    if pattern:
        after = [counted(node, pattern) for node in nodes]
        grown = [
            sum(new.values()) - sum(old.values()) for old, new in zip(before, after, strict=True)
        ]
        outcome = (
            f"{grown[0]} B on {nodes[0].name}, {grown[1]} B on {nodes[1].name}"
            if all(after)
            else "there is no such device"
        )
        yield deployment.attestation(
            f"tunnel-device{beside}",
            f"{pattern} counts at least {_PROBE} B",
            outcome,
            min(grown) >= _PROBE,
            family,
        )


def _mtu(deployment: MeasuredPods, family: int) -> Iterator[Attestation]:
    """A packet with DF as large as the path passes between nodes, one byte more does not; the Pod's
    device or its route says so, where the Pod has the wire's MTU after the first such packet.
    """
    client, server = deployment.pair("inter")
    about = deployment.profile.kubernetes
    wire = int(client.node.read_text(f"/sys/class/net/{client.node.device}/mtu"))
    room = claims(deployment.profile)[1][family]
    datapath = deployment.profile.datapath
    of_wire = datapath is not None and datapath.pod_mtu == "wire"
    if about and not room and not one_subnet(client.node, server.node, family):
        # no room for a tunnel that leads to other subnets alone: ICMP tells its MTU
        room = _TUNNELS.get(about.between_subnets or "", 0)
        of_wire = of_wire or room > 0
    wanted = (about.mtu if about else 0) or wire - room
    own = path_mtu(client, server.addresses[family])
    before = wire if of_wire else wanted
    full = probe.datagram(client, server.addresses[family], wanted)
    more = probe.datagram(client, server.addresses[family], wanted + 1, limit=0.5)
    observed = (
        f"the Pod's route {own} B; {wanted} B {full or 'passes'}; {wanted + 1} B {more or 'passes'}"
    )
    route = f"{wanted} B" if before == wanted else f"{before} B, or {wanted} B once learned"
    expected = f"the Pod's route {route}; {wanted} B with DF passes, {wanted + 1} B does not"
    yield deployment.attestation(
        "mtu", expected, observed, own in (before, wanted) and not full and bool(more), family
    )


def _stranger(deployment: MeasuredPods, enforced: bool) -> Iterator[Attestation]:
    """Whom the policies do not let in stays out, inside a node and between nodes; without policies
    nobody does.

    So that the denial is the policies' and not a dead Pod's, the stranger itself has to be
    reachable from its node, and the servers have to answer others.
    """
    stranger = deployment.add_stranger()
    if enforced:
        with probe.serving(stranger):
            for family in deployment.families:
                alive = probe.stream(stranger.node, stranger.addresses[family], 1)
                yield deployment.attestation(
                    "stranger-alive", "its node reaches it", alive or "reached", not alive, family
                )
    for family in deployment.families:
        for placement in _PLACEMENTS:
            client, server = deployment.pair(placement)
            failure = probe.stream(stranger, server.addresses[family], 1, limit=_DENIAL)
            if enforced:
                friend = probe.stream(client, server.addresses[family], 1)
                outcome = f"denied ({failure})" if failure else "it got through"
                outcome += f"; and the client too ({friend})" if friend else ""
                passed = bool(failure) and not friend
                yield deployment.attestation(
                    f"denied-{placement}",
                    "a connection that no policy allows is denied",
                    outcome,
                    passed,
                    family,
                )
            else:
                outcome = failure or "it got through"
                yield deployment.attestation(
                    f"undenied-{placement}",
                    "nothing denies any connection",
                    outcome,
                    not failure,
                    family,
                )


def _watched(
    node: KubernetesNode, client: KubernetesPod, server: KubernetesPod, family: int
) -> tuple[str, list[Packet]]:
    """What went wrong with a stream from the client to the server, and the packets that left the
    client's node meanwhile.
    """
    outer = [
        address
        for one in (server.node,)
        if (address := one.addresses.get(4)) or (address := one.addresses.get(6))
    ]
    with probe.watching(node, server.addresses[family], *outer) as frames:
        failure = probe.stream(client, server.addresses[family], _PROBE)
    return failure, [packet for length, data in frames if (packet := read_frame(data, length))]


def _of(
    packets: Sequence[Packet], client: KubernetesPod, server: KubernetesPod, family: int
) -> list[Packet]:
    ends = (client.addresses[family], server.addresses[family])
    return [packet for packet in packets if (packet.source, packet.target) == ends]


def one_subnet(first: KubernetesNode, second: KubernetesNode, family: int) -> bool:
    """Has the first node's device the second node's address in the prefix of its own? By that CNIs
    choose between routes and a tunnel. Raises ClusterError, LimitError.
    """
    argv = ["ip", "-j", "address", "show", "dev", first.device]
    other = ip_address(second.addresses[family])
    return any(
        other in ip_interface(f"{one['local']}/{one['prefixlen']}").network
        for item in json.loads(first.run(argv, timeout=20).stdout)
        for one in item.get("addr_info", ())
        if one["local"] == first.addresses[family]
    )


def _tunnel(profile: Profile, family: int) -> str:
    return profile.kubernetes.tunnel.get(family, "") if profile.kubernetes else ""


def counted(node: KubernetesNode, pattern: str) -> dict[str, int]:
    """Bytes both ways of each device with such a name. (Some, as Weave's, are read at their other
    end.)
    """
    if not pattern:
        return {}
    links = json.loads(node.run(["ip", "-s", "-j", "link", "show"], timeout=20).stdout)
    return {
        str(link["ifname"]): link["stats64"]["rx"]["bytes"] + link["stats64"]["tx"]["bytes"]
        for link in links
        if fnmatchcase(str(link["ifname"]), pattern)
    }


def path_mtu(pod: KubernetesPod, target: str) -> int:
    """The largest packet that a Pod's route to an address takes: the route's own metric, or its
    device's MTU. Raises ClusterError.
    """
    found = json.loads(
        pod.run(["ip", "-d", "-j", "route", "get", target], timeout=20).stdout or "[]"
    )
    if not found:
        raise ClusterError(f"the Pod {pod.name} has no route to {target}")
    metrics = found[0].get("metrics") or [{}]
    device = int(pod.read_text(f"/sys/class/net/{found[0]['dev']}/mtu"))
    return min(int(metrics[0].get("mtu", device)), device)
