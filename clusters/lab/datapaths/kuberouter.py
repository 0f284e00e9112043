"""``kube-router``: the bridge kube-bridge on each node, and between the nodes BGP routes or an
IP-in-IP device per peer.

Follows cloudnativelabs/kube-router v2.11.1 daemonset/kubeadm-kuberouter.yaml (bridge plugin, host
the gateway), pkg/controllers/routing/network_routes_controller.go (injectRoute: protocol zebra,
17; with --overlay-type=subnet, no tunnel to a node of the same subnet, as the lab's nodes are),
pkg/tunnels/linux_tunnels.go (tun-HASH with the nodes' addresses, the MTU that the kernel gives it
and, as Go's netlink makes it, without path MTU discovery of its own (nopmtudisc); a route to the
peer in table 77), pkg/utils/node.go (GetNodeMTU: kube-bridge and Pods have the
MTU of the node's interface, with a tunnel too, so that ICMP tells Pods the path's)
and pkg/routes/pbr.go (with either overlay, a rule for the node's Pod subnet to table 77, which has
no routes without tunnels).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from socket import AF_INET, AF_INET6
from typing import ClassVar, Literal

from cnibench.clusters.lab.builders.bridged import Bridged
from cnibench.clusters.lab.builders.filtered import FilterOptions
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.rules import kuberouter
from cnibench.clusters.lab.rules.ruleset import IpSet, Part
from cnibench.clusters.lab.rules.services import SERVICE_CIDRS

_ZEBRA, _TABLE = 17, 77
_PRIORITY = 32765  # kube-router names none: the kernel's, before the table main


class KubeRouterOptions(FilterOptions):
    """``overlay`` true is --overlay-type=full --overlay-encap=ipip, ``subnet`` that overlay's type;
    without any, as within a subnet, the nodes' network routes Pods' packets.
    """

    overlay: bool | Literal["subnet"] = False


class KubeRouter(Bridged):
    """kube-bridge, routes or tunnels, and the firewall without policy objects."""

    name = "kube-router"
    Options: ClassVar[type[FilterOptions]] = KubeRouterOptions
    beside_kube_proxy = True
    bridge = "kube-bridge"
    pod_rules = True
    needs = ("bridge", "br_netfilter", "iptables", "ipset")

    @property
    def tunnel(self) -> str:
        # Each node names its device after its peer: the first node's is here, ``tunnel_on``
        # tells each.
        return self.tunnel_on(self.deployment.a, 4)

    def tunnel_on(self, node: LabNode, family: int) -> str:
        peer = self.deployment.b if node is self.deployment.a else self.deployment.a
        return tunnel_name(peer.addresses[4]) if self.options.overlay is True else ""

    def between(self, here: LabNode, there: LabNode) -> None:
        if self.options.overlay:
            self._rules(here)
        if self.options.overlay is True:
            self._tunnel(here, there)
            return
        for family in self.deployment.families:
            links.route(
                here.ns,
                there.subnets[family],
                via=there.addresses[family],
                dev=here.wire,
                proto=_ZEBRA,
            )

    def _tunnel(self, here: LabNode, there: LabNode) -> None:
        name, peer = tunnel_name(there.addresses[4]), there.addresses[4]
        links.add(
            here.ns,
            name,
            "ipip",
            ipip_local=here.addresses[4],
            ipip_remote=peer,
            ipip_pmtudisc=0,
            txqlen=0,
        )
        links.set_link(here.ns, name, mtu=self.deployment.path_mtu)
        links.route(here.ns, there.subnets[4], dev=name, prefsrc=here.addresses[4], proto=_ZEBRA)
        links.route(here.ns, f"{peer}/32", dev=name, table=_TABLE, scope=0, proto=links.PROTO_BOOT)

    def _rules(self, here: LabNode) -> None:
        for family, number in ((4, AF_INET), (6, AF_INET6)):
            if family in self.deployment.families:
                network, length = here.subnets[family].split("/")
                here.ns.ipr.rule(
                    "add",
                    src=network,
                    src_len=int(length),
                    table=_TABLE,
                    family=number,
                    priority=_PRIORITY,
                )

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        pods = self.described(node, family)
        return (
            self.kube_proxy(node, family),
            kuberouter.rules(family, node.wire, SERVICE_CIDRS[family], pods),
        )

    def sets(self, node: LabNode, family: int) -> Sequence[IpSet]:
        nodes = self.deployment.nodes()
        return kuberouter.ipsets(
            family, [n.subnets[family] for n in nodes], [n.addresses[family] for n in nodes]
        )


def tunnel_name(peer: str) -> str:
    """``tun-`` and eleven letters of SHA-256 of the peer's address without its dots or colons
    (GenerateTunnelName).
    """
    return "tun-" + hashlib.sha256(peer.replace(".", "").replace(":", "").encode()).hexdigest()[:11]


PROVIDER = KubeRouter
