"""The trace of iptables-legacy on a node: nf_log's lines of this network namespace, in a file while
the block lasts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cnibench.errors import ClusterError, LimitError, MeasureError
from cnibench.system.process import Process
from cnibench.testbed.place import Node
from cnibench.workloads import _common

LIMIT = 30.0  # s
_NAMES = {4: "/proc/net/ip_tables_names", 6: "/proc/net/ip6_tables_names"}
_LOGGER = {4: 2, 6: 10}  # AF_INET, AF_INET6
_QUIET = 0.5  # s without a new byte after everything was handed over
_NETFILTER = "12"  # NETLINK_NETFILTER


def tables(node: Node, ip: int) -> list[str]:
    """The node's tables of the older iptables; none where the kernel has none of it."""
    try:
        return node.read_text(_NAMES[ip]).split()
    except ClusterError:
        return []


@contextmanager
def capturing(node: Node, ip: int, capture: Path, errors: Path) -> Iterator[Process]:
    """nf_log's lines go to ``capture`` until the block is left. Raises ClusterError, MeasureError,
    LimitError.
    """
    name = f"net/netfilter/nf_log/{_LOGGER[ip]}"
    before = node.read_text(f"/proc/sys/{name}").strip() or "NONE"
    _switch(node, name, "nfnetlink_log")
    try:
        with node.spawn(
            ["tcpdump", "-Z", "root", "-i", "nflog:0", "-U", "-w", "-"],
            stdout=capture,
            stderr=errors,
        ) as process:
            end = time.monotonic() + LIMIT
            while "listening on" not in _common.read(errors):
                if process.poll() is not None:
                    raise MeasureError(
                        f"node {node.name} has iptables-legacy rules, and their trace cannot be"
                        f" read: {_common.tail(_common.read(errors))}",
                        "install tcpdump there, or load the rules with iptables-nft",
                    )
                if time.monotonic() > end:
                    raise LimitError(
                        f"tcpdump on node {node.name} did not listen within {LIMIT:.0f} s"
                    )
                time.sleep(0.01)
            yield process
    finally:
        _switch(node, name, before)


def finish(node: Node, process: Process, capture: Path) -> None:
    """Waits until the kernel has handed every line over and the file has them, then ends tcpdump.
    Raises LimitError.
    """
    end = time.monotonic() + LIMIT
    size, since = -1, time.monotonic()
    while True:
        now = time.monotonic()
        if (length := capture.stat().st_size) != size or _waiting(node):
            size, since = length, now
        elif now - since >= _QUIET:
            break
        if now > end:
            raise LimitError(
                f"the log of node {node.name} did not come to an end within {LIMIT:.0f} s"
            )
        time.sleep(0.02)
    process.interrupt()
    process.wait(LIMIT)


def _waiting(node: Node) -> bool:
    """Is a line still with the kernel? Its queue by /proc/net/netfilter/nfnetlink_log, the
    listening socket's by /proc/net/netlink.
    """
    for group in (
        line.split() for line in node.read_text("/proc/net/netfilter/nfnetlink_log").splitlines()
    ):
        if group[2] != "0":
            return True
        rows = (line.split() for line in node.read_text("/proc/net/netlink").splitlines()[1:])
        if any(row[1] == _NETFILTER and row[2] == group[1] and row[4] != "0" for row in rows):
            return True
    return False


def _switch(node: Node, name: str, value: str) -> None:
    path = f"{node.settings}/{name}"
    node.run(["sh", "-c", 'echo "$1" > "$0"', path, value], timeout=LIMIT)
