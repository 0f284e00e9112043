"""How busy the nodes of a cluster are before a run measures there, where they are other machines
than that of cnibench.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from cnibench.errors import CnibenchError, EndedError
from cnibench.model.node_names import named
from cnibench.model.units import plural
from cnibench.run.checks.node_load import NodeLoad, Usage, node_loads
from cnibench.system import heartbeat
from cnibench.system.usage import BUSY, wait_until_quiet
from cnibench.testbed.place import Node

_LOOK = 1.0  # s that one look takes


@dataclass(frozen=True)
class BusyNodes:
    """What runs on the nodes while nothing is measured: nothing of that is cnibench's."""

    loads: tuple[NodeLoad, ...]

    @property
    def busy(self) -> tuple[NodeLoad, ...]:
        return tuple(one for one in self.loads if one.share > BUSY)

    @property
    def disturbs(self) -> bool:
        return bool(self.busy)

    @property
    def programs(self) -> str:
        """Where they run: which they are cannot be seen on every cluster."""
        return ", ".join(one.node for one in self.busy)

    def __str__(self) -> str:
        used = [
            f"{one.others:.1f} of {plural(one.cpus, 'CPU')} of {named(one.node)}"
            for one in self.busy
        ]
        return f"other programs use {' and '.join(used)}"


def look(nodes: Sequence[Node], seconds: float = _LOOK) -> BusyNodes:
    """Takes ``seconds``. Raises ClusterError where they cannot be read."""
    before = [_read(node) for node in nodes]
    time.sleep(seconds)
    return BusyNodes(
        node_loads(
            [_usage(node, one, _read(node)) for node, one in zip(nodes, before, strict=True)],
            {node.name for node in nodes},
        )
    )


def look_or_wait(
    nodes: Sequence[Node], limit: float, say: Callable[[str], None]
) -> tuple[BusyNodes, str]:
    """Looks, and waits at most ``limit`` s until no node is busy; ``say`` gets what the user should
    know. (the last look; what does not hold of the wait that was asked for, '' when it does)
    """
    try:
        found = wait_until_quiet(limit, say, partial(look, nodes)) if limit else look(nodes)
    except EndedError:
        raise
    except CnibenchError as error:
        say(f"how busy the nodes are cannot be seen: {error.message}")
        return BusyNodes(()), "--wait-quiet: the nodes' load cannot be seen" if limit else ""
    if not found.disturbs:
        return found, ""
    say(
        f"warning: the nodes are busy: {found}"
        + ("" if limit else "; stop them, or wait with --wait-quiet 5m")
    )
    return (
        found,
        f"--wait-quiet: after {limit:g} s the nodes were still busy: {found}" if limit else "",
    )


@dataclass(frozen=True)
class _Reading:
    at: float
    used: float
    cpus: int
    kernel: str


def _read(node: Node) -> _Reading:
    stat = node.read_text("/proc/stat")
    at = time.monotonic()
    kernel = node.read_text("/proc/sys/kernel/random/boot_id").strip()
    whole, *lines = stat.splitlines()
    cpus = sum(1 for line in lines if line.startswith("cpu"))
    tick = os.sysconf("SC_CLK_TCK")  # USER_HZ, which is 100 everywhere
    return _Reading(at, heartbeat.used(whole.encode()) / tick, cpus or 1, kernel)


def _usage(node: Node, one: _Reading, other: _Reading) -> Usage:
    used = (other.used - one.used) / max(other.at - one.at, 1e-9)
    return Usage(node.name, other.kernel, node.name, other.cpus, used, own=0.0)
