"""``flannel-udp``: the bridge cni0 on each node, and between the nodes a program of user space with
a TUN device.

Follows flannel v0.28.9 pkg/backend/udp (udp_network_amd64.go: the device flannel0 has the first
address of the node's subnet alone, the whole network's route leads into it, its MTU is 28 less;
cproxy_amd64.go and proxy_amd64.c: the program, ours is programs/flannel_udp.c). A packet crosses
the border between kernel and program twice on its way out (TUN to program, program to socket) and
twice on its way in. IPv4 only, as there.
"""

from __future__ import annotations

import ipaddress

from cnibench.clusters.lab.builders.bridged import Bridged
from cnibench.clusters.lab.builders.filtered import FilterOptions
from cnibench.clusters.lab.daemons.processes import Daemons, has_device, program
from cnibench.clusters.lab.datapaths.flannel.backends import Flannel
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS

_DEVICE = "flannel0"
_START = 5.0  # s


class FlannelUdp(Flannel):
    """cni0 and the UDP backend."""

    between_machines = False
    name = "flannel-udp"
    Options = FilterOptions
    needs = (*Bridged.needs, "tun")

    def __init__(self, deployment: LabDeployment, options: FilterOptions) -> None:
        super().__init__(deployment, options)
        self.daemons = Daemons(deployment.number)

    def tunnel_on(self, node: LabNode, family: int) -> str:
        return _DEVICE

    def between(self, here: LabNode, there: LabNode) -> None:
        name = f"flannel-udp-{here.name}"
        route = f"{there.subnets[4]}={there.addresses[4]}"
        self.daemons.start(
            name, here.ns, [program("flannel_udp"), _DEVICE, here.addresses[4], route]
        )
        self.daemons.wait(f"{name} makes {_DEVICE}", lambda: has_device(here.ns, _DEVICE), _START)
        own = ipaddress.ip_network(here.subnets[4]).network_address
        links.set_link(here.ns, _DEVICE, mtu=self.deployment.mtu, state="up")
        links.address(here.ns, _DEVICE, f"{own}/32")
        links.route(here.ns, CLUSTER_CIDRS[4], dev=_DEVICE, scope=0, proto=links.PROTO_BOOT)

    def underlay_features(self, node: LabNode) -> dict[str, bool]:
        return {}

    def alive(self) -> str:
        return self.daemons.alive()

    def remove(self) -> None:
        self.daemons.stop()
