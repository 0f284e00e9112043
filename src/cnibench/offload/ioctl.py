"""The older interface (SIOCETHTOOL, include/uapi/linux/ethtool.h): driver and queues, and features
where netlink has none (before 5.8).
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

from cnibench.offload.nic import Feature

_SIOCETHTOOL = 0x8946
_GDRVINFO, _GRXFH, _GRXRINGS, _GSTRINGS, _GSSET_INFO, _GFEATURES = (
    0x03,
    0x29,
    0x2D,
    0x1B,
    0x37,
    0x3A,
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


def udp_hash(device: str) -> str:
    """What of an IPv4 UDP packet chooses its queue: letters as ``ethtool -N rx-flow-hash`` has
    them. Raises OSError.
    """
    answer = _ask(device, struct.pack("IIQ", _GRXFH, _UDP_V4_FLOW, 0) + bytes(_RXNFC - 16))
    bits = struct.unpack_from("Q", answer, 8)[0]
    return "".join(letter for bit, letter in _HASHED if bits & bit)


def features(device: str) -> dict[str, Feature]:
    """Feature name to its state. Raises OSError."""
    count = struct.unpack_from(
        "I", _ask(device, struct.pack("IIQI", _GSSET_INFO, 0, 1 << _SS_FEATURES, 0)), 16
    )[0]
    strings = _ask(
        device, struct.pack("III", _GSTRINGS, _SS_FEATURES, count) + bytes(_NAME * count)
    )
    names = [
        strings[12 + _NAME * bit : 12 + _NAME * (bit + 1)].split(b"\0")[0].decode(errors="replace")
        for bit in range(count)
    ]
    blocks = (count + 31) // 32
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


def _ask(device: str, request: bytes) -> bytes:
    """One ioctl in the calling thread's network namespace."""
    buffer = array.array("B", request)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(
            sock, _SIOCETHTOOL, struct.pack("16sP", device.encode(), buffer.buffer_info()[0])
        )
    return buffer.tobytes()
