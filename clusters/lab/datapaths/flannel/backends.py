"""``flannel``: the bridge cni0 on each node, and between the nodes VXLAN or plain routes.

Follows flannel v0.28.9 pkg/backend/vxlan (vxlan.go, device.go, vxlan_network.go: one on-link route,
one permanent neighbour and one forwarding entry for each other node, no learning),
pkg/backend/hostgw/hostgw.go, pkg/trafficmngr/iptables, and the CNI configuration in
Documentation/kube-flannel.yml (bridge with hairpin mode, host the gateway). With IPv6 the device is
flannel-v6.1 over the IPv6 underlay.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import ClassVar, Literal

from cnibench.clusters.lab.builders import vxlan
from cnibench.clusters.lab.builders.bridged import Bridged
from cnibench.clusters.lab.builders.filtered import FilterOptions
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.rules import flannel
from cnibench.clusters.lab.rules.ruleset import Part
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS

_DEVICES = {4: "flannel.1", 6: "flannel-v6.1"}
_VNI, _PORT = 1, 8472  # defaultVNI; the kernel's default port, which flannel keeps


class FlannelOptions(FilterOptions):
    """``backend`` as in net-conf.json; ``tunnel_offload`` false turns UDP tunnel segmentation off
    on the underlay (flannel-off).
    """

    backend: Literal["vxlan", "host-gw"] = "vxlan"
    tunnel_offload: bool = True


class Flannel(Bridged):
    """cni0 and a backend."""

    between_machines = True
    name = "flannel"
    Options: ClassVar[type[FilterOptions]] = FlannelOptions
    bridge = "cni0"
    hairpin = True
    beside_kube_proxy = True

    @property
    def tunnel(self) -> str:
        return self.tunnel_on(self.deployment.a, 4 if 4 in self.deployment.families else 6)

    def tunnel_on(self, node: LabNode, family: int) -> str:
        return _DEVICES[family] if self.options.backend == "vxlan" else ""

    def between(self, here: LabNode, there: LabNode) -> None:
        for family in self.deployment.families:
            if self.options.backend == "vxlan":
                self._vxlan(here, there, family)
            else:
                links.route(
                    here.ns,
                    there.subnets[family],
                    via=there.addresses[family],
                    dev=here.wire,
                    proto=links.PROTO_BOOT,
                )

    def _vxlan(self, here: LabNode, there: LabNode, family: int) -> None:
        device = _DEVICES[family]
        vxlan.add(
            here,
            device,
            family,
            vni=_VNI,
            port=_PORT,
            mac=links.mac(4, family, here.number),
            mtu=self.deployment.mtu,
            txqueuelen=0,
        )
        # The network's own address, alone, so that there is no broadcast route: 10.244.N.0/32.
        links.address(here.ns, device, _own(here, family))
        remote, mac = _own(there, family).partition("/")[0], links.mac(4, family, there.number)
        vxlan.reach(here, there, device, family, inner=remote, mac=mac)
        links.route(
            here.ns,
            there.subnets[family],
            via=remote,
            dev=device,
            onlink=True,
            proto=links.PROTO_BOOT,
        )

    def also_via_gateway(self, family: int) -> Sequence[str]:
        return (CLUSTER_CIDRS[family],)  # flannel's CNI plugin (flannel_linux.go, getIPAM)

    def underlay_features(self, node: LabNode) -> dict[str, bool]:
        if self.options.tunnel_offload:
            return {}
        return {"tx-udp_tnl-segmentation": False, "tx-udp_tnl-csum-segmentation": False}

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        return (
            self.kube_proxy(node, family),
            flannel.rules(family, CLUSTER_CIDRS[family], node.subnets[family]),
        )


def _own(node: LabNode, family: int) -> str:
    """The network address of the node's subnet as a host address with its length: flannel.1's
    own.
    """
    return (
        f"{ipaddress.ip_network(node.subnets[family]).network_address}/{32 if family == 4 else 128}"
    )
