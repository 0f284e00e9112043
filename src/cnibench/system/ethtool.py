"""What drivers tell of network devices, and the features that they are set to, of the calling
thread's network namespace.

By the ioctl SIOCETHTOOL (include/uapi/linux/ethtool.h), which every kernel has; the ports of
tunnels by the netlink family ``ethtool`` (include/uapi/linux/ethtool_netlink.h,
Documentation/networking/ethtool-netlink.rst, include/uapi/linux/genetlink.h), which alone has them.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

_SIOCETHTOOL = 0x8946
_GDRVINFO, _GRXFH, _GRXRINGS, _GSTRINGS, _GSSET_INFO, _GFEATURES, _SFEATURES, _GCHANNELS = (
    0x03,
    0x29,
    0x2D,
    0x1B,
    0x37,
    0x3A,
    0x3B,
    0x3C,
)
_SS_FEATURES, _NAME = 4, 32
_UDP_V4_FLOW = 2
_HASHED = (
    (1 << 4, "s"),
    (1 << 5, "d"),
    (1 << 6, "f"),
    (1 << 7, "n"),
)  # RXH_IP_SRC, RXH_IP_DST, RXH_L4_B_0_1, RXH_L4_B_2_3
_RXNFC = 192  # sizeof(struct ethtool_rxnfc)

_NETLINK_GENERIC, _GENL_ID_CTRL = 16, 16
_REQUEST, _ERROR, _DONE = 1, 2, 3
_CTRL_GETFAMILY, _ATTR_FAMILY_ID, _ATTR_FAMILY_NAME = 3, 1, 2
_TUNNEL_INFO_GET = 28
_NESTED, _TYPE = 0x8000, 0x3FFF
_HEADER, _HEADER_NAME = 1, 2
_UDP_PORTS, _TABLE, _ENTRY, _ENTRY_PORT, _ENTRY_TYPE = 2, 1, 3, 1, 2
_TUNNELS = ("vxlan", "geneve", "vxlan-gpe")  # ETHTOOL_UDP_TUNNEL_TYPE_*
_TIMEOUT = 5.0  # s


@dataclass(frozen=True)
class Feature:
    """One bit of netdev_features_t: ``on`` now; ``fixed``: nobody can change it; ``wanted``: it was
    asked for.
    """

    on: bool
    fixed: bool = False
    wanted: bool = False


def driver(device: str) -> tuple[str, str, str, str]:
    """(driver, its version, firmware, bus address). Raises OSError: EOPNOTSUPP when the device
    answers no ethtool at all.
    """
    answer = _ask(device, struct.pack("I", _GDRVINFO) + bytes(192))
    texts = [
        answer[4 + 32 * part : 36 + 32 * part].split(b"\0")[0].decode(errors="replace")
        for part in range(4)
    ]
    return texts[0], texts[1], texts[2], texts[3]


def queues(device: str) -> int:
    """Receive queues that flows are spread over. Raises OSError."""
    answer = _ask(device, struct.pack("IIQ", _GRXRINGS, 0, 0) + bytes(_RXNFC - 16))
    return int(struct.unpack_from("Q", answer, 8)[0])


def channels(device: str) -> tuple[int, int, int, int]:
    """Channels in use: (receive, send, other, combined). Raises OSError: EOPNOTSUPP when there are
    none to choose.
    """
    answer = _ask(device, struct.pack("I", _GCHANNELS) + bytes(32))
    return struct.unpack_from("4I", answer, 20)


def udp_hash(device: str) -> str:
    """What of an IPv4 UDP packet chooses its queue: letters as ``ethtool -N rx-flow-hash`` has
    them. Raises OSError.
    """
    answer = _ask(device, struct.pack("IIQ", _GRXFH, _UDP_V4_FLOW, 0) + bytes(_RXNFC - 16))
    bits = struct.unpack_from("Q", answer, 8)[0]
    return "".join(letter for bit, letter in _HASHED if bits & bit)


def features(device: str) -> dict[str, Feature]:
    """Feature name, as the kernel has it, to its state. Raises OSError."""
    names = _feature_names()
    blocks = (len(names) + 31) // 32
    answer = _ask(device, struct.pack("II", _GFEATURES, blocks) + bytes(16 * blocks))
    found = {}
    for bit, name in enumerate(names):
        if name:
            # struct ethtool_get_features_block: available, requested, active, never_changed
            available, wanted, active, never = (
                bool(word >> (bit % 32) & 1)
                for word in struct.unpack_from("4I", answer, 8 + 16 * (bit // 32))
            )
            found[name] = Feature(on=active, fixed=not available or never, wanted=wanted)
    return found


def set_features(device: str, wanted: Mapping[str, bool]) -> None:
    """Asks for features; those that the kernel does not know are left out. What became of it says
    ``features``. Raises OSError.
    """
    names = _feature_names()
    blocks = (len(names) + 31) // 32
    valid, requested = [0] * blocks, [0] * blocks
    for bit, name in enumerate(names):
        if name in wanted:
            valid[bit // 32] |= 1 << (bit % 32)
            requested[bit // 32] |= int(wanted[name]) << (bit % 32)
    words = b"".join(struct.pack("II", v, r) for v, r in zip(valid, requested, strict=True))
    _ask(device, struct.pack("II", _SFEATURES, blocks) + words)


@cache
def _feature_names() -> tuple[str, ...]:
    """All features that this kernel knows, in the order of their bits; the same for all devices.
    Raises OSError.
    """
    answer = _ask("lo", struct.pack("IIQI", _GSSET_INFO, 0, 1 << _SS_FEATURES, 0))
    count = struct.unpack_from("I", answer, 16)[0]
    strings = _ask("lo", struct.pack("III", _GSTRINGS, _SS_FEATURES, count) + bytes(_NAME * count))
    return tuple(
        strings[12 + _NAME * bit : 12 + _NAME * (bit + 1)].split(b"\0")[0].decode(errors="replace")
        for bit in range(count)
    )


def tunnel_ports(device: str) -> tuple[tuple[str, int], ...]:
    """(tunnel type, UDP port) pairs that the device knows. Raises OSError: EOPNOTSUPP when its
    driver has no such table.
    """
    found = []
    for ports in _ask_netlink(device, _TUNNEL_INFO_GET).get(_UDP_PORTS, []):
        for table in _attributes(ports).get(_TABLE, []):
            for entry in _attributes(table).get(_ENTRY, []):
                parts = _attributes(entry)
                number = struct.unpack("=I", parts[_ENTRY_TYPE][0][:4])[0]
                kind = _TUNNELS[number] if number < len(_TUNNELS) else str(number)
                found.append((kind, struct.unpack("!H", parts[_ENTRY_PORT][0][:2])[0]))
    return tuple(sorted(found))


def _ask(device: str, request: bytes) -> bytes:
    """One ioctl in the calling thread's network namespace."""
    buffer = array.array("B", request)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(
            sock, _SIOCETHTOOL, struct.pack("16sP", device.encode(), buffer.buffer_info()[0])
        )
    return buffer.tobytes()


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


def _ask_netlink(device: str, command: int) -> dict[int, list[bytes]]:
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
