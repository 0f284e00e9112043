"""The few rtnetlink requests that every Pod needs, encoded directly: a tenth of a millisecond each, and no socket stays open.

A general library takes about a millisecond for each of them, and a socket and an event loop for each namespace; with hundreds of Pods
that is most of the time of making them. Everything else goes through pyroute2 (``Namespace.ipr``).
Layouts: rtnetlink(7), include/uapi/linux/rtnetlink.h.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct

from cnibench.clusters.lab.netns import Namespace
from cnibench.errors import ClusterError

NEWLINK, NEWADDR, NEWROUTE, DELROUTE, NEWNEIGH = 16, 20, 24, 25, 28
_REQUEST, _ACK, _REPLACE, _EXCL, _CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
CHANGE, ADD, PUT = _REQUEST | _ACK, _REQUEST | _ACK | _CREATE | _EXCL, _REQUEST | _ACK | _CREATE | _REPLACE
_ERROR = 2
_SOL_NETLINK, _EXT_ACK = 270, 11
_CAPPED, _ACK_TLVS = 0x100, 0x200
_IFF_UP, _IFF_NOARP = 0x1, 0x80
_ATTRIBUTE_LINKINFO, _INFO_KIND, _INFO_DATA, _PEER = 18, 1, 2, 1
_IFNAME, _ADDRESS, _MTU, _MASTER, _TXQLEN, _NET_NS_FD = 3, 1, 4, 10, 13, 28


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
    """The head of a link message (struct ifinfomsg); ``up`` and ``arp`` change the flags, None leaves them."""
    change = (_IFF_UP if up is not None else 0) | (_IFF_NOARP if arp is not None else 0)
    flags = (_IFF_UP if up else 0) | (_IFF_NOARP if arp is False else 0)
    return struct.pack("=BxHiII", 0, 0, number, flags, change)


def link_attributes(
    *,
    name: str | None = None,
    mac: str | None = None,
    mtu: int | None = None,
    master: int | None = None,
    txqueuelen: int | None = None,
    namespace: int | None = None,
) -> bytes:
    """The attributes that are given; ``namespace`` is an open file of one."""
    numbers = ((_MTU, mtu), (_MASTER, master), (_TXQLEN, txqueuelen), (_NET_NS_FD, namespace))
    body = b"".join(attribute(kind, value) for kind, value in numbers if value is not None)
    return body + (attribute(_IFNAME, name) if name else b"") + (attribute(_ADDRESS, octets(mac)) if mac else b"")


def veth(head: bytes, mine: bytes, peer_head: bytes, peer: bytes) -> bytes:
    """The body of a message that makes a veth pair."""
    data = attribute(_INFO_DATA, attribute(_PEER, peer_head + peer))
    return head + mine + attribute(_ATTRIBUTE_LINKINFO, attribute(_INFO_KIND, "veth") + data)


def ask(ns: Namespace, what: str, kind: int, flags: int, body: bytes) -> None:
    """One request in a namespace. Raises ClusterError with ``what`` and the kernel's own words."""
    message = struct.pack("=IHHII", len(body) + 16, kind, flags, 1, 0) + body
    try:
        with ns.inside():
            sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        with sock:
            sock.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
            sock.sendto(message, (0, 0))  # the kernel works within this call: the answer is there when it returns
            answer = sock.recv(65536)
    except OSError as error:
        raise ClusterError(f"{ns.name}: {what}: {error.strerror}") from None
    length, kind, flags, _, _ = struct.unpack_from("=IHHII", answer)
    number = -struct.unpack_from("=i", answer, 16)[0] if kind == _ERROR else 0
    if number:
        words = _words(answer[:length], flags)
        raise ClusterError(f"{ns.name}: {what}: {os.strerror(number)}{words and f' ({words})'}")


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
