"""Dumps of the calling thread's network namespace through netlink, and their attributes.

One socket for each dump, no process: a listing of a namespace takes about a millisecond.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping

from cnibench.errors import ClusterError

ROUTE, XFRM, NETFILTER, GENERIC = 0, 6, 12, 16
_CONTROL, _GETFAMILY, _FAMILY_ID, _FAMILY_NAME = 0x10, 3, 1, 2  # include/uapi/linux/genetlink.h
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE, _INTERRUPTED = 2, 3, 0x10
_TRIES = 5
_ABSENT = frozenset(
    (
        errno.ENOENT,
        errno.EINVAL,
        errno.EOPNOTSUPP,
        errno.EAFNOSUPPORT,
        errno.EPROTONOSUPPORT,
        errno.ENOPROTOOPT,
        errno.ENODEV,
    )
)
Attributes = list[tuple[int, bytes]]


def dump(protocol: int, kind: int, body: bytes) -> list[tuple[int, bytes]]:
    """(type, payload) of each message; [] where the kernel lacks what is asked for.

    Raises ClusterError.
    """
    return _asked(protocol, kind, body) or []


def answers(protocol: int, kind: int, body: bytes) -> bool:
    """Does the kernel know this request? Raises ClusterError.

    Of a request that it does not know the kernel asks modprobe each time: a process, and in an
    emulated guest half a second.
    """
    return _asked(protocol, kind, body) is not None


def family(name: str) -> int | None:
    """The type of that generic family's messages; None where the kernel does not have it.

    Raises ClusterError.
    """
    # All families: of one that is not there the kernel would load the module.
    request = struct.pack("=BBH", _GETFAMILY, 1, 0)
    for _, body in dump(GENERIC, _CONTROL, request):
        given = dict(attributes(body[4:]))
        if word(given.get(_FAMILY_NAME, b"")) == name:
            return number(given[_FAMILY_ID])
    return None


def _asked(protocol: int, kind: int, body: bytes) -> list[tuple[int, bytes]] | None:
    try:
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise ClusterError(f"netlink protocol {protocol}: {error.strerror}") from None
    with sock:
        sock.settimeout(5.0)
        try:
            for number in range(1, _TRIES + 1):
                found = _dumped(sock, kind, body, number)
                if found is not None:
                    return found
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise ClusterError(f"netlink dump {kind:#x}: {error.strerror or error}") from None
    raise ClusterError(f"netlink dump {kind:#x}: the objects changed during each of {_TRIES} tries")


def _dumped(
    sock: socket.socket, kind: int, body: bytes, number: int
) -> list[tuple[int, bytes]] | None:
    """One dump; None when the objects changed meanwhile (NLM_F_DUMP_INTR)."""
    sock.sendto(
        struct.pack("=IHHII", len(body) + 16, kind, _REQUEST | _DUMP, number, 0) + body, (0, 0)
    )
    found: list[tuple[int, bytes]] = []
    interrupted = False
    while True:
        data, at = sock.recv(1 << 18), 0
        while at + 16 <= len(data):
            length, what, flags, sequence, _ = struct.unpack_from("=IHHII", data, at)
            if sequence == number:
                interrupted |= bool(flags & _INTERRUPTED)
                if what in (_ERROR, _DONE):
                    code = struct.unpack_from("=i", data, at + 16)[0] if length >= 20 else 0
                    if code:
                        raise OSError(-code, os.strerror(-code))
                    return None if interrupted else found
                found.append((what, data[at + 16 : at + length]))
            at += (length + 3) & ~3


def attributes(data: bytes) -> Attributes:
    """(type without its flags, payload) of a sequence of attributes."""
    found: Attributes = []
    at, end = 0, len(data)
    while at + 4 <= end:
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        found.append((kind & 0x3FFF, data[at + 4 : at + length]))
        at += (length + 3) & ~3
    return found


def number(data: bytes) -> int:
    """An unsigned number in host order, of any size."""
    return int.from_bytes(data, "little" if struct.pack("=H", 1)[0] else "big")


def word(data: bytes) -> str:
    """A string that ends with 0."""
    return data.rstrip(b"\0").decode(errors="replace")


def address(data: bytes) -> str:
    """An IP address; hexadecimal when it is neither IPv4 nor IPv6."""
    return str(ipaddress.ip_address(data)) if len(data) in (4, 16) else data.hex()


def mac(data: bytes) -> str:
    """A MAC address, marked so that it can be replaced by the name of its device."""
    return f"mac={data.hex(':')}" if len(data) == 6 else f"address={data.hex()}"


def lines(
    prefix: str, found: Iterable[tuple[int, bytes]], names: Mapping[int, str], *, drop: object = ()
) -> Iterator[str]:
    """One line for each attribute of a device: number or hexadecimal, by the attribute's name."""
    dropped = drop if isinstance(drop, (tuple, frozenset)) else ()
    for kind, data in found:
        if kind not in dropped:
            value = str(number(data)) if len(data) in (1, 2, 4) else data.hex()
            yield f"{prefix}{names.get(kind, kind)} {value}"
