"""The veth pair that joins a Pod with its node."""

from __future__ import annotations

from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabPod


def make(pod: LabPod, mtu: int, *further: int) -> tuple[int, str, str]:
    """(index of the node's end, the Pod's MAC, the MAC of the node's end). ``further`` numbers tell
    Pods of the same number apart: a tenant. Raises ClusterError.
    """
    node = pod.node
    host, own = (links.mac(end, node.number, pod.number, *further) for end in (1, 2))
    index, _ = links.veth(
        node.ns, pod.host_end, pod.ns, pod.interface, mtu=mtu, mac=host, peer_mac=own
    )
    return index, own, host
