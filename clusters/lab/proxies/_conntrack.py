"""Translations that the kernel's connection tracking knows, of the calling thread's namespace."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from typing import NamedTuple

from cnibench.listing.dumps import NETFILTER, attributes, dump

_GET = 1 << 8 | 1  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET
_AF = {4: 2, 6: 10}
_ORIGINAL, _REPLY = 1, 2  # CTA_TUPLE_ORIG, CTA_TUPLE_REPLY
_IP, _PROTOCOL = 1, 2
_SOURCES, _TARGETS = (1, 3), (2, 4)  # CTA_IP_V4_SRC, CTA_IP_V6_SRC; ..._DST
_SOURCE_PORT, _TARGET_PORT = 2, 3


class Translation(NamedTuple):
    """Where a connection was opened to, and who answers it."""

    target: str
    port: int
    answered_by: str
    answering_port: int


def translations(family: int) -> Iterator[Translation]:
    """Of all connections whose target was translated. Raises ClusterError."""
    for _, body in dump(NETFILTER, _GET, struct.pack("=BBH", _AF[family], 0, 0)):
        given = dict(attributes(body[4:]))
        if _ORIGINAL in given and _REPLY in given:
            target = _end(given[_ORIGINAL], _TARGETS, _TARGET_PORT)
            answer = _end(given[_REPLY], _SOURCES, _SOURCE_PORT)
            if target != answer:
                yield Translation(*target, *answer)


def _end(data: bytes, addresses: tuple[int, int], port: int) -> tuple[str, int]:
    parts = dict(attributes(data))
    ip = dict(attributes(parts.get(_IP, b"")))
    transport = dict(attributes(parts.get(_PROTOCOL, b"")))
    address = next((ip[kind] for kind in addresses if kind in ip), bytes(4))
    return str(ipaddress.ip_address(address)), int.from_bytes(transport.get(port, b""), "big")
