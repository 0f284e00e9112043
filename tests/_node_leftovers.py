"""What an installation leaves on a node: two snapshots of it, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.removal.node_snapshot import QUICK, SCRIPT, parse


@dataclass(frozen=True)
class Snapshot:
    """What a node has, by kind: names of devices, lines of routes and so on. ``sysctls`` are
    NAME=VALUE.
    """

    node: str
    items: Mapping[str, frozenset[str]]


def snapshot(node: KubernetesNode) -> Snapshot:
    assert node.host, "the agent cannot see the node's files"
    return Snapshot(node.facts.name, parse(node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout))


def leftovers(before: Snapshot, after: Snapshot) -> list[str]:
    """What is there now and was not before, each named with its kind; changes of sysctls with both
    values.
    """
    found = []
    for kind in after.items:
        new = after.items[kind] - before.items.get(kind, frozenset())
        if kind == "sysctl":
            was = dict(item.split("=", 1) for item in before.items.get(kind, ()))
            new = frozenset(
                f"{name} is {value}, was {was[name]}"
                for name, value in (item.split("=", 1) for item in new)
                if name in was
            )
        if kind == "IPsec" and "IPsec" not in before.items:
            new = frozenset()
        found += [f"{kind} {item}" for item in sorted(new)]
    return found
