"""The kernel's virtual servers (IPVS) of the calling thread's network namespace, by netlink
(include/uapi/linux/ip_vs.h). As a program it answers each line of JSON ``{number}`` with their
addresses.

/proc/net/ip_vs tells only whether there are any: Linux 6.1 may leave some out of it if it is longer
than a page.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cnibench.errors import ClusterError, CnibenchError, as_data
from cnibench.listing.dumps import GENERIC, address, attributes, dump, family, number, word

MODULES = ("errors", "listing.dumps", "listing.virtual_servers")
_FILE = Path("/proc/thread-self/net/ip_vs")
_PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}
_GET_SERVICE, _GET_DEST = 4, 8
_SERVICE, _DEST = 1, 2
_AF, _PROTOCOL, _ADDR, _PORT, _FWMARK, _SCHED_NAME, _FLAGS, _TIMEOUT = 1, 2, 3, 4, 5, 6, 7, 8
_NAMED = (_AF, _PROTOCOL, _ADDR, _PORT)  # what a request names a virtual server by
_DEST_ADDR, _DEST_PORT, _DEST_METHOD, _DEST_WEIGHT, _DEST_FAMILY = 1, 2, 3, 4, 11
_PERSISTENT, _ONE_PACKET = 0x1, 0x4
_METHODS = ("Masq", "Local", "Tunnel", "Route", "Bypass")
_NESTED = 0x8000
_SIZES = {2: 4, 10: 16}  # bytes of an address of AF_INET and AF_INET6


class VirtualServer(NamedTuple):
    """``targets`` are the real servers: address, port, how packets reach them, weight."""

    protocol: str
    address: str
    port: int
    options: str  # scheduler and flags
    targets: tuple[tuple[str, int, str, int], ...] = ()


def virtual_servers(targets: bool = True) -> list[VirtualServer]:
    """All of them but those of firewall marks, with their real servers only if ``targets``; none
    where the kernel has no IPVS. Raises ClusterError, also when the thread lacks CAP_NET_ADMIN.
    """
    try:
        with _FILE.open() as file:
            if not any(line.split()[0] in ("TCP", "UDP", "SCTP") for line in file if line.strip()):
                return []
    except FileNotFoundError:
        return []
    kind = family("IPVS")
    if kind is None:
        raise ClusterError("the kernel has virtual servers and does not tell them by netlink")
    header = struct.pack("=BBH", _GET_SERVICE, 1, 0)
    found = []
    for _, body in dump(GENERIC, kind, header):
        given = _inside(body, _SERVICE)
        if _FWMARK not in given:
            found.append(_server(given, tuple(_targets(kind, given)) if targets else ()))
    return found


def lines() -> list[str]:
    """One line for each virtual server, without what counts."""
    found = []
    for one in virtual_servers():
        targets = " ".join(
            f"{_end(address, port)} {way} weight {weight}"
            for address, port, way, weight in sorted(one.targets)
        )
        found.append(
            f"{one.protocol} {_end(one.address, one.port)} {one.options} -> {targets}".rstrip()
        )
    return sorted(found)


def _inside(body: bytes, kind: int) -> dict[int, bytes]:
    """The attributes of the one that a message is about."""
    return dict(attributes(dict(attributes(body[4:])).get(kind, b"")))


def _server(
    given: Mapping[int, bytes], targets: tuple[tuple[str, int, str, int], ...]
) -> VirtualServer:
    protocol = number(given[_PROTOCOL])
    flags = number(given[_FLAGS][:4])
    options = word(given[_SCHED_NAME])
    if flags & _PERSISTENT:
        options += f" persistent {number(given[_TIMEOUT])}"
    if flags & _ONE_PACKET:
        options += " ops"
    return VirtualServer(
        _PROTOCOLS.get(protocol, str(protocol)),
        _address(given[_ADDR], given[_AF]),
        int.from_bytes(given[_PORT], "big"),
        options,
        targets,
    )


def _targets(kind: int, server: Mapping[int, bytes]) -> Iterator[tuple[str, int, str, int]]:
    name = b"".join(_attribute(one, server[one]) for one in _NAMED)
    request = struct.pack("=BBH", _GET_DEST, 1, 0) + _attribute(_SERVICE | _NESTED, name)
    for _, body in dump(GENERIC, kind, request):
        given = _inside(body, _DEST)
        method = number(given[_DEST_METHOD]) & 7
        yield (
            _address(given[_DEST_ADDR], given.get(_DEST_FAMILY, server[_AF])),
            int.from_bytes(given[_DEST_PORT], "big"),
            _METHODS[method] if method < len(_METHODS) else str(method),
            number(given[_DEST_WEIGHT]),
        )


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def _address(data: bytes, af: bytes) -> str:
    return address(data[: _SIZES[number(af)]])


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def main() -> None:
    """Until its input ends."""
    for line in sys.stdin:
        answer: Mapping[str, object]
        try:
            answer = {"addresses": sorted({one.address for one in virtual_servers(targets=False)})}
        except CnibenchError as error:
            answer = as_data(error)
        print(json.dumps({**answer, "number": json.loads(line)["number"]}), flush=True)


if __name__ == "__main__":
    main()
