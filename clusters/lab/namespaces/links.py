"""Devices, addresses, routes and neighbours through netlink; every function works on one Namespace
and raises ClusterError.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from cnibench.clusters.lab.namespaces import netlink
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError

_SIOCGIFMTU = 0x8921
_IFA_F_NODAD = 0x02
# protocol of a route whose maker names none: iproute2, and what is written in Go
PROTO_BOOT = 3
_PROTO_STATIC, _TABLE_MAIN, _SCOPE_LINK = 4, 254, 253
_ROUTE_TYPES = {"unicast": 1, "blackhole": 6}
_RTNH_F_ONLINK = 4
_NTF_SELF = 0x02
_PERMANENT, _NOARP = 0x80, 0x40


@contextlib.contextmanager
def _explained(ns: Namespace, what: str) -> Iterator[None]:
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        raise ClusterError(
            f"{ns.name}: {what}: {error.args[1] if len(error.args) > 1 else error}"
        ) from None


def index(ns: Namespace, name: str) -> int:
    """The interface index of a device. Raises ClusterError."""
    if name not in ns.links:
        try:
            with ns.inside():  # one ioctl: a tenth of the time of a netlink look-up
                ns.links[name] = socket.if_nametoindex(name)
        except OSError:
            raise ClusterError(f"{ns.name}: there is no device {name}") from None
    return ns.links[name]


def add(ns: Namespace, name: str, kind: str, *, up: bool = True, **attributes: Any) -> int:
    """A new device (``bridge``, ``vxlan``, ``ipip``, ...) with pyroute2's attributes of that kind;
    its interface index.
    """
    body = netlink.device(netlink.link(), kind, {"ifname": name, **attributes})
    if body is not None:
        netlink.ask(ns, f"{kind} device {name}", netlink.NEWLINK, netlink.ADD, body)
    else:
        with _explained(ns, f"{kind} device {name}"):
            ns.ipr.link("add", ifname=name, kind=kind, **attributes)
    if up:
        set_link(ns, name, state="up")
    return index(ns, name)


def veth(
    ns: Namespace,
    name: str,
    peer_ns: Namespace,
    peer: str,
    *,
    mtu: int = 1500,
    mac: str | None = None,
    peer_mac: str | None = None,
    up: bool = True,
    txqueuelen: int | None = None,
    queues: int | None = None,
) -> tuple[int, int]:
    """A veth pair with one end in each namespace, both indices. Without ``queues`` an end has one
    for each CPU.
    """
    head = netlink.link(up=True if up else None)
    both: Mapping[str, Any] = {"mtu": mtu, "txqueuelen": txqueuelen, "queues": queues}
    mine = netlink.link_attributes(name=name, mac=mac, **both)
    other = netlink.link_attributes(name=peer, mac=peer_mac, namespace=peer_ns.fd, **both)
    netlink.ask(
        ns,
        f"veth {name}",
        netlink.NEWLINK,
        netlink.ADD,
        netlink.veth(head, mine, netlink.link(), other),
    )
    if up:  # not within the first request: a peer cannot go up before the pair is one
        set_link(peer_ns, peer, state="up")
    return index(ns, name), index(peer_ns, peer)


def set_link(
    ns: Namespace,
    name: str,
    *,
    state: Literal["up", "down"] | None = None,
    mtu: int | None = None,
    master: int | None = None,
    address: str | None = None,
    arp: bool | None = None,
    txqueuelen: int | None = None,
) -> None:
    """Changes a device: ``master`` is an index (0: none), ``address`` a MAC."""
    head = netlink.link(index(ns, name), up=None if state is None else state == "up", arp=arp)
    body = netlink.link_attributes(mac=address, mtu=mtu, master=master, txqueuelen=txqueuelen)
    netlink.ask(ns, f"{name} set", netlink.NEWLINK, netlink.CHANGE, head + body)


def rename(ns: Namespace, name: str, to: str) -> None:
    """Gives a device that is down another name."""
    body = netlink.link_attributes(name=to)
    head = netlink.link(index(ns, name))
    netlink.ask(ns, f"{name} renamed to {to}", netlink.NEWLINK, netlink.CHANGE, head + body)
    ns.links[to] = ns.links.pop(name)


def exists(ns: Namespace, name: str) -> bool:
    """Is there a device of that name now?"""
    ns.links.pop(name, None)
    try:
        index(ns, name)
    except ClusterError:
        return False
    return True


def delete(ns: Namespace, name: str) -> None:
    """Removes a device (with a veth its peer); one that is gone is no error. Raises ClusterError
    when it stays.
    """
    if not exists(ns, name):
        return
    try:
        netlink.ask(
            ns, f"delete {name}", netlink.DELLINK, netlink.CHANGE, netlink.link(index(ns, name))
        )
    except ClusterError:
        if exists(ns, name):
            raise
    ns.links.pop(name, None)


def address(ns: Namespace, name: str, cidr: str) -> None:
    """Adds ``10.0.0.1/24`` or ``fd00::1/64`` to a device; IPv6 ones are usable at once (no
    duplicate address detection).
    """
    ip, _, length = cidr.partition("/")
    family, binary = netlink.family_of(ip), netlink.packed(ip)
    flags = _IFA_F_NODAD if len(binary) == 16 else 0
    head = struct.pack("=BBBBI", family, int(length), flags, 0, index(ns, name))
    body = netlink.attribute(2, binary) + netlink.attribute(1, binary)  # IFA_LOCAL, IFA_ADDRESS
    netlink.ask(ns, f"address {cidr} on {name}", netlink.NEWADDR, netlink.ADD, head + body)


def route(
    ns: Namespace,
    to: str,
    *,
    dev: str | None = None,
    via: str | None = None,
    onlink: bool = False,
    prefsrc: str | None = None,
    scope: int | None = None,
    proto: int = _PROTO_STATIC,
    table: int = _TABLE_MAIN,
    type: Literal["unicast", "blackhole"] = "unicast",
    mtu: int | None = None,
    metric: int | None = None,
) -> None:
    """Adds a route; ``to`` is a prefix, ``default`` or ``default6``. Without ``scope`` it is what
    iproute2 takes. ``mtu`` is the route's own, in bytes; among several to one prefix the lowest
    ``metric`` counts.
    """
    netlink.ask(
        ns,
        f"route {to} {dev or ''} {via or ''}",
        netlink.NEWROUTE,
        netlink.ADD,
        _route(ns, to, dev, via, onlink, prefsrc, scope, proto, table, type, mtu, metric),
    )


def _route(
    ns: Namespace,
    to: str,
    dev: str | None,
    via: str | None,
    onlink: bool,
    prefsrc: str | None,
    scope: int | None,
    proto: int,
    table: int,
    type: str,
    mtu: int | None,
    metric: int | None,
) -> bytes:
    v6 = ":" in to or to == "default6"
    prefix, _, length = (
        ("::" if v6 else "0.0.0.0", "", "0") if to.startswith("default") else to.partition("/")
    )
    if scope is None:
        scope = 0 if v6 or via or type != "unicast" else _SCOPE_LINK
    head = struct.pack(
        "=8BI",
        netlink.family_of(prefix),
        int(length),
        0,
        0,
        table if table < 256 else 0,
        proto,
        scope,
        _ROUTE_TYPES[type],
        _RTNH_F_ONLINK if onlink else 0,
    )
    body = netlink.attribute(1, netlink.packed(prefix)) if int(length) else b""  # RTA_DST
    if dev:
        body += netlink.attribute(4, index(ns, dev))  # RTA_OIF
    if via:
        body += netlink.attribute(5, netlink.packed(via))  # RTA_GATEWAY
    if metric is not None:
        body += netlink.attribute(6, metric)  # RTA_PRIORITY
    if prefsrc:
        body += netlink.attribute(7, netlink.packed(prefsrc))  # RTA_PREFSRC
    if mtu:
        body += netlink.attribute(8, netlink.attribute(2, mtu))  # RTA_METRICS, RTAX_MTU
    return head + body + netlink.attribute(15, table)  # RTA_TABLE


def neighbour(ns: Namespace, name: str, ip: str, mac: str) -> None:
    """A permanent neighbour entry (ARP or ND)."""
    head = struct.pack("=BxHiHBB", netlink.family_of(ip), 0, index(ns, name), _PERMANENT, 0, 0)
    body = netlink.attribute(1, netlink.packed(ip)) + netlink.attribute(
        2, netlink.octets(mac)
    )  # NDA_DST, NDA_LLADDR
    netlink.ask(ns, f"neighbour {ip} on {name}", netlink.NEWNEIGH, netlink.PUT, head + body)


def fdb(ns: Namespace, name: str, mac: str, to: str, *, noarp: bool = True) -> None:
    """A forwarding entry of a VXLAN device: frames for ``mac`` go to the tunnel end ``to`` (bridge
    fdb add ... dst ... self permanent). ``noarp`` is a part of the state that iproute2 adds.
    """
    state = _PERMANENT | _NOARP if noarp else _PERMANENT
    head = struct.pack("=BxHiHBB", socket.AF_BRIDGE, 0, index(ns, name), state, _NTF_SELF, 0)
    body = netlink.attribute(1, netlink.packed(to)) + netlink.attribute(
        2, netlink.octets(mac)
    )  # NDA_DST, NDA_LLADDR
    netlink.ask(ns, f"fdb {mac} {to}", netlink.NEWNEIGH, netlink.MORE, head + body)


def statistics(ns: Namespace, name: str) -> dict[str, int]:
    """rx_packets, tx_packets, rx_bytes, tx_bytes, drops and errors of a device, now."""
    for line in ns.read("/proc/net/dev").splitlines()[2:]:
        device, _, rest = line.partition(":")
        if device.strip() == name:
            v = [int(word) for word in rest.split()]
            return {
                "rx_bytes": v[0],
                "rx_packets": v[1],
                "rx_errors": v[2],
                "rx_dropped": v[3],
                "tx_bytes": v[8],
                "tx_packets": v[9],
                "tx_errors": v[10],
                "tx_dropped": v[11],
            }
    raise ClusterError(f"{ns.name}: there is no device {name}")


def mtu(ns: Namespace, name: str) -> int:
    """The MTU of a device in bytes. Raises ClusterError."""
    try:
        with ns.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            answer = fcntl.ioctl(sock, _SIOCGIFMTU, struct.pack("16si12x", name.encode(), 0))
    except OSError:
        raise ClusterError(f"{ns.name}: there is no device {name}") from None
    return int(struct.unpack_from("i", answer, 16)[0])


def mac(*parts: int) -> str:
    """A locally administered MAC address made of up to five numbers: the same parts give the same
    address.
    """
    octets = [0x02, *([0] * (5 - len(parts))), *parts]
    return ":".join(f"{octet & 0xFF:02x}" for octet in octets)
