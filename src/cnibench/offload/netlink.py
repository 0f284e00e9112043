"""The two requests of the ethtool netlink family that are needed: FEATURES_GET and TUNNEL_INFO_GET.

Numbers and layouts: include/uapi/linux/ethtool_netlink.h,
Documentation/networking/ethtool-netlink.rst; generic netlink: include/uapi/linux/genetlink.h. Works
in the calling thread's network namespace.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping

from cnibench.offload.nic import Feature

_NETLINK_GENERIC, _GENL_ID_CTRL = 16, 16
_REQUEST, _ERROR, _DONE = 1, 2, 3
_CTRL_GETFAMILY, _ATTR_FAMILY_ID, _ATTR_FAMILY_NAME = 3, 1, 2
_FEATURES_GET, _TUNNEL_INFO_GET = 11, 28
_NESTED, _TYPE = 0x8000, 0x3FFF
_HEADER, _HEADER_NAME = 1, 2
_HW, _WANTED, _ACTIVE, _NOCHANGE = 2, 3, 4, 5
_BITSET_BITS, _BITS_BIT, _BIT_NAME, _BIT_VALUE, _BITSET_NOMASK = 3, 1, 2, 3, 1
_UDP_PORTS, _TABLE, _ENTRY, _ENTRY_PORT, _ENTRY_TYPE = 2, 1, 3, 1, 2
_TUNNELS = ("vxlan", "geneve", "vxlan-gpe")  # ETHTOOL_UDP_TUNNEL_TYPE_*
_TIMEOUT = 5.0  # s


def features(device: str) -> dict[str, Feature]:
    """Feature name to its state. Raises OSError: EOPNOTSUPP and ENODEV among others."""
    answer = _ask(device, _FEATURES_GET)
    sets = {kind: _names(answer.get(kind, [b""])[0]) for kind in (_HW, _WANTED, _ACTIVE, _NOCHANGE)}
    every = _every(answer)
    return {
        name: Feature(
            on=name in sets[_ACTIVE],
            fixed=name not in sets[_HW] or name in sets[_NOCHANGE],
            wanted=name in sets[_WANTED],
        )
        for name in every
        if name
    }


def tunnel_ports(device: str) -> tuple[tuple[str, int], ...]:
    """(tunnel type, UDP port) pairs that the device knows. Raises OSError: EOPNOTSUPP when its
    driver has no such table.
    """
    found = []
    for ports in _ask(device, _TUNNEL_INFO_GET).get(_UDP_PORTS, []):
        for table in _attributes(ports).get(_TABLE, []):
            for entry in _attributes(table).get(_ENTRY, []):
                parts = _attributes(entry)
                number = struct.unpack("=I", parts[_ENTRY_TYPE][0][:4])[0]
                kind = _TUNNELS[number] if number < len(_TUNNELS) else str(number)
                found.append((kind, struct.unpack("!H", parts[_ENTRY_PORT][0][:2])[0]))
    return tuple(sorted(found))


def _every(answer: Mapping[int, list[bytes]]) -> list[str]:
    """All names of the kernel: those of the set that is sent with values for each bit, else all
    that any set mentions.
    """
    names: dict[str, None] = {}
    for kind in (_HW, _WANTED, _ACTIVE, _NOCHANGE):
        for payload in answer.get(kind, []):
            names.update(dict.fromkeys(_listed(payload)))
    return list(names)


def _listed(bitset: bytes) -> dict[str, bool]:
    """Bit name to value. With NOMASK a bit that is listed is set, else the VALUE flag says so."""
    parts = _attributes(bitset)
    listed = _BITSET_NOMASK in parts
    found = {}
    for bits in parts.get(_BITSET_BITS, []):
        for bit in _attributes(bits).get(_BITS_BIT, []):
            inner = _attributes(bit)
            if _BIT_NAME in inner:
                found[inner[_BIT_NAME][0].split(b"\0")[0].decode(errors="replace")] = (
                    listed or _BIT_VALUE in inner
                )
    return found


def _names(bitset: bytes) -> set[str]:
    return {name for name, on in _listed(bitset).items() if on}


def _attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", len(payload) + 4, kind) + payload + bytes(-len(payload) % 4)


def _attributes(data: bytes) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    at = 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4 or at + size > len(data):
            break
        found.setdefault(kind & _TYPE, []).append(data[at + 4 : at + size])
        at += (size + 3) & ~3
    return found


def _ask(device: str, command: int) -> dict[int, list[bytes]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as sock:
        sock.settimeout(_TIMEOUT)
        sock.bind((0, 0))
        name = _attribute(_ATTR_FAMILY_NAME, b"ethtool\0")
        family = _one(sock, _GENL_ID_CTRL, _CTRL_GETFAMILY, 1, name)[_ATTR_FAMILY_ID][0]
        head = _attribute(_HEADER | _NESTED, _attribute(_HEADER_NAME, device.encode() + b"\0"))
        return _one(sock, struct.unpack("=H", family[:2])[0], command, 1, head)


def _one(
    sock: socket.socket, family: int, command: int, version: int, body: bytes
) -> dict[int, list[bytes]]:
    """One request and its one answer."""
    payload = struct.pack("=BBH", command, version, 0) + body
    sock.send(struct.pack("=IHHII", len(payload) + 16, family, _REQUEST, 1, 0) + payload)
    for kind, message in _messages(sock.recv(1 << 18)):
        if kind == _ERROR:
            number = -struct.unpack_from("=i", message)[0]
            raise OSError(number, os.strerror(number))
        if kind == family:
            return _attributes(message[4:])
    raise OSError("the kernel sent no answer")


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 16 <= len(data):
        size, kind = struct.unpack_from("=IH", data, at)
        if size < 16 or kind == _DONE:
            return
        yield kind, data[at + 16 : at + size]
        at += (size + 3) & ~3
