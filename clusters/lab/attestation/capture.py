"""What really goes over the wire: a packet socket on a node's end of it, and a pure reading of
frames down to the inner packet.
"""

from __future__ import annotations

import contextlib
import ipaddress
import mmap
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.errors import ClusterError

_ETH_P_ALL, _ETH_P_IP, _ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
# PACKET_OUTGOING: taken after segmentation (xmit_one in net/core/dev.c), so lengths are those of
# the wire
_OUTGOING = 4
# A ring that the kernel copies packets into at once (linux/if_packet.h). What waits in a socket's
# queue shares its bytes with the packet on
# its way, which the other node may rewrite before it is read: ILA's routes do.
_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION, _TPACKET_V2 = 263, 5, 6, 10, 1
_BLOCK, _BLOCKS, _FRAME = (
    1 << 16,
    128,
    512,
)  # bytes, number, bytes: 16384 packets, of each the first 256 bytes at least
_READY, _STATUS, _HEAD = (
    1,
    struct.Struct("=IIIHH"),
    32,
)  # TP_STATUS_USER; status, length, captured, where it begins; aligned tpacket2_hdr
_KIND = _HEAD + 10  # sll_pkttype of the sockaddr_ll that follows
_SNAP = 256
_VXLAN_PORTS = (4789, 8472, 6784)  # IANA's, Linux' own, Weave's
_SLEEVE_PORT, _SLEEVE_HEAD = (
    6783,
    6 + 12 + 2,
)  # Weave: names of the sender and of both peers, the frame's length
_GENEVE_PORT, _FLANNEL_UDP_PORT, _WIREGUARD_PORTS = 6081, 8285, (51820, 51821, 51871)


class Place(NamedTuple):
    """A device that is watched as a node's end of the wire is, which is called ``wire`` there."""

    ns: Namespace
    wire: str
    name: str


_taps: dict[LabNode | Place, Tap] = {}
KEYED = ("vxlan", "geneve")  # encapsulations in UDP with a key


@dataclass(frozen=True)
class Packet:
    """One packet on the wire: its encapsulation ('none' without one), the innermost addresses that
    can be read, its length in bytes.

    ``key`` is the VNI of a VXLAN or Geneve packet, -1 for others; ``checksum``: has the outer UDP
    header of such a packet one?
    """

    encapsulation: str
    source: str
    target: str
    length: int
    key: int = -1
    checksum: bool = False


_NONE = "no packet of it on the wire"


def encapsulation(packets: Sequence[Packet], wanted: str) -> tuple[str, str, bool]:
    """(what is expected of a connection's packets on the wire, what is observed, as expected?)."""
    counts = Counter(packet.encapsulation for packet in packets)
    observed = ", ".join(f"{count} packets {kind}" for kind, count in sorted(counts.items()))
    return f"all {wanted}", observed or _NONE, counts.keys() == {wanted}


def outer_checksum(packets: Sequence[Packet], wanted: bool) -> tuple[str, str, bool]:
    """(what is expected of the outer UDP checksum over IPv4, what is observed, as expected?); it
    decides which feature of a NIC helps.
    """
    with_one = sum(packet.checksum for packet in packets)
    observed = f"in {with_one} of {len(packets)} packets" if packets else _NONE
    return (
        "in all packets" if wanted else "in none",
        observed,
        bool(packets) and with_one == (len(packets) if wanted else 0),
    )


@dataclass
class Seen:
    """What left a node over the wire while it was watched."""

    packets: list[Packet] = field(default_factory=list)

    def between(self, one: str, other: str) -> list[Packet]:
        """The packets from one address to the other."""
        return [packet for packet in self.packets if (packet.source, packet.target) == (one, other)]


def read_frame(frame: bytes, length: int) -> Packet | None:
    """The packet in an Ethernet frame (its first 256 bytes are enough); None when it is not IP
    (ARP, say).
    """
    if len(frame) < 14:
        return None
    kind = struct.unpack_from("!H", frame, 12)[0]
    if kind not in (_ETH_P_IP, _ETH_P_IPV6):
        return None
    return _read_ip(frame[14:], length, "none")


def _read_ip(data: bytes, length: int, encapsulation: str) -> Packet | None:
    try:
        if data[0] >> 4 == 4:
            head, protocol = (data[0] & 15) * 4, data[9]
            source, target = (
                str(ipaddress.IPv4Address(data[12:16])),
                str(ipaddress.IPv4Address(data[16:20])),
            )
            fragment = struct.unpack_from("!H", data, 6)[0] & 0x1FFF
        else:
            head, protocol, fragment = 40, data[6], 0
            source, target = (
                str(ipaddress.IPv6Address(data[8:24])),
                str(ipaddress.IPv6Address(data[24:40])),
            )
        own = Packet(encapsulation, source, target, length)
        if encapsulation != "none" or fragment:
            return own
        rest = data[head:]
        if protocol in (4, 41):
            return _read_ip(rest, length, "ipip") or own
        if protocol == 50:
            return Packet("esp", "", "", length)
        if protocol == 17:
            return _read_udp(rest, length) or own
        return own
    except (IndexError, struct.error, ipaddress.AddressValueError):
        return None


def _read_udp(data: bytes, length: int) -> Packet | None:
    port = struct.unpack_from("!H", data, 2)[0]
    if port in _VXLAN_PORTS:
        return _with_key(_read_ip(data[8 + 8 + 14 :], length, "vxlan"), data)
    if port == _GENEVE_PORT:
        return _with_key(
            _read_ip(data[8 + 8 + (data[8] & 0x3F) * 4 + 14 :], length, "geneve"), data
        )
    if port == _FLANNEL_UDP_PORT:
        return _read_ip(data[8:], length, "udp")
    if port == _SLEEVE_PORT:
        return _read_ip(data[8 + _SLEEVE_HEAD + 14 :], length, "udp")
    if port in _WIREGUARD_PORTS:
        return Packet("wireguard", "", "", length)
    return None


def _with_key(packet: Packet | None, udp: bytes) -> Packet | None:
    # RFC 7348 and RFC 8926 have the key at the same place; a checksum of 0 is none (RFC 768).
    return packet and replace(
        packet, key=int.from_bytes(udp[12:15], "big"), checksum=udp[6:8] != b"\0\0"
    )


class Tap:
    """A packet socket on a node's end of the wire, open until it is closed: to open and to close
    one takes longer than a probe.
    """

    def __init__(self, where: AbstractContextManager[None], device: str, name: str) -> None:
        """On a device of the namespace that ``where`` leads to; ``name`` is its node's."""
        self._name = name
        self._size = _BLOCK * _BLOCKS
        self._frames = self._size // _FRAME
        self._next = 0  # frame of the ring that the kernel fills next
        with where:
            self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self._sock.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
            self._sock.setsockopt(
                _SOL_PACKET,
                _PACKET_RX_RING,
                struct.pack("=4I", _BLOCK, _BLOCKS, _FRAME, self._frames),
            )
            self._ring = mmap.mmap(self._sock.fileno(), self._size)
            self._sock.bind((device, _ETH_P_ALL))
        except BaseException:
            self._sock.close()
            raise

    def packets(self) -> list[Packet]:
        """What has left the node since the last call. A packet is here before it is on the wire.
        Raises ClusterError when more went by than the ring has room for.
        """
        found = []
        for _ in range(self._frames):
            start = self._next * _FRAME
            status, length, captured, begin, _ = _STATUS.unpack_from(self._ring, start)
            if not status & _READY:
                break
            if self._ring[start + _KIND] == _OUTGOING:
                frame = self._ring[start + begin : start + begin + min(captured, _SNAP)]
                if packet := read_frame(frame, length):
                    found.append(packet)
            self._ring[start : start + 4] = bytes(4)  # TP_STATUS_KERNEL: it is free again
            self._next = (self._next + 1) % self._frames
        counted = self._sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        if lost := struct.unpack("=II", counted)[1]:
            raise ClusterError(f"{lost} packets on the wire of node {self._name} were not seen")
        return found

    def close(self) -> None:
        self._ring.close()
        self._sock.close()


@contextlib.contextmanager
def tapped(nodes: Iterable[LabNode | Place]) -> Iterator[None]:
    """One tap on each node for all ``watching`` in the block."""
    with contextlib.ExitStack() as stack:
        for node in nodes:
            tap = _taps[node] = Tap(node.ns.inside(), node.wire, node.name)
            stack.callback(tap.close)
            stack.callback(_taps.pop, node)
        yield


@contextlib.contextmanager
def watching(node: LabNode | Place) -> Iterator[Seen]:
    """Collects what leaves ``node`` over the wire; complete when the block is left. Meant for
    probes of some hundred packets.

    Raises ClusterError when more went by than it could take.
    """
    if node not in _taps:
        with tapped([node]), watching(node) as seen:
            yield seen
        return
    seen = Seen()
    _taps[node].packets()  # of what came before
    yield seen
    seen.packets += _taps[node].packets()
