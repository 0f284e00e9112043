"""Devices with all their options, their addresses, offload features and channels."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cnibench.listing.dumps import ROUTE, address, attributes, dump, lines, mac, number, word
from cnibench.system import ethtool

_GETLINK, _GETADDR, _GETNEIGHTBL = 18, 22, 66
_EXT_MASK, _SKIP_STATS, _BRIDGE_VLANS = 29, 8, 2
# Attributes of a device (linux/if_link.h) that its options decide; counters and timers are not
# among them.
_NUMBERS = {
    4: "mtu",
    13: "txqueuelen",
    17: "linkmode",
    27: "group",
    30: "promiscuity",
    31: "tx-queues",
    32: "rx-queues",
    33: "carrier",
    39: "protodown",
    40: "gso-max-segs",
    41: "gso-max-size",
    50: "min-mtu",
    51: "max-mtu",
    58: "gro-max-size",
    59: "tso-max-size",
    60: "tso-max-segs",
    61: "allmulti",
    63: "gso-ipv4-max-size",
    64: "gro-ipv4-max-size",
}
_MACS = {1: "address", 2: "broadcast"}
_WORDS = {6: "qdisc", 20: "alias"}
_LINK, _NAME, _MASTER, _LINKINFO, _AF_SPEC, _NETNSID, _XDP = 5, 3, 10, 18, 26, 37, 43
_XDP_PROGRAMS = (4, 5, 6, 7)  # the only one, the driver's, the generic one, that of the card
_BRIDGE = {
    1: "forward-delay",
    4: "ageing-time",
    5: "stp",
    7: "vlan-filtering",
    22: "mcast-router",
    23: "mcast-snooping",
    36: "nf-call-iptables",
    37: "nf-call-ip6tables",
    38: "nf-call-arptables",
}
_PORT = {
    1: "state",
    2: "priority",
    3: "cost",
    4: "hairpin",
    5: "guard",
    8: "learning",
    9: "flood",
    10: "proxy-arp",
    27: "mcast-flood",
    30: "bcast-flood",
    32: "neigh-suppress",
    33: "isolated",
    39: "locked",
}
_VXLAN = {
    1: "id",
    2: "group",
    3: "link",
    4: "local",
    5: "ttl",
    6: "tos",
    7: "learning",
    8: "ageing",
    10: "port-range",
    11: "proxy",
    12: "rsc",
    13: "l2miss",
    14: "l3miss",
    15: "port",
    17: "local6",
    18: "udp-csum",
    19: "udp-zero-csum6-tx",
    20: "udp-zero-csum6-rx",
    25: "external",
    29: "df",
}
# Identifiers made of MAC addresses, timers and numbers of learned entries.
_BRIDGE_VARIES = (10, 11, 16, 17, 18, 19, 47, 48)
_PORT_VARIES = (13, 14, 15, 17, 18, 21, 22, 23, 38, 41)
_CONF4 = (
    "forwarding",
    "mc_forwarding",
    "proxy_arp",
    "accept_redirects",
    "secure_redirects",
    "send_redirects",
    "shared_media",
    "rp_filter",
    "accept_source_route",
    "bootp_relay",
    "log_martians",
    "tag",
    "arp_filter",
    "medium_id",
    "disable_xfrm",
    "disable_policy",
    "force_igmp_version",
    "arp_announce",
    "arp_ignore",
    "promote_secondaries",
    "arp_accept",
    "arp_notify",
    "accept_local",
    "src_valid_mark",
    "proxy_arp_pvlan",
    "route_localnet",
)
# What the kernel makes in each namespace when a tunnel's module is loaded, whoever loads it.
_FALLBACK = (
    "tunl0",
    "sit0",
    "gre0",
    "gretap0",
    "erspan0",
    "ip_vti0",
    "ip6_vti0",
    "ip6tnl0",
    "ip6gre0",
)
_UP = 1
_STATE = 0x40 | 0x10000 | 0x20000  # running, lower up, dormant: they follow some time later
# Of IPv6: a device is ready, has asked for routers; an address is not yet known to be the only one.
_READY, _ASKED, _TENTATIVE = 0x80000000, 0x10, 0x40


class Device(NamedTuple):
    """A device: its index and name here, its MAC address, its kind, and a line for each option.
    ``peer`` is the index of the device below it, or at its other end, in another namespace; 0 where
    there is none. ``xdp`` has the numbers of its XDP programs.
    """

    number: int
    name: str
    mac: str
    kind: str
    options: Sequence[str]
    peer: int = 0
    xdp: Sequence[int] = ()


def devices() -> list[Device]:
    """All of the calling thread's namespace, but for the kernel's own tunnel devices that are
    down.
    """
    mask = struct.pack("=HHI", 8, _EXT_MASK, _SKIP_STATS | _BRIDGE_VLANS)
    raw = []
    for _, body in dump(ROUTE, _GETLINK, bytes(16) + mask):
        index, flags = struct.unpack_from("=4xiI", body)
        found = attributes(body[16:])
        raw.append((index, flags, found, word(dict(found)[_NAME])))
    names = {index: name for index, _, _, name in raw}
    return [
        _device(index, flags, found, name, names)
        for index, flags, found, name in raw
        if flags & _UP or name not in _FALLBACK
    ]


def _device(
    index: int, flags: int, found: Sequence[tuple[int, bytes]], name: str, names: Mapping[int, str]
) -> Device:
    given = dict(found)
    info = dict(attributes(given.get(_LINKINFO, b"")))
    kind = word(info.get(1, b""))
    options = [f"{name} kind {kind or '-'}", f"{name} flags {flags & ~_STATE:#x}"]
    for number_, value in found:
        if number_ in _NUMBERS:
            options.append(f"{name} {_NUMBERS[number_]} {number(value)}")
        elif number_ in _MACS:
            options.append(f"{name} {_MACS[number_]} {mac(value)}")
        elif number_ in _WORDS:
            options.append(f"{name} {_WORDS[number_]} {word(value)}")
    if _MASTER in given:
        options.append(f"{name} master {names.get(number(given[_MASTER]), '?')}")
    if _LINK in given:
        lower = number(given[_LINK])
        there = "in another namespace" if _NETNSID in given else names.get(lower, lower)
        options.append(f"{name} link {there}")
    xdp = attributes(given.get(_XDP, b""))
    options += lines(f"{name} xdp.", xdp, {2: "attached"}, drop=_XDP_PROGRAMS)
    known = {"bridge": (_BRIDGE, _BRIDGE_VARIES), "vxlan": (_VXLAN, ())}.get(kind, ({}, ()))
    if kind not in ("wireguard", "openvswitch"):
        options += lines(f"{name} {kind}.", attributes(info.get(2, b"")), known[0], drop=known[1])
    if word(info.get(4, b"")) == "bridge":
        options += lines(f"{name} port.", attributes(info.get(5, b"")), _PORT, drop=_PORT_VARIES)
    options += _per_family(name, given.get(_AF_SPEC, b""))
    peer = number(given.get(_LINK, b"")) if _NETNSID in given else 0
    programs = dict.fromkeys(number(value) for kind_, value in xdp if kind_ in _XDP_PROGRAMS)
    return Device(index, name, mac(given.get(1, b"")), kind, options, peer, tuple(programs))


def _per_family(name: str, spec: bytes) -> Iterator[str]:
    """The settings of net.ipv4.conf and net.ipv6.conf."""
    for family, data in attributes(spec):
        inner = dict(attributes(data))
        if family == socket.AF_INET:
            values = inner.get(1, b"")
            for at in range(len(values) // 4):
                label = _CONF4[at] if at < len(_CONF4) else str(at + 1)
                yield f"{name} ipv4.{label} {struct.unpack_from('=i', values, 4 * at)[0]}"
        elif family == socket.AF_INET6:
            yield f"{name} ipv6.flags {number(inner.get(1, b'')) & ~(_READY | _ASKED):#x}"
            yield f"{name} ipv6.addr-gen-mode {number(inner.get(8, b''))}"
            values = inner.get(2, b"")
            for at in range(len(values) // 4):
                value = struct.unpack_from("=i", values, 4 * at)[0]
                if value:
                    yield f"{name} ipv6.conf{at} {value}"


def addresses(names: Mapping[int, str]) -> list[str]:
    """All addresses, sorted."""
    found = []
    for _, body in dump(ROUTE, _GETADDR, bytes(8)):
        family, length, flags, scope, index = struct.unpack_from("=BBBBI", body)
        given = dict(attributes(body[8:]))
        if index not in names:
            continue
        own = given.get(2) or given.get(1, b"")
        flags = (number(given[8]) if 8 in given else flags) & ~_TENTATIVE
        words = [names[index], f"{address(own)}/{length}", f"scope {scope}", f"flags {flags:#x}"]
        if given.get(1, own) != own:
            words.append(f"peer {address(given[1])}")
        if family in (socket.AF_INET, socket.AF_INET6):
            found.append(" ".join(words))
    return sorted(found)


def neighbour_settings(names: Mapping[int, str]) -> list[str]:
    """net.ipv4.neigh and net.ipv6.neigh, of all devices and the defaults.

    One dump for each family: in a dump of both the kernel skips devices of the second table where
    the first one fills a message. It repeats a table's defaults in each message, so that a line
    counts once. Otherwise the number of devices would decide what is listed.
    """
    found: set[str] = set()
    bodies = [
        body
        for family in (socket.AF_INET, socket.AF_INET6)
        for _, body in dump(ROUTE, _GETNEIGHTBL, struct.pack("=B3x", family))
    ]
    for body in bodies:
        given = attributes(body[4:])
        table = word(dict(given).get(1, b""))
        for kind, data in given:
            if kind in (2, 3, 4):
                found.add(f"{table} threshold{kind - 1} {number(data)}")
            elif kind == 6:
                inner = attributes(data)
                index = number(dict(inner).get(1, b"\0"))
                if index and index not in names:
                    continue
                label = f"{table} {names.get(index, 'default')} "
                # not: the reference count, and the reachable time, which the kernel draws
                found.update(lines(label, inner, {}, drop=(1, 2, 3)))
    return sorted(found)


def feature_lines(device: str) -> Iterator[str]:
    """The active offload features and the numbers of channels of a device of this namespace."""
    active = {name: feature.on for name, feature in ethtool.features(device).items()}
    yield f"{device} features {' '.join(sorted(name for name, on in active.items() if on))}"
    channels = _channels(device)
    if channels:
        yield f"{device} channels {channels}"


def _channels(device: str) -> str:
    """The numbers of channels (receive, send, other, combined); '' where it has none to choose."""
    try:
        return " ".join(map(str, ethtool.channels(device)))
    except OSError:
        return ""
