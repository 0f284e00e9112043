"""The tables of packet filters that are older than nf_tables: legacy iptables and arptables."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from cnibench.errors import ClusterError

_NET = Path("/proc/thread-self/net")
_libc = ctypes.CDLL(None, use_errno=True)


class _Legacy(NamedTuple):
    """The tables of one older packet filter: the file that names those of this namespace, the
    protocol family, and how its structures are laid out (linux/netfilter_ipv4/ip_tables.h,
    linux/netfilter_arp/arp_tables.h).
    """

    names: str
    family: int
    level: int
    get_info: int  # the option; the next one gets the entries
    info: int  # size of what it gives; the size of the entries is at its end
    address: int  # bytes of an entry that say which packets it matches
    offsets: int  # where an entry says where its target and the next entry begin
    counters: int


_IP = "legacy ip", _Legacy("ip_tables_names", socket.AF_INET, 0, 64, 84, 84, 88, 96)
_IP6 = "legacy ip6", _Legacy("ip6_tables_names", socket.AF_INET6, 41, 64, 84, 136, 140, 152)
_ARP = "arptables", _Legacy("arp_tables_names", socket.AF_INET, 0, 96, 68, 164, 164, 176)


def tables() -> dict[str, list[str]]:
    """Each table of legacy iptables and arptables to its entries in order, in the kernel's form.

    To ask for a table makes it where the namespace has none, and packets would pass it from then
    on: only those that the kernel names are asked for. It does not name those of ebtables.
    """
    found: dict[str, list[str]] = {}
    for label, kind in (_IP, _IP6, _ARP):
        try:
            names = (_NET / kind.names).read_text(encoding="ascii").split()
        except OSError:
            continue
        for name in names:
            found[f"{label} {name}"] = _entries(kind, name)
    return found


def _entries(kind: _Legacy, table: str) -> list[str]:
    with socket.socket(kind.family, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        request = struct.pack("32s", table.encode()).ljust(kind.info, b"\0")
        info = _asked(sock, kind.level, kind.get_info, request)
        size = struct.unpack_from("=I", info, kind.info - 4)[0]
        head = struct.pack("=32sI4x", table.encode(), size)
        entries = _asked(sock, kind.level, kind.get_info + 1, head + bytes(size))[40:]
    found, at = [], 0
    while at < size:
        match_end, step = struct.unpack_from("=HH", entries, at + kind.offsets)
        if not step:
            raise ClusterError(f"the table {table} cannot be read ({kind.names})")
        address = entries[at : at + kind.address].hex()
        rest = entries[at + kind.counters + 16 : at + step]
        found.append(f"{address} {match_end} {sha256(rest).hexdigest()[:16]}")
        at += step
    return found


def _asked(sock: socket.socket, level: int, option: int, request: bytes) -> bytes:
    """getsockopt(2) with a request in its buffer. Raises ClusterError."""
    buffer = ctypes.create_string_buffer(request, len(request))
    size = ctypes.c_uint(len(request))
    if _libc.getsockopt(sock.fileno(), level, option, buffer, ctypes.byref(size)):
        number_ = ctypes.get_errno()
        raise ClusterError(
            f"legacy tables of packet filters cannot be read: {os.strerror(number_ or errno.EIO)}"
        )
    return buffer.raw
