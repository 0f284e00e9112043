"""A VXLAN device without learning, whose daemon writes where each frame goes (flannel, Calico)."""

from __future__ import annotations

from typing import Any

from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode


def add(
    node: LabNode,
    device: str,
    family: int,
    *,
    vni: int,
    port: int,
    mac: str,
    mtu: int,
    txqueuelen: int | None = None,
) -> None:
    """``family`` is that of the outer addresses, ``mtu`` in bytes. Raises ClusterError."""
    outer: dict[str, Any] = {
        "vxlan_local" if family == 4 else "vxlan_local6": node.addresses[family]
    }
    if txqueuelen is not None:
        outer["txqlen"] = txqueuelen
    links.add(
        node.ns,
        device,
        "vxlan",
        vxlan_id=vni,
        vxlan_link=links.index(node.ns, node.wire),
        vxlan_port=port,
        vxlan_learning=0,
        address=mac,
        mtu=mtu,
        **outer,
    )


def reach(here: LabNode, there: LabNode, device: str, family: int, *, inner: str, mac: str) -> None:
    """The other node's device, which has the address ``inner`` and this MAC, is behind its
    underlay address. Raises ClusterError.
    """
    links.neighbour(here.ns, device, inner, mac)
    links.fdb(here.ns, device, mac, there.addresses[family], noarp=False)
