"""The few rtnetlink requests that nearly every datapath needs, encoded directly: a tenth of a
millisecond each, and no socket stays open.

A general library takes about a millisecond for each of them, a socket and an event loop for each
namespace, and a tenth of a second to be imported (emulated, seconds); with hundreds of Pods that is
most of the time of making them. Everything else goes through pyroute2 (``Namespace.ipr``). Layouts:
rtnetlink(7), include/uapi/linux/rtnetlink.h, if_link.h, pkt_sched.h, genetlink.h.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError

NEWLINK, DELLINK, NEWADDR, NEWROUTE, DELROUTE, NEWNEIGH, NEWQDISC = 16, 17, 20, 24, 25, 28, 36
_GETROUTE, _DUMP, _DONE = 26, 0x300, 3
_REQUEST, _ACK, _REPLACE, _EXCL, _CREATE, _APPEND = 0x1, 0x4, 0x100, 0x200, 0x400, 0x800
CHANGE, ADD, PUT = (
    _REQUEST | _ACK,
    _REQUEST | _ACK | _CREATE | _EXCL,
    _REQUEST | _ACK | _CREATE | _REPLACE,
)
REPLACE = _REQUEST | _ACK | _REPLACE
MORE = _REQUEST | _ACK | _CREATE | _APPEND
_ERROR = 2
_SOL_NETLINK, _EXT_ACK = 270, 11
_CAPPED, _ACK_TLVS = 0x100, 0x200
_IFF_UP, _IFF_NOARP = 0x1, 0x80
_ATTRIBUTE_LINKINFO, _INFO_KIND, _INFO_DATA, _PEER = 18, 1, 2, 1
_IFNAME, _ADDRESS, _MTU, _LINK, _MASTER, _TXQLEN, _NET_NS_FD = 3, 1, 4, 5, 10, 13, 28
_TX_QUEUES, _RX_QUEUES = 31, 32
_NETLINK_GENERIC, _GENERIC_CONTROL, _GETFAMILY, _FAMILY_NAME = 16, 16, 3, 2

# Kind of device: name of an attribute of its own (as pyroute2 has them) to (number, how it is
# packed).
_DATA: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "bridge": {},
    "dummy": {},
    "wireguard": {},
    "netkit": {},
    "ipvlan": {},
    "macvlan": {},
    "vrf": {"vrf_table": (1, "=I")},
    "ipip": {
        "ipip_local": (2, "address"),
        "ipip_remote": (3, "address"),
        "ipip_pmtudisc": (10, "=B"),
    },
    "geneve": {
        "geneve_id": (1, "=I"),
        "geneve_remote": (2, "address"),
        "geneve_port": (5, ">H"),
        "geneve_collect_metadata": (6, "flag"),
    },
    "vxlan": {
        "vxlan_id": (1, "=I"),
        "vxlan_link": (3, "=I"),
        "vxlan_local": (4, "address"),
        "vxlan_learning": (7, "=B"),
        "vxlan_proxy": (11, "=B"),
        "vxlan_l2miss": (13, "=B"),
        "vxlan_l3miss": (14, "=B"),
        "vxlan_port": (15, ">H"),
        "vxlan_local6": (17, "address"),
        "vxlan_collect_metadata": (25, "=B"),
    },
}


def family_of(address: str) -> int:
    """AF_INET or AF_INET6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def packed(address: str) -> bytes:
    """An IP address as the wire has it."""
    return ipaddress.ip_address(address).packed


def attribute(kind: int, payload: bytes | int | str) -> bytes:
    """One attribute, padded; a number is 32 bits in host order, a string ends with 0."""
    if isinstance(payload, int):
        payload = struct.pack("=I", payload)
    elif isinstance(payload, str):
        payload = payload.encode() + b"\0"
    return struct.pack("=HH", len(payload) + 4, kind) + payload + bytes(-len(payload) % 4)


def octets(mac: str) -> bytes:
    """A MAC address as bytes."""
    return bytes.fromhex(mac.replace(":", ""))


def link(number: int = 0, *, up: bool | None = None, arp: bool | None = None) -> bytes:
    """The head of a link message (struct ifinfomsg); ``up`` and ``arp`` change the flags, None
    leaves them.
    """
    change = (_IFF_UP if up is not None else 0) | (_IFF_NOARP if arp is not None else 0)
    flags = (_IFF_UP if up else 0) | (_IFF_NOARP if arp is False else 0)
    return struct.pack("=BxHiII", 0, 0, number, flags, change)


def link_attributes(
    *,
    name: str | None = None,
    mac: str | None = None,
    mtu: int | None = None,
    lower: int | None = None,
    master: int | None = None,
    txqueuelen: int | None = None,
    queues: int | None = None,
    namespace: int | None = None,
) -> bytes:
    """The attributes that are given; ``lower`` is the device below it, ``namespace`` an open file
    of one, ``queues`` their number in each direction.
    """
    numbers = (
        (_MTU, mtu),
        (_LINK, lower),
        (_MASTER, master),
        (_TXQLEN, txqueuelen),
        (_TX_QUEUES, queues),
        (_RX_QUEUES, queues),
        (_NET_NS_FD, namespace),
    )
    body = b"".join(attribute(kind, value) for kind, value in numbers if value is not None)
    return (
        body
        + (attribute(_IFNAME, name) if name else b"")
        + (attribute(_ADDRESS, octets(mac)) if mac else b"")
    )


def veth(head: bytes, mine: bytes, peer_head: bytes, peer: bytes) -> bytes:
    """The body of a message that makes a veth pair."""
    data = attribute(_INFO_DATA, attribute(_PEER, peer_head + peer))
    return head + mine + attribute(_ATTRIBUTE_LINKINFO, attribute(_INFO_KIND, "veth") + data)


def device(head: bytes, kind: str, attributes: Mapping[str, Any]) -> bytes | None:
    """The body of a message that makes a device of that kind; None where a kind or an attribute is
    not known here.

    ``attributes`` are ``ifname``, ``address`` (a MAC), ``mtu``, ``link`` (an index), ``txqlen``,
    and those of the kind by pyroute2's names.
    """
    known, own = _DATA.get(kind), dict(attributes)
    if known is None:
        return None
    body = link_attributes(
        name=own.pop("ifname"),
        mac=own.pop("address", None),
        mtu=own.pop("mtu", None),
        lower=own.pop("link", None),
        txqueuelen=own.pop("txqlen", None),
    )
    if own.keys() - known.keys():
        return None
    data = b"".join(
        attribute(known[name][0], _packed(known[name][1], value)) for name, value in own.items()
    )
    info = attribute(_INFO_KIND, kind) + (attribute(_INFO_DATA, data) if data else b"")
    return head + body + attribute(_ATTRIBUTE_LINKINFO, info)


def _packed(how: str, value: Any) -> bytes:
    if how == "flag":
        return b""
    return packed(value) if how == "address" else struct.pack(how, value)


def qdisc(index: int, kind: str, *, parent: int, handle: int, options: bytes = b"") -> bytes:
    """The body of a message that puts a queueing discipline on a device (struct tcmsg, TCA_KIND,
    TCA_OPTIONS).
    """
    head = struct.pack("=BxxxiIII", 0, index, handle, parent, 0)
    return head + attribute(1, kind) + (attribute(2, options) if options else b"")


def ask(ns: Namespace, what: str, kind: int, flags: int, body: bytes) -> None:
    """One request in a namespace. Raises ClusterError with ``what`` and the kernel's own words."""
    try:
        with ns.inside():
            sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        with sock:
            _exchange(sock, kind, flags, body)
    except OSError as error:
        raise ClusterError(f"{ns.name}: {what}: {error.strerror}") from None


def routes(ns: Namespace) -> Iterator[tuple[tuple[int, ...], dict[int, bytes]]]:
    """All routes of a namespace, of both families and all tables: (struct rtmsg, attributes by
    number). Raises ClusterError.
    """
    head = struct.Struct("=8BI")
    try:
        with ns.inside():
            sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        with sock:
            request = struct.pack("=IHHII", 28, _GETROUTE, _REQUEST | _DUMP, 1, 0) + bytes(12)
            sock.sendto(request, (0, 0))
            while True:
                answer = memoryview(sock.recv(1 << 18))
                while len(answer) >= 16:
                    length, kind = struct.unpack_from("=IH", answer)
                    if kind in (_DONE, _ERROR):
                        return
                    message = bytes(answer[16:length])
                    yield head.unpack_from(message), dict(attributes(message[head.size :]))
                    answer = answer[(length + 3) & ~3 :]
    except OSError as error:
        raise ClusterError(f"{ns.name}: its routes cannot be listed: {error.strerror}") from None


def attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, payload) of each attribute."""
    while len(body) >= 4:
        length, kind = struct.unpack_from("=HH", body)
        if length < 4:
            return
        yield kind & 0x3FFF, body[4:length]  # without the flag of nested ones
        body = body[(length + 3) & ~3 :]


def ask_here(kind: int, flags: int, body: bytes) -> None:
    """The same in the calling thread's own namespace. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        _exchange(sock, kind, flags, body)


def has_generic(family: str) -> bool:
    """Does the kernel have that family of generic netlink? It loads the module that brings it,
    where it can.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as sock:
        try:
            _exchange(
                sock,
                _GENERIC_CONTROL,
                CHANGE,
                struct.pack("=BBH", _GETFAMILY, 1, 0) + attribute(_FAMILY_NAME, family),
            )
        except OSError:
            return False
    return True


def _exchange(sock: socket.socket, kind: int, flags: int, body: bytes) -> None:
    sock.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
    sock.sendto(struct.pack("=IHHII", len(body) + 16, kind, flags, 1, 0) + body, (0, 0))
    answer = sock.recv(65536)  # the kernel has worked within the call before: it is there
    length, kind, flags, _, _ = struct.unpack_from("=IHHII", answer)
    number = -struct.unpack_from("=i", answer, 16)[0] if kind == _ERROR else 0
    if number:
        words = _words(answer[:length], flags)
        raise OSError(number, f"{os.strerror(number)}{words and f' ({words})'}")


def _words(answer: bytes, flags: int) -> str:
    """What the kernel says beside the number (NLMSGERR_ATTR_MSG), '' when nothing."""
    if not flags & _ACK_TLVS:
        return ""
    at = 20 + (16 if flags & _CAPPED else (struct.unpack_from("=I", answer, 20)[0] + 3) & ~3)
    while at + 4 <= len(answer):
        size, kind = struct.unpack_from("=HH", answer, at)
        if size < 4:
            break
        if kind == 1:
            return answer[at + 4 : at + size].rstrip(b"\0").decode(errors="replace")
        at += (size + 3) & ~3
    return ""
