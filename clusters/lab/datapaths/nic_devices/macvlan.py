"""``macvlan``: each Pod has a device of its own on the node's wire, all Pods are one Ethernet. No
rules, no bridge, no tunnel.

Follows the reference plugin ``macvlan`` in its mode ``bridge`` (containernetworking/plugins v1.9.1
plugins/main/macvlan/macvlan.go): Pods of a node reach each other inside the kernel, others over the
wire; the node itself cannot reach its Pods by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cnibench.clusters.lab.builders.base import Datapath
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS

_SCRATCH = "mv{:x}"  # the device's name while it is still in the node's namespace


class Macvlan(Datapath):
    """Devices of kind macvlan, mode bridge."""

    name = "macvlan"
    needs = ("macvlan",)

    def build(self) -> None:
        """The wire is all there is."""

    def connect(self, pod: LabPod) -> Iterator[str]:
        node, scratch = pod.node, _SCRATCH.format(pod.number)
        links.add(
            node.ns,
            scratch,
            self.name,
            up=False,
            link=links.index(node.ns, node.wire),
            mtu=self.deployment.mtu,
            **self._options(pod),
        )
        node.ns.ipr.link(
            "set", index=links.index(node.ns, scratch), ifname=pod.interface, net_ns_fd=pod.ns.fd
        )
        del node.ns.links[scratch]
        links.set_link(pod.ns, pod.interface, state="up")
        yield "link"
        for family, address in pod.addresses.items():
            length = CLUSTER_CIDRS[family].partition("/")[2]
            links.address(pod.ns, pod.interface, f"{address}/{length}")
        yield "address"

    def _options(self, pod: LabPod) -> dict[str, Any]:
        """Those of the device, beside its wire and MTU."""
        mac = links.mac(2, pod.node.number, pod.number)
        return {"macvlan_mode": "bridge", "address": mac}
