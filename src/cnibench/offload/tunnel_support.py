"""What a NIC does for each type of tunnel, as pure functions of what its driver says.

A bit that is on is necessary, not sufficient: the kernel also asks hw_enc_features and the driver's
ndo_features_check for each packet, and no interface tells their answers (netif_skb_features in
net/core/dev.c). ``--verify`` measures it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cnibench.offload.nic import Nic
from cnibench.system.ethtool import Feature

Outcome = Literal["offloaded", "partial", "available-off", "fixed-off", "software-only", "unknown"]
ORDER: tuple[Outcome, ...] = (
    "offloaded",
    "partial",
    "available-off",
    "fixed-off",
    "software-only",
    "unknown",
)  # best first


@dataclass(frozen=True)
class Tunnel:
    """``bit`` lets the device cut the inner packets; '' when no bit of any device does. ``udp``:
    its kind in the device's port table.
    """

    name: str
    title: str
    bit: str
    udp: str = ""
    why: str = ""


# The outer UDP checksum decides which bit counts (udp_tunnel_handle_offloads in
# include/net/udp_tunnel.h). A VXLAN device computes it
# unless it was configured not to (vxlan_nl2conf), as those of flannel and Calico were not; where a
# packet brings its key, that says so: Cilium's programs (BPF_F_ZERO_CSUM_TX) and Weave's
# datapath want none. Over IPv6 it is computed.
TUNNELS: tuple[Tunnel, ...] = (
    Tunnel("vxlan", "VXLAN over IPv4", "tx-udp_tnl-segmentation", "vxlan"),
    Tunnel("vxlan-csum", "VXLAN over IPv4 with checksum", "tx-udp_tnl-csum-segmentation", "vxlan"),
    Tunnel("vxlan6", "VXLAN over IPv6", "tx-udp_tnl-csum-segmentation", "vxlan"),
    Tunnel("geneve", "Geneve over IPv4", "tx-udp_tnl-segmentation", "geneve"),
    Tunnel("geneve6", "Geneve over IPv6", "tx-udp_tnl-csum-segmentation", "geneve"),
    Tunnel("gre", "GRE", "tx-gre-segmentation"),
    Tunnel("gre-csum", "GRE with checksum", "tx-gre-csum-segmentation"),
    Tunnel("ipip", "IP-in-IP (and 6in4)", "tx-ipxip4-segmentation"),
    Tunnel("ipip6", "IP in IPv6", "tx-ipxip6-segmentation"),
    Tunnel(
        "wireguard",
        "WireGuard",
        "",
        why="it cuts super-packets in software before it encrypts them; no feature of a NIC helps",
    ),
    Tunnel("esp", "IPsec ESP", "tx-esp-segmentation"),
    Tunnel(
        "udp-userspace",
        "UDP by a user-space daemon",
        "",
        why="a daemon reads and writes each packet; no feature of a NIC helps",
    ),
)
_BY_NAME = {tunnel.name: tunnel for tunnel in TUNNELS}
_PASSED, _CUT = "pass it whole, and no hardware cuts them", "are cut by the kernel before it"
_CHECKSUMS = ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6")


@dataclass(frozen=True)
class Verdict:
    """One NIC and one tunnel type. ``command`` turns on what can be turned on, '' when nothing
    can.
    """

    node: str
    nic: str
    tunnel: str
    outcome: Outcome
    reason: str
    command: str = ""


def tunnel(name: str) -> Tunnel:
    """The tunnel type of that name."""
    return _BY_NAME[name]


def judge(nic: Nic, kind: Tunnel, ports: Iterable[int] = ()) -> Verdict:
    """``ports``: UDP ports that such tunnels use on this node."""
    outcome, reason, command = _judged(nic, kind)
    if outcome in ("offloaded", "partial") and kind.udp:
        reason = "; ".join(part for part in (reason, _port_words(nic, kind, ports)) if part)
    return Verdict(nic.node, nic.name, kind.name, outcome, reason, command)


def _judged(nic: Nic, kind: Tunnel) -> tuple[Outcome, str, str]:
    if kind.why:
        return "software-only", kind.why, ""
    if nic.virtual:
        passes = nic.on(kind.bit) and all(nic.on(name) for name in _needs(nic))
        return "software-only", f"{nic.virtual}: super-packets {_PASSED if passes else _CUT}", ""
    if not nic.features:
        return "unknown", nic.problem or "the driver answers no ethtool", ""
    bit = nic.features.get(kind.bit)
    if bit is None:
        return "fixed-off", f"this kernel knows no {kind.bit}", ""
    if not bit.on:
        return _off(nic, kind.bit, bit)
    lacking = [name for name in _needs(nic) if not nic.on(name)]
    if lacking:
        movable = all(name in nic.features and not nic.features[name].fixed for name in lacking)
        words = f"{kind.bit} is on, and {' and '.join(lacking)}, which it needs, is off"
        return (
            ("available-off" if movable else "fixed-off"),
            words,
            (_command(nic, lacking) if movable else ""),
        )
    if kind.name == "esp" and not nic.on("esp-hw-offload"):
        return (
            "partial",
            "segments are cut in hardware, encryption (esp-hw-offload) is not",
            _turn_on(nic, "esp-hw-offload"),
        )
    if nic.on("tx-gso-partial"):
        if "csum" in kind.bit:
            return (
                "partial",
                (
                    "tx-gso-partial: the device cuts the inner packet, the kernel prepares the"
                    " outer headers and checksum"
                ),
                "",
            )
        return (
            "offloaded",
            (
                f"{kind.bit} is on (tx-gso-partial too: the kernel may have to prepare the outer"
                " headers)"
            ),
            "",
        )
    return "offloaded", f"{kind.bit} is on", ""


def _off(nic: Nic, name: str, bit: Feature) -> tuple[Outcome, str, str]:
    if bit.wanted:
        lacking = [other for other in _needs(nic) if not nic.on(other)]
        words = (
            f"{name} is off though it was asked for:"
            f" {' and '.join(lacking) or 'something that it depends on'} is off"
        )
        return "available-off", words, _command(nic, lacking) if lacking else ""
    if bit.fixed:
        return "fixed-off", f"{name} is off and the driver does not let it be changed", ""
    return "available-off", f"{name} is off and can be turned on", _command(nic, [name])


def _needs(nic: Nic) -> list[str]:
    """What segmentation depends on (netdev_fix_features in net/core/dev.c): checksums,
    scatter-gather, and plain TSO for what is inside.
    """
    checksum = next(
        (
            name
            for name in _CHECKSUMS
            if name in nic.features and (nic.features[name].on or not nic.features[name].fixed)
        ),
        None,
    )
    return [checksum or _CHECKSUMS[0], "tx-scatter-gather", "tx-tcp-segmentation"]


def _turn_on(nic: Nic, name: str) -> str:
    feature = nic.features.get(name)
    return _command(nic, [name]) if feature and not feature.on and not feature.fixed else ""


def _command(nic: Nic, names: Sequence[str]) -> str:
    return f"ethtool -K {nic.name} " + " ".join(f"{name} on" for name in names)


def _port_words(nic: Nic, kind: Tunnel, ports: Iterable[int]) -> str:
    """Whether the device knows the ports that are in use; a driver may cut only what goes to
    a port that it knows.
    """
    used = sorted(set(ports))
    if nic.ports is None:
        return ""
    known = {port for of, port in nic.ports if of == kind.udp}
    if missing := [port for port in used if port not in known]:
        return (
            f"the device does not know port {', '.join(map(str, missing))} (it knows"
            f" {', '.join(map(str, sorted(known))) or 'none'})"
        )
    return f"the device knows port {', '.join(map(str, used))}" if used else ""


@dataclass(frozen=True)
class Spread:
    """Checksums and receive-side scaling: what holds for tunnelled packets, in words."""

    node: str
    nic: str
    checksum: str
    scaling: str


def spread(nic: Nic) -> Spread:
    """Checksum of inner headers, and over which queues the flows within a tunnel are spread."""
    return Spread(nic.node, nic.name, _checksum(nic), _scaling(nic))


def _checksum(nic: Nic) -> str:
    if not nic.features:
        return "unknown: " + (nic.problem or "the driver answers no ethtool")
    hardware = "" if not nic.virtual else ", not in hardware"
    if nic.on("tx-checksum-ip-generic"):
        return f"at any offset, including inner headers{hardware}"
    if nic.on("tx-checksum-ipv4") or nic.on("tx-checksum-ipv6"):
        return (
            "of plain TCP and UDP; of inner headers only where the driver says so per"
            f" packet{hardware}"
        )
    return "in software"


def _scaling(nic: Nic) -> str:
    if not nic.queues:
        return "unknown: the driver does not report the number of queues"
    if nic.queues == 1:
        return "one queue: all packets, tunnelled or not, are received by one CPU"
    if not nic.udp_hash:
        return f"{nic.queues} queues; how they are selected is not reported"
    if "f" in nic.udp_hash:
        return (
            f"{nic.queues} queues by addresses and UDP ports: VXLAN's and Geneve's source port"
            " spreads inner flows; IP-in-IP's have no port"
        )
    mend = f"ethtool -N {nic.name} rx-flow-hash udp4 sdfn"
    return (
        f"{nic.queues} queues by addresses only: all flows of a tunnel between two nodes arrive at"
        f" one ({mend})"
    )


_COMPARED = re.compile(
    r"(tx|rx)-(.*segmentation|gso-.*|checksum.*|scatter-gather|gro.*|lro|hashing|udp_tunnel-port-offload)$|esp-"
)


def unlike(nics: Iterable[Nic]) -> list[str]:
    """What the nodes' underlay NICs do not have in common (driver, firmware, queues, features that
    change a packet's cost), in words.
    """
    by_node: dict[str, list[Nic]] = {}
    for nic in nics:
        if nic.underlay:
            by_node.setdefault(nic.node, []).append(nic)
    if len(by_node) < 2:
        return []

    def differing(what: str, values: Mapping[str, str]) -> list[str]:
        details = ", ".join(f"{node}: {value}" for node, value in values.items())
        return (
            [f"{what} differs between the nodes: {details}"]
            if len(set(values.values())) > 1
            else []
        )

    found = []
    for what in ("driver", "version", "firmware", "queues"):
        found += differing(
            what,
            {
                node: _either(str(getattr(nic, what) or "not reported") for nic in own)
                for node, own in by_node.items()
            },
        )
    answered = {
        node: some
        for node, own in by_node.items()
        if (some := [nic for nic in own if nic.features])
    }
    for name in sorted(
        {
            name
            for own in answered.values()
            for nic in own
            for name in nic.features
            if _COMPARED.match(name)
        }
    ):
        found += differing(
            name,
            {
                node: _either("on" if nic.on(name) else "off" for nic in own)
                for node, own in answered.items()
            },
        )
    return found


def _either(values: Iterable[str]) -> str:
    """What a node's NICs say, of a bond's more than one."""
    return "/".join(sorted(set(values)))


def asymmetries(verdicts: Iterable[Verdict]) -> list[str]:
    """Tunnel types whose outcome differs between nodes, in words; the underlay NICs of at least two
    nodes are wanted.
    """
    by_tunnel: dict[str, dict[str, set[Outcome]]] = {}
    for verdict in verdicts:
        by_tunnel.setdefault(verdict.tunnel, {}).setdefault(verdict.node, set()).add(
            verdict.outcome
        )
    found = []
    for name, nodes in by_tunnel.items():
        if len({frozenset(outcomes) for outcomes in nodes.values()}) > 1:
            details = ", ".join(
                f"{node}: {'/'.join(sorted(outcomes))}" for node, outcomes in nodes.items()
            )
            found.append(f"{tunnel(name).title} differs between the nodes: {details}")
    return found
