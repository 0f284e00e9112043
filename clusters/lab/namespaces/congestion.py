"""The congestion control of a namespace's connections, whatever the machine allows namespaces.

A namespace may have only a default that net.ipv4.tcp_allowed_congestion_control of the host
contains. A route may name any (``congctl``, ip-route(8)), and both ends of a connection take it
from theirs: no program has to ask for it, so that it holds for those that cannot (ab, nginx).
"""

from __future__ import annotations

import os
import socket
import struct

from cnibench.clusters.lab.namespaces import netlink
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError

DEFAULT = "cubic"  # of nearly every distribution
_SYSCTL = "/proc/sys/net/ipv4/tcp_congestion_control"
_AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"
_UNICAST, _LOCAL = 1, 2  # types of routes (rtnetlink(7))
_HEAD = struct.Struct("=8BI")
_METRICS, _CC_ALGO = 8, 16
# What makes a route what it is; what the kernel adds when it lists one (its cache's state) stays
# out: destination, source, device, gateway, priority, source address, multipath, table, via,
# preference, encapsulation.
_KEPT = frozenset({1, 2, 4, 5, 6, 7, 9, 15, 18, 20, 21, 22})
_ONLINK = 4


def available() -> frozenset[str]:
    """What this kernel has; modules that are not loaded are not among them."""
    with open(_AVAILABLE, encoding="ascii") as file:
        return frozenset(file.read().split())


def use(ns: Namespace, algorithm: str, *, local: bool = False) -> None:
    """All connections there that begin from now on use it. ``local``: those within the namespace,
    too.

    Raises ClusterError.
    """
    if _prefer(ns, algorithm):
        return
    for head, attributes in list(netlink.routes(ns)):
        family, kind = head[0], head[7]
        if kind != _UNICAST and not (local and kind == _LOCAL):
            continue
        metrics = dict(netlink.attributes(attributes.get(_METRICS, b"")))
        metrics[_CC_ALGO] = algorithm.encode() + b"\0"
        kept = {name: value for name, value in attributes.items() if name in _KEPT}
        plain = _HEAD.pack(*head[:8], head[8] & _ONLINK) + _encoded(kept)
        body = plain + netlink.attribute(_METRICS, _encoded(metrics))
        what = f"congestion control {algorithm} of a route"
        if kind == _LOCAL and family == socket.AF_INET6:
            # the kernel's own have the priority 0, which no request can name
            netlink.ask(ns, what, netlink.DELROUTE, netlink.CHANGE, plain)
            netlink.ask(ns, what, netlink.NEWROUTE, netlink.PUT, body)
        else:
            netlink.ask(ns, what, netlink.NEWROUTE, netlink.REPLACE, body)


def _prefer(ns: Namespace, algorithm: str) -> bool:
    """Makes it the default, if the host allows."""
    try:
        with ns.inside():
            fd = os.open(_SYSCTL, os.O_RDWR)
            try:
                os.write(fd, algorithm.encode())
                return os.pread(fd, 64, 0).decode().strip() == algorithm
            finally:
                os.close(fd)
    except PermissionError:
        return False
    except OSError as error:
        raise ClusterError(
            f"{ns.name}: the congestion control {algorithm} cannot be set: {error.strerror}",
            f"sudo modprobe tcp_{algorithm}, or ask for another with --congestion-control",
        ) from None


def _encoded(attributes: dict[int, bytes]) -> bytes:
    return b"".join(netlink.attribute(name, value) for name, value in attributes.items())
