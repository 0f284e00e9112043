"""The wire between the two nodes: a veth pair with an explicit MTU, rate and offload model."""

from __future__ import annotations

from cnibench.cluster import Options
from cnibench.clusters.lab import links
from cnibench.clusters.lab.places import LabNode


def join(a: LabNode, b: LabNode, options: Options) -> None:
    """Makes the wire between two nodes. Raises ClusterError."""
    links.veth(a.ns, a.wire, b.ns, b.wire, mtu=options.mtu, mac=links.mac(9, 1), peer_mac=links.mac(9, 2), txqueuelen=1000)
    for node in (a, b):
        links.address(node.ns, node.wire, f"{node.addresses[4]}/24")
        links.address(node.ns, node.wire, f"{node.addresses[6]}/64")


def set_features(node: LabNode, features: dict[str, bool]) -> None:
    """Sets offload features (kernel names) of a node's device on the wire."""
