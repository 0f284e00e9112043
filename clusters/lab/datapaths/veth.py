"""``veth``: the least that gives Pods a network: a veth pair each and its routes. No rules, no
bridge, no tunnel.
"""

from __future__ import annotations

from collections.abc import Iterator

from cnibench.clusters.lab.builders import pod_veth
from cnibench.clusters.lab.builders.base import Datapath
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabPod

# The address that Pods send to: it exists nowhere, each Pod knows its MAC by a permanent entry, as
# the ptp plugin and Calico do it.
_GATEWAYS = {4: "169.254.1.1", 6: "fe80::1"}
_EVERYTHING = {4: "default", 6: "default6"}


class Veth(Datapath):
    """Routed veth pairs, as the reference plugin ``ptp`` makes them (containernetworking/plugins,
    plugins/main/ptp).
    """

    between_machines = True
    name = "veth"

    def build(self) -> None:
        a, b = self.deployment.nodes()
        for here, there in ((a, b), (b, a)):
            for family in self.deployment.families:
                links.route(
                    here.ns, there.subnets[family], via=there.addresses[family], dev=here.wire
                )

    def connect(self, pod: LabPod) -> Iterator[str]:
        node = pod.node
        _, own, gateway = pod_veth.make(pod, self.deployment.mtu)
        yield "link"
        for family, address in pod.addresses.items():
            links.address(pod.ns, pod.interface, f"{address}/{32 if family == 4 else 128}")
            links.neighbour(pod.ns, pod.interface, _GATEWAYS[family], gateway)
            links.route(
                pod.ns, _EVERYTHING[family], via=_GATEWAYS[family], dev=pod.interface, onlink=True
            )
        yield "address"
        for family, address in pod.addresses.items():
            links.route(
                node.ns,
                f"{address}/{32 if family == 4 else 128}",
                dev=pod.host_end,
                scope=253 if family == 4 else 0,
            )
            links.neighbour(node.ns, pod.host_end, address, own)
        yield "routes"


PROVIDER = Veth
