"""The kernel's virtual servers (IPVS), of the calling thread's namespace, from
/proc/net/ip_vs as net/netfilter/ipvs/ip_vs_ctl.c prints it.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FILE = Path("/proc/thread-self/net/ip_vs")
_PROTOCOLS = ("TCP", "UDP", "SCTP")


class VirtualServer(NamedTuple):
    """``targets`` are the real servers: address, port, how packets reach them, weight."""

    protocol: str
    address: str
    port: int
    options: str  # scheduler and flags
    targets: tuple[tuple[str, int, str, int], ...] = ()


def virtual_servers() -> list[VirtualServer]:
    """All of them; none where the kernel has no IPVS."""
    with contextlib.suppress(FileNotFoundError):
        return list(parsed(_FILE.read_text()))
    return []


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


def parsed(text: str) -> Iterator[VirtualServer]:
    """``TCP  0A600001:01BB rr``, ``TCP  [fd00:0010:...]:01BB rr``, each followed by its real
    servers: ``  -> C0A86401:192B      Masq    1      0          0``.
    """
    server: VirtualServer | None = None
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["->"]:
            if server is not None:
                address, port = _parsed_end(words[1])
                target = (address, port, words[2], int(words[3]))
                server = server._replace(targets=(*server.targets, target))
            continue
        if server is not None:
            yield server
        server = None
        if words[:1] and words[0] in _PROTOCOLS:  # not one of a firewall mark
            server = VirtualServer(words[0].lower(), *_parsed_end(words[1]), " ".join(words[2:]))
    if server is not None:
        yield server


def _parsed_end(word: str) -> tuple[str, int]:
    host, _, port = word.rpartition(":")
    if host.startswith("["):
        return str(ipaddress.IPv6Address(host[1:-1])), int(port, 16)
    return str(ipaddress.IPv4Address(int(host, 16))), int(port, 16)


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
