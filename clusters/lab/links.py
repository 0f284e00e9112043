"""Devices, addresses, routes and neighbours through netlink; every function works on one Namespace and raises ClusterError."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from typing import Any

from cnibench.clusters.lab.netns import Namespace
from cnibench.errors import ClusterError

_SIOCGIFMTU = 0x8921
_IFA_F_NODAD = 0x02
_NTF_SELF, _NTF_PROXY = 0x02, 0x08
_PERMANENT, _NOARP = 0x80, 0x40


@contextlib.contextmanager
def _told(ns: Namespace, what: str) -> Iterator[None]:
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        raise ClusterError(f"{ns.name}: {what}: {error.args[1] if len(error.args) > 1 else error}") from None


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
    """A new device (``bridge``, ``vxlan``, ``ipip``, ...) with pyroute2's attributes of that kind; its interface index."""
    with _told(ns, f"{kind} device {name}"):
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
) -> tuple[int, int]:
    """A veth pair with one end in each namespace; both indices."""
    mine: dict[str, Any] = {"mtu": mtu}
    other: dict[str, Any] = {"ifname": peer, "net_ns_fd": peer_ns.fd, "mtu": mtu}
    if mac:
        mine["address"] = mac
    if peer_mac:
        other["address"] = peer_mac
    if txqueuelen is not None:
        mine["txqlen"] = other["txqlen"] = txqueuelen
    with _told(ns, f"veth {name}"):
        ns.ipr.link("add", ifname=name, kind="veth", peer=other, **mine)
    if up:
        set_link(ns, name, state="up")
        set_link(peer_ns, peer, state="up")
    return index(ns, name), index(peer_ns, peer)


def set_link(ns: Namespace, name: str, **attributes: Any) -> None:
    """Changes a device: ``state='up'``, ``mtu=``, ``master=INDEX``, ``address=MAC`` ..."""
    with _told(ns, f"{name} {attributes}"):
        ns.ipr.link("set", index=index(ns, name), **attributes)


def delete(ns: Namespace, name: str) -> None:
    """Removes a device (with a veth its peer); one that is gone is no error."""
    with contextlib.suppress(ClusterError), _told(ns, f"delete {name}"):
        ns.ipr.link("del", index=index(ns, name))
    ns.links.pop(name, None)


def address(ns: Namespace, name: str, cidr: str, **attributes: Any) -> None:
    """Adds ``10.0.0.1/24`` or ``fd00::1/64`` to a device; IPv6 ones are usable at once (no duplicate address detection)."""
    interface = ipaddress.ip_interface(cidr)
    if interface.version == 6:
        attributes.setdefault("flags", _IFA_F_NODAD)
    with _told(ns, f"address {cidr} on {name}"):
        ns.ipr.addr("add", index=index(ns, name), address=str(interface.ip), prefixlen=interface.network.prefixlen, **attributes)


def route(ns: Namespace, to: str, *, dev: str | None = None, via: str | None = None, onlink: bool = False, **attributes: Any) -> None:
    """Adds a route; ``to`` is a prefix, ``default`` or ``default6``; more by pyroute2's names (``scope``, ``table``, ...)."""
    family = 6 if ":" in to or to == "default6" else 4
    words: dict[str, Any] = {"dst": to} if not to.startswith("default") else {"dst": "::/0" if family == 6 else "0.0.0.0/0"}
    if dev:
        words["oif"] = index(ns, dev)
    if via:
        words["gateway"] = via
    if onlink:
        words["flags"] = 4  # RTNH_F_ONLINK
    with _told(ns, f"route {to} {words}"):
        ns.ipr.route("add", family=10 if family == 6 else 2, **words, **attributes)


def unroute(ns: Namespace, to: str, **attributes: Any) -> None:
    """Removes a route."""
    with _told(ns, f"remove route {to}"):
        ns.ipr.route("del", dst=to, family=10 if ":" in to else 2, **attributes)


def neighbour(ns: Namespace, name: str, ip: str, mac: str) -> None:
    """A permanent neighbour entry (ARP or ND)."""
    with _told(ns, f"neighbour {ip}"):
        ns.ipr.neigh("replace", ifindex=index(ns, name), dst=ip, lladdr=mac, state=_PERMANENT, family=10 if ":" in ip else 2)


def proxy_neighbour(ns: Namespace, name: str, ip: str) -> None:
    """Answers ARP or ND for ``ip`` on that device."""
    with _told(ns, f"proxy neighbour {ip}"):
        ns.ipr.neigh("add", ifindex=index(ns, name), dst=ip, flags=_NTF_PROXY, family=10 if ":" in ip else 2)


def fdb(ns: Namespace, name: str, mac: str, to: str) -> None:
    """A forwarding entry of a VXLAN device: frames for ``mac`` go to the tunnel end ``to`` (bridge fdb add ... dst ... self permanent)."""
    with _told(ns, f"fdb {mac} {to}"):
        ns.ipr.fdb("append", ifindex=index(ns, name), lladdr=mac, dst=to, state=_PERMANENT | _NOARP, flags=_NTF_SELF)


def statistics(ns: Namespace, name: str) -> dict[str, int]:
    """rx_packets, tx_packets, rx_bytes, tx_bytes, drops and errors of a device, now."""
    for line in ns.read("/proc/net/dev").splitlines()[2:]:
        device, _, rest = line.partition(":")
        if device.strip() == name:
            v = [int(word) for word in rest.split()]
            return {
                "rx_bytes": v[0], "rx_packets": v[1], "rx_errors": v[2], "rx_dropped": v[3],
                "tx_bytes": v[8], "tx_packets": v[9], "tx_errors": v[10], "tx_dropped": v[11],
            }  # fmt: skip
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
    """A locally administered MAC address made of up to five numbers: the same parts give the same address."""
    octets = [0x02, *([0] * (5 - len(parts))), *parts]
    return ":".join(f"{octet & 0xFF:02x}" for octet in octets)
