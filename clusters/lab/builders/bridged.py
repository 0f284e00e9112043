"""Pods behind a Linux bridge, as the reference plugin ``bridge`` attaches them
(containernetworking/plugins, plugins/main/bridge).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import ClassVar

from cnibench.clusters.lab.builders import pod_veth
from cnibench.clusters.lab.builders.filtered import Filtered
from cnibench.clusters.lab.namespaces import links, netlink
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod

_EVERYTHING = {4: "default", 6: "default6"}
_LINK_LOCAL = "fe80::1/64"
_SETLINK, _AF_BRIDGE = 19, 7
_PROTINFO, _MODE = 12 | 0x8000, 4  # nested


class Bridged(Filtered):
    """A bridge on each node that is the Pods' gateway; never promiscuous. Subclasses add the way
    between the nodes and the rules.
    """

    bridge: ClassVar[str]
    hairpin: ClassVar[bool] = False
    pod_rules: ClassVar[bool] = False  # do the rules name single Pods?
    needs: ClassVar[tuple[str, ...]] = ("bridge", "br_netfilter", "iptables")

    def build(self) -> None:
        for node in self.deployment.nodes():
            self._bridge(node)
            self.between(
                node, self.deployment.b if node is self.deployment.a else self.deployment.a
            )
            self.changed(node)

    def between(self, here: LabNode, there: LabNode) -> None:
        """Makes the node's way to the other node's Pods."""
        raise NotImplementedError

    def also_via_gateway(self, family: int) -> Sequence[str]:
        """Prefixes that Pods have a route to beside the default one."""
        return ()

    def _bridge(self, node: LabNode) -> None:
        links.add(
            node.ns,
            self.bridge,
            "bridge",
            address=links.mac(3, node.number),
            mtu=self.deployment.mtu,
        )
        for family in self.deployment.families:
            length = node.subnets[family].partition("/")[2]
            links.address(node.ns, self.bridge, f"{node.gateways[family]}/{length}")
        if (
            6 in self.deployment.families
        ):  # without it the node cannot ask for a Pod's MAC on behalf of others (ndisc_send_ns)
            links.address(node.ns, self.bridge, _LINK_LOCAL)

    def connect(self, pod: LabPod) -> Iterator[str]:
        node = pod.node
        pod_veth.make(pod, self.deployment.mtu)
        bridge = links.index(node.ns, self.bridge)
        links.set_link(node.ns, pod.host_end, master=bridge, txqueuelen=0)
        pod.ns.sysctl({f"net/ipv4/conf/{pod.interface}/arp_notify": 1})
        if self.hairpin:
            allow_hairpin(node, pod.host_end)
        yield "link"
        for family, address in pod.addresses.items():
            length = node.subnets[family].partition("/")[2]
            links.address(pod.ns, pod.interface, f"{address}/{length}")
        yield "address"
        for family in pod.addresses:
            for to in (_EVERYTHING[family], *self.also_via_gateway(family)):
                via = node.gateways[family]
                links.route(pod.ns, to, via=via, dev=pod.interface, proto=links.PROTO_BOOT)
        yield "routes"
        if self.pod_rules:
            self.joined(pod)
            yield "policy"

    def disconnect(self, pod: LabPod) -> None:
        if self.pod_rules:
            self.left(pod)


def allow_hairpin(node: LabNode, port: str) -> None:
    """Turns on a bridge port's hairpin mode: frames may leave it through the port that they came by
    (IFLA_BRPORT_MODE in IFLA_PROTINFO).
    """
    head = struct.pack("=BxHiII", _AF_BRIDGE, 0, links.index(node.ns, port), 0, 0)
    netlink.ask(
        node.ns,
        f"hairpin of {port}",
        _SETLINK,
        netlink.CHANGE,
        head + netlink.attribute(_PROTINFO, netlink.attribute(_MODE, b"\1")),
    )
