"""What other programs used of the CPUs of a cluster's nodes while a sample was measured: all that
is not client, server or cnibench's own, the kubelet and the CNI's agents included.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """CPUs in use on the machine of ``node`` ('': that of cnibench) between two readings. ``used``
    is that of all programs, ``own`` that of the processes of ``tree``, which are ours. Readings of
    one machine have the same ``kernel``, and those of the same processes there the same ``tree``.
    """

    node: str
    kernel: str
    tree: str
    cpus: int
    used: float
    own: float


@dataclass(frozen=True)
class NodeLoad:
    """``others`` of the ``cpus`` of a machine were in use by other programs: estimated, or a lower
    bound where it is not an ``estimate``. ``node`` names all nodes on that machine (``a+b``).
    """

    node: str
    others: float
    cpus: int
    estimate: bool = False

    @property
    def share(self) -> float:
        return self.others / self.cpus


def node_loads(readings: Sequence[Usage], nodes: Collection[str]) -> tuple[NodeLoad, ...]:
    """Of each machine that ``nodes`` are on; without those whose kernel does not count (gVisor).

    A lower bound: softirqs are not among what all programs used, and where the kernel does not
    account them apart they are among what ours used.
    """
    machines: dict[str, list[Usage]] = {}
    for one in readings:
        machines.setdefault(one.kernel or one.node, []).append(one)
    found = []
    for here in machines.values():
        names = sorted({one.node for one in here} & set(nodes))
        used = min(one.used for one in here)
        if names and used > 0:
            own = sum({one.tree: one.own for one in here}.values())
            found.append(NodeLoad("+".join(names), max(0.0, used - own), here[0].cpus))
    return tuple(sorted(found, key=lambda one: one.node))


def busiest(loads: Sequence[NodeLoad]) -> float | None:
    """The CPUs that other programs used where they are the largest share; None of no node."""
    return max(loads, key=lambda one: one.share).others if loads else None
