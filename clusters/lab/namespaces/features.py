"""Offload features of a device by the kernel's own names, through the ethtool ioctl
(include/uapi/linux/ethtool.h).
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Mapping
from functools import cache

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSSET_INFO, _GFEATURES, _SFEATURES, _GCHANNELS = 0x1B, 0x37, 0x3A, 0x3B, 0x3C
_SS_FEATURES = 4
_NAME = 32  # ETH_GSTRING_LEN
NO_CHECKSUM_OFFLOAD: Mapping[
    str, bool
] = {  # `ethtool -K DEVICE tx off`: segmentation goes with the checksum
    "tx-checksum-ip-generic": False,
    "tx-tcp-segmentation": False,
    "tx-tcp6-segmentation": False,
    "tx-tcp-ecn-segmentation": False,
}


def _ethtool(device: str, request: bytes) -> bytes:
    """One ioctl in the current namespace. Raises OSError."""
    buffer = array.array("B", request)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(
            sock, _SIOCETHTOOL, struct.pack("16sP", device.encode(), buffer.buffer_info()[0])
        )
    return buffer.tobytes()


@cache
def _names() -> tuple[str, ...]:
    """All features that this kernel knows, in the order of their bits; the same for all devices."""
    answer = _ethtool("lo", struct.pack("IIQI", _GSSET_INFO, 0, 1 << _SS_FEATURES, 0))
    count = struct.unpack_from("I", answer, 16)[0]
    answer = _ethtool(
        "lo", struct.pack("III", _GSTRINGS, _SS_FEATURES, count) + bytes(_NAME * count)
    )
    return tuple(
        answer[12 + _NAME * i : 12 + _NAME * (i + 1)].split(b"\0")[0].decode() for i in range(count)
    )


def read(ns: Namespace, device: str) -> dict[str, bool]:
    """Feature name to whether it is active. Raises ClusterError."""
    try:
        with ns.inside():
            return active(device)
    except OSError as error:
        raise ClusterError(f"{ns.name}: the features of {device} cannot be read: {error}") from None


def active(device: str) -> dict[str, bool]:
    """The same of a device of the calling thread's namespace. Raises OSError."""
    names = _names()
    blocks = (len(names) + 31) // 32
    answer = _ethtool(device, struct.pack("II", _GFEATURES, blocks) + bytes(16 * blocks))
    words = [
        struct.unpack_from("4I", answer, 8 + 16 * block)[2] for block in range(blocks)
    ]  # available, requested, active, never changed
    return {
        name: bool(words[bit // 32] >> (bit % 32) & 1) for bit, name in enumerate(names) if name
    }


def channels(device: str) -> str:
    """The numbers of channels (receive, send, other, combined) of a device of the calling thread's
    namespace; '' where it has none to choose.
    """
    try:
        answer = _ethtool(device, struct.pack("I", _GCHANNELS) + bytes(32))
    except OSError:
        return ""
    return " ".join(map(str, struct.unpack_from("4I", answer, 20)))


def write(ns: Namespace, device: str, wanted: Mapping[str, bool]) -> None:
    """Sets features; those that this kernel does not know count as off. Raises ClusterError when
    one does not become what was asked.
    """
    try:
        with ns.inside():
            names = _names()
            blocks = (len(names) + 31) // 32
            valid, requested = [0] * blocks, [0] * blocks
            for bit, name in enumerate(names):
                if name in wanted:
                    valid[bit // 32] |= 1 << (bit % 32)
                    requested[bit // 32] |= int(wanted[name]) << (bit % 32)
            words = b"".join(struct.pack("II", v, r) for v, r in zip(valid, requested, strict=True))
            _ethtool(device, struct.pack("II", _SFEATURES, blocks) + words)
    except OSError as error:
        raise ClusterError(f"{ns.name}: the features of {device} cannot be set: {error}") from None
    now = read(ns, device)
    wrong = [
        f"{name} stays {'off' if on else 'on'}"
        for name, on in wanted.items()
        if now.get(name, False) != on
    ]
    if wrong:
        raise ClusterError(f"{ns.name}: {device}: {', '.join(wrong)}")
