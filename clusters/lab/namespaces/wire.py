"""The wire between the two nodes: a veth pair with an explicit MTU, rate and offload model.

A veth passes super-packets (up to 64 KiB) that no NIC would put on a cable: what a NIC has to have
cut into MTU-sized packets crosses a plain veth whole, tunnels included. The model says which
packets this wire takes whole, as a NIC of that kind takes them for segmentation in hardware; the
others the kernel cuts in software before the wire (validate_xmit_skb in net/core/dev.c), at the
cost that it has on a machine with such a NIC. GRO is on at both ends, as on every NIC: what arrives
cut is put together again.
"""

from __future__ import annotations

from collections.abc import Mapping

from cnibench.clusters.lab.namespaces import features, links
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.errors import ClusterError, UsageError
from cnibench.testbed.cluster import Options

DEFAULT = "vxlan"  # what most server NICs do, the ConnectX-4 of qi2021's first test bed among them
_SMALLEST_IPV6 = 1280  # bytes: RFC 8200
_TCP = (
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
)
_UDP_TUNNELS = ("tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation")
_OTHERS = (
    "tx-gre-segmentation",
    "tx-gre-csum-segmentation",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-udp-segmentation",
    "tx-sctp-segmentation",
    "tx-gso-list",
)
_PASSED: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "plain": _TCP,
    "vxlan": _TCP + _UDP_TUNNELS,
    "all": _TCP + _UDP_TUNNELS + _OTHERS,
}
MODELS = tuple(_PASSED)
# With and without an outer checksum UDP tunnels need another bit; the models have both or none.
_NEEDED = {
    **dict.fromkeys(("vxlan", "ovs-vxlan", "evpn", "geneve"), _UDP_TUNNELS),
    "ipip": _OTHERS[2:3],
}


def model(options: Options) -> str:
    """The offload model of a run. Raises UsageError."""
    name = options.wire_offload or DEFAULT
    if name not in _PASSED:
        raise UsageError(
            f"there is no offload model '{name}'",
            f"--wire-offload takes one of: {', '.join(MODELS)}",
        )
    return name


def bits(name: str) -> dict[str, bool]:
    """Feature name to whether it is on, for an offload model; GRO included."""
    passed = _PASSED[name]
    return {**{bit: bit in passed for bit in _TCP + _UDP_TUNNELS + _OTHERS}, "rx-gro": True}


def passes_whole(on: Mapping[str, bool], encapsulation: str, family: int) -> bool:
    """Does a wire with these features take a TCP super-packet in that encapsulation whole?"""
    if not on.get(_TCP[0] if family == 4 else _TCP[1], False):
        return False
    if encapsulation in ("none", "ila"):
        return True
    return encapsulation in _NEEDED and all(on.get(bit, False) for bit in _NEEDED[encapsulation])


def join(a: LabNode, b: LabNode, options: Options) -> None:
    """Makes the wire between two nodes. Raises ClusterError, UsageError."""
    wanted = bits(model(options))
    macs = {node.number: links.mac(9, node.number + 1) for node in (a, b)}
    links.veth(
        a.ns, a.wire, b.ns, b.wire, mtu=options.mtu, mac=macs[0], peer_mac=macs[1], txqueuelen=1000
    )
    for node, other in ((a, b), (b, a)):
        if (holds := links.mtu(node.ns, node.wire)) != options.mtu:
            raise ClusterError(
                f"the MTU of the wire on node {node.name}: {options.mtu} was asked for, {holds}"
            )
        features.write(node.ns, node.wire, wanted)
        for family, length in ((4, 24), (6, 64)):
            if family == 6 and options.mtu < _SMALLEST_IPV6:
                continue
            links.address(node.ns, node.wire, f"{node.addresses[family]}/{length}")
            links.neighbour(node.ns, node.wire, other.addresses[family], macs[other.number])
        if options.wire_rate:
            _limit(node, options.wire_rate)


def _limit(node: LabNode, rate: float) -> None:
    """A token bucket on what leaves the node; the burst holds one full super-packet, and 4 ms of
    the rate (tc-tbf(8)).
    """
    per_second = int(rate / 8)
    burst = max(per_second // 250, 128 * 1024)
    number = links.index(node.ns, node.wire)
    node.ns.ipr.tc(
        "add", "tbf", number, handle=0x10000, rate=per_second, burst=burst, latency="50ms"
    )
    holds = [
        qdisc.get_attr("TCA_OPTIONS").get_attr("TCA_TBF_PARMS")["rate"]
        for qdisc in node.ns.ipr.get_qdiscs(number)
        if qdisc.get_attr("TCA_KIND") == "tbf"
    ]
    if holds != [per_second]:
        raise ClusterError(
            f"the rate of the wire on node {node.name}: {per_second} B/s was asked for, {holds}"
        )
