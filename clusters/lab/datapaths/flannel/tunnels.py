"""``flannel-ipip`` and ``flannel-wireguard``: the bridge cni0 on each node, and between the nodes
one of the kernel's other tunnels.

Follows flannel v0.28.9 pkg/backend/ipip/ipip.go (the device flannel.ipip with the node's address as
its local end and no remote one, an on-link route to each other node's subnet) and
pkg/backend/wireguard (wireguard_network.go, device.go: flannel-wg, port 51820, the whole network's
route into it, the peers' subnets as allowed addresses; mode ipv4: one tunnel over IPv4 for both
families).
"""

from __future__ import annotations

import ipaddress
from typing import Any

from cnibench.clusters.lab.builders.bridged import Bridged
from cnibench.clusters.lab.builders.filtered import FilterOptions
from cnibench.clusters.lab.daemons import wireguard
from cnibench.clusters.lab.datapaths.flannel.backends import Flannel
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS

_IPIP, _WG = "flannel.ipip", "flannel-wg"
_WG_PORT = 51820


class FlannelIpip(Flannel):
    """cni0 and the IPIP backend; IPv4 only."""

    name = "flannel-ipip"
    Options = FilterOptions
    needs = (*Bridged.needs, "ipip")

    def tunnel_on(self, node: LabNode, family: int) -> str:
        return _IPIP

    def between(self, here: LabNode, there: LabNode) -> None:
        links.add(here.ns, _IPIP, "ipip", ipip_local=here.addresses[4], ipip_pmtudisc=0, txqlen=0)
        links.set_link(here.ns, _IPIP, mtu=self.deployment.mtu)
        links.address(here.ns, _IPIP, f"{ipaddress.ip_network(here.subnets[4]).network_address}/32")
        links.route(
            here.ns,
            there.subnets[4],
            via=there.addresses[4],
            dev=_IPIP,
            onlink=True,
            proto=links.PROTO_BOOT,
        )

    def underlay_features(self, node: LabNode) -> dict[str, bool]:
        return {}


class FlannelWireguard(Flannel):
    """cni0 and the WireGuard backend."""

    between_machines = False
    name = "flannel-wireguard"
    Options = FilterOptions
    needs = (*Bridged.needs, "wireguard")
    programs = wireguard.PROGRAMS

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self._keys: dict[str, wireguard.Keys] = {}

    def tunnel_on(self, node: LabNode, family: int) -> str:
        return _WG

    def between(self, here: LabNode, there: LabNode) -> None:
        for node in (here, there):
            if node.name not in self._keys:
                self._keys[node.name] = wireguard.make_keys(node.ns)
        allowed = [there.subnets[family] for family in self.deployment.families]
        peer = wireguard.Peer(self._keys[there.name].public, there.addresses[4], allowed)
        wireguard.make(here.ns, _WG, _WG_PORT, self._keys[here.name], peer, mtu=self.deployment.mtu)
        for family in self.deployment.families:
            own = ipaddress.ip_network(here.subnets[family]).network_address
            links.address(here.ns, _WG, f"{own}/{32 if family == 4 else 128}")
            links.route(here.ns, CLUSTER_CIDRS[family], dev=_WG, proto=links.PROTO_BOOT)

    def underlay_features(self, node: LabNode) -> dict[str, bool]:
        return {}
