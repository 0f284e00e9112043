"""Reading frames down to the inner packet."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.clusters.lab.attestation.capture import Packet, Seen, outer_checksum, read_frame

A, B, NODE_A, NODE_B = "10.244.0.2", "10.244.1.2", "192.168.100.1", "192.168.100.2"


def ip(source: str, target: str, protocol: int, payload: bytes = b"", fragment: int = 0) -> bytes:
    one, other = ipaddress.ip_address(source), ipaddress.ip_address(target)
    if one.version == 4:
        return (
            struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, fragment, 64, protocol, 0)
            + one.packed
            + other.packed
            + payload
        )
    return (
        struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64)
        + one.packed
        + other.packed
        + payload
    )


def ethernet(packet: bytes) -> bytes:
    return bytes(12) + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


def udp(port: int, payload: bytes) -> bytes:
    return struct.pack("!HHHH", 40000, port, 8 + len(payload), 0) + payload


def vxlan(number: int, packet: bytes) -> bytes:
    return struct.pack("!BxxxI", 8, number << 8) + ethernet(packet)


INNER = ip(A, B, 6, bytes(20))
INNER6 = ip("fd00:10:244::2", "fd00:10:244:1::2", 6, bytes(20))


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (INNER, ("none", A, B)),
        (INNER6, ("none", "fd00:10:244::2", "fd00:10:244:1::2")),
        (ip(NODE_A, NODE_B, 17, udp(8472, vxlan(1, INNER))), ("vxlan", A, B)),
        (
            ip(NODE_A, NODE_B, 17, udp(4789, vxlan(4096, INNER6))),
            ("vxlan", "fd00:10:244::2", "fd00:10:244:1::2"),
        ),
        (ip(NODE_A, NODE_B, 4, INNER), ("ipip", A, B)),
        (ip(NODE_A, NODE_B, 41, INNER6), ("ipip", "fd00:10:244::2", "fd00:10:244:1::2")),
        (
            ip(
                NODE_A,
                NODE_B,
                17,
                udp(6081, struct.pack("!BBHI", 1, 0, 0x6558, 5 << 8) + bytes(4) + ethernet(INNER)),
            ),
            ("geneve", A, B),
        ),
        (ip(NODE_A, NODE_B, 17, udp(8285, INNER)), ("udp", A, B)),
        (ip(NODE_A, NODE_B, 17, udp(51820, bytes(60))), ("wireguard", "", "")),
        (ip(NODE_A, NODE_B, 17, udp(5201, bytes(60))), ("none", NODE_A, NODE_B)),
        (ip(NODE_A, NODE_B, 17, bytes(8), fragment=100), ("none", NODE_A, NODE_B)),
    ],
)
def test_each_encapsulation_is_read_down_to_the_inner_addresses(
    packet: bytes, expected: tuple[str, str, str]
) -> None:
    read = read_frame(ethernet(packet), 9000)
    assert read is not None
    assert (read.encapsulation, read.source, read.target) == expected
    assert read.length == 9000


@pytest.mark.parametrize(("checksum", "there"), [(0, False), (0xBEEF, True), (0xFF00, True)])
def test_the_outer_checksum_is_seen(checksum: int, there: bool) -> None:
    datagram = udp(8472, vxlan(1, INNER))
    read = read_frame(
        ethernet(ip(NODE_A, NODE_B, 17, datagram[:6] + struct.pack("!H", checksum) + datagram[8:])),
        100,
    )
    assert read is not None
    assert read.checksum is there
    other = replace(read, checksum=not there)
    assert outer_checksum([read, read], there)[1:] == (f"in {2 * there} of 2 packets", True)
    assert outer_checksum([read, other], True)[1:] == ("in 1 of 2 packets", False)
    assert outer_checksum([read, other], False)[2] is False
    assert outer_checksum([], False)[2] is False


def test_what_is_not_ip_is_nothing() -> None:
    assert read_frame(bytes(12) + b"\x08\x06" + bytes(28), 42) is None
    assert read_frame(b"", 0) is None


def test_between_takes_one_direction() -> None:
    there, back = Packet("none", A, B, 60), Packet("none", B, A, 60)
    assert Seen([there, back]).between(A, B) == [there]


@given(st.binary(max_size=256), st.sampled_from([b"\x08\x00", b"\x86\xdd", b""]))
def test_no_frame_is_too_broken(data: bytes, kind: bytes) -> None:
    read_frame(bytes(12) + kind + data, len(data))
