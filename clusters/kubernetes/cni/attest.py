"""Proof by observation on a real cluster: what the nodes send and count during a probe is compared
with what the profile claims.

The checks have the names that the lab's have (clusters/lab/attestation/checks.py). The frames on
the wire are read by the same function.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_interface

from cnibench.clusters.kubernetes.cni import strangers
from cnibench.clusters.kubernetes.nodes import probe
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod
from cnibench.clusters.kubernetes.pods import background
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.clusters.lab.attestation import capture
from cnibench.clusters.lab.attestation.capture import Packet, read_frame
from cnibench.errors import ClusterError
from cnibench.model.cell import Attestation, Placement
from cnibench.model.installation import Installation
from cnibench.model.profile import Profile
from cnibench.testbed.traffic_checks import arrives, stays_inside

_PLACEMENTS: tuple[Placement, ...] = ("intra", "inter")
_PROBE = 192 * 1024  # bytes, as in the lab
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
    between = [deployment.pair("inter", pair) for pair in (0, *further)]
    servers = [deployment.pair("intra")[1], *(server for _, server in between)]
    # Pods on the nodes' own network: the server of the pair inside the node answers for its client.
    servers += [client for client, _ in between if client.interface]
    background.connect(dict.fromkeys([*servers, *(client for client, _ in between)]))
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
            found += strangers.tried(
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
    with _leaving(client, server) as packets:
        failure = probe.stream(client, server.addresses[family], _PROBE)
    yield arrives(deployment, "reach-intra", failure, family)
    astray = len(_of(packets, client, server, family))
    if client.interface:  # Pods on the node's own network have one address
        yield stays_inside(deployment, astray, family)


def _further(deployment: MeasuredPods) -> list[int]:
    """The pairs after the first that are between other nodes than any before them."""
    ways = [deployment.between("inter", pair) for pair in range(deployment.options.pairs)]
    return [pair for pair, way in enumerate(ways) if pair and way not in ways[:pair]]


def _between(deployment: MeasuredPods, family: int, pair: int = 0) -> Iterator[Attestation]:
    """Traffic between nodes, opened from either: it arrives, both ways in the claimed encapsulation
    and in no other, through the tunnel device when there is one.
    """
    client, server = deployment.pair("inter", pair)
    # the first pair's checks have the names that the lab's have
    which = f"-{client.node.name}-to-{server.node.name}" if pair else ""
    yield from _from(deployment, family, client, server, which)
    yield from _from(deployment, family, server, client, f"{which}-back")


def _from(
    deployment: MeasuredPods, family: int, client: KubernetesPod, server: KubernetesPod, way: str
) -> Iterator[Attestation]:
    """The same of one connection; ``way`` marks its checks."""
    nodes = (client.node, server.node)
    expected = _expected(deployment, nodes, family)
    pattern = _tunnel(deployment.profile, family)
    before = [counted(node, pattern) for node in nodes]
    with _leaving(client, server) as seen, _leaving(server, client) as answered:
        failure = probe.stream(client, server.addresses[family], _PROBE)
    yield arrives(deployment, f"reach-inter{way}", failure, family)

    checksum = deployment.profile.features.outer_checksum
    over_ipv4 = family == 4 and all(4 in node.addresses for node in deployment.nodes())
    data, replies = (
        _of(seen, client, server, family, expected),
        _of(answered, server, client, family, expected),
    )
    for packets, suffix in ((data, way), (replies, f"{way}-replies")):
        yield deployment.attestation(
            f"encapsulation{suffix}", *capture.encapsulation(packets, expected), family
        )
        if checksum is not None and expected in capture.KEYED and over_ipv4:
            yield deployment.attestation(
                f"outer-checksum{suffix}", *capture.outer_checksum(packets, checksum), family
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
            f"tunnel-device{way}",
            f"{pattern} counts at least {_PROBE} B",
            outcome,
            min(grown) >= _PROBE,
            family,
        )


def _expected(
    deployment: MeasuredPods, nodes: tuple[KubernetesNode, KubernetesNode], family: int
) -> str:
    """The encapsulation on the wire between these nodes."""
    about = deployment.profile.kubernetes
    if about and about.between_subnets and not one_subnet(*nodes, family):
        return about.between_subnets
    return claims(deployment.profile)[0]


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


@contextlib.contextmanager
def _leaving(sender: KubernetesPod, receiver: KubernetesPod) -> Iterator[list[Packet]]:
    """The packets to the receiver, or to its node, that leave the sender's node over its wire;
    complete when the block is left.
    """
    node = receiver.node
    outer = node.addresses.get(4) or node.addresses.get(6)
    packets: list[Packet] = []
    with probe.watching(
        sender.node, *receiver.addresses.values(), *([outer] if outer else [])
    ) as frames:
        yield packets
    packets += (packet for length, data in frames if (packet := read_frame(data, length)))


def _of(
    packets: Sequence[Packet],
    sender: KubernetesPod,
    receiver: KubernetesPod,
    family: int,
    encapsulation: str = "",
) -> list[Packet]:
    """Those of one connection in one direction, and all encrypted ones: they cannot be
    distinguished.
    """
    ends = (sender.addresses[family], receiver.addresses[family])
    return [
        packet
        for packet in packets
        if (packet.source, packet.target) == ends
        or (encapsulation in _UNREADABLE and packet.encapsulation == encapsulation)
    ]


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


_NETWORK = "ip -br address; ip route; ip -6 route"


def path_mtu(pod: KubernetesPod, target: str) -> int:
    """The largest packet that a Pod's route to an address takes: the route's own metric, or its
    device's MTU. Raises ClusterError.
    """
    route = pod.run(["ip", "-d", "-j", "route", "get", target], timeout=20, check=False)
    found = json.loads(route.stdout or "[]")
    if route.returncode or not found:
        has = pod.run(["sh", "-c", _NETWORK], timeout=20, check=False).stdout.splitlines()
        raise ClusterError(
            f"the Pod {pod.name} has no route to {target}; it has"
            f" {'; '.join(' '.join(line.split()) for line in has) or 'none that could be read'}",
            f"see the events of the Pod, and whether the CNI's Pod on {pod.node.facts.name} was"
            " restarted: kubectl get pods -A -o wide",
        )
    metrics = found[0].get("metrics") or [{}]
    device = int(pod.read_text(f"/sys/class/net/{found[0]['dev']}/mtu"))
    return min(int(metrics[0].get("mtu", device)), device)
