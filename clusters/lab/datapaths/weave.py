"""``weave``, ``weave-sleeve``, ``weave-encrypted``: one Ethernet over all nodes, a bridge on each and Weave's router between them.

Follows weaveworks/weave v2.8.1. net/bridge.go: the bridge ``weave``, on a fast datapath joined by a veth pair with the Open vSwitch datapath
``datapath``, else by a veth pair to the device that the router captures from. net/veth.go: checksum offload off on containers' devices.
router/fastdp.go: a VXLAN port (6784) on the datapath and, once a MAC's peer is known, one flow for it each way, the tunnel key made of the
peers' numbers; the kernel alone forwards then. router/sleeve.go: every frame through a program (programs/weave_sleeve.c). Encrypted fast
datapath: net/ipsec: ESP in transport mode (AES-GCM) for the VXLAN packets between two peers. Containers know no route but the cluster's own,
as with the CNI plugin's expose address as their gateway. The policy controller is not there (EXPECT_NPC=0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from cnibench.clusters.lab import features, links
from cnibench.clusters.lab.daemons import Daemons, program
from cnibench.clusters.lab.filtered import CLUSTER_CIDRS, Filtered
from cnibench.clusters.lab.places import LabNode, LabPod
from cnibench.clusters.lab.rules import weave
from cnibench.clusters.lab.rules.ruleset import Part
from cnibench.clusters.lab.stand import Stand

_BRIDGE = "weave"
_NO_OFFLOAD = {"tx-checksum-ip-generic": False, "tx-tcp-segmentation": False, "tx-tcp6-segmentation": False, "tx-tcp-ecn-segmentation": False}


class _Weave(Filtered):
    """The bridge and the Pods on it; subclasses make the router."""

    far_end: ClassVar[str]  # the other end of the veth pair at the bridge

    def build(self) -> None:
        for node in self.stand.nodes():
            links.add(node.ns, _BRIDGE, "bridge", address=links.mac(3, node.number), mtu=self.stand.mtu)
            links.address(node.ns, _BRIDGE, f"{node.gateways[4]}/{_length()}")
            links.veth(
                node.ns, "vethwe-bridge", node.ns, self.far_end, mtu=self.stand.mtu, mac=links.mac(6, node.number), peer_mac=links.mac(7, node.number)
            )
            links.set_link(node.ns, "vethwe-bridge", master=links.index(node.ns, _BRIDGE))
            self.router(node, self.stand.b if node is self.stand.a else self.stand.a)
            self.changed(node)

    def router(self, here: LabNode, there: LabNode) -> None:
        """Joins ``far_end`` with the other node."""
        raise NotImplementedError

    def connect(self, pod: LabPod) -> Iterator[str]:
        node, own = pod.node, links.mac(2, pod.node.number, pod.number)
        pod.host_end = f"vethwepl{pod.number}"
        links.veth(
            node.ns, pod.host_end, pod.ns, pod.interface, mtu=self.stand.mtu, mac=links.mac(1, node.number, pod.number), peer_mac=own
        )
        links.set_link(node.ns, pod.host_end, master=links.index(node.ns, _BRIDGE))
        features.write(pod.ns, pod.interface, _NO_OFFLOAD)
        yield "link"
        links.address(pod.ns, pod.interface, f"{pod.addresses[4]}/{_length()}")
        yield "address"
        links.route(pod.ns, "default", via=node.gateways[4], dev=pod.interface)
        self.known(pod)
        yield "routes"

    def known(self, pod: LabPod) -> None:
        """The router learns of a MAC: by itself in user space, by flows in the fast datapath."""

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        return (self.kube_proxy(family), weave.rules(family, _BRIDGE, CLUSTER_CIDRS[family]))


class WeaveSleeve(_Weave):
    """The router forwards in user space."""

    name = "weave-sleeve"
    far_end = "vethwe-pcap"
    needs = ("bridge", "br_netfilter", "iptables")

    def __init__(self, stand: Stand, options: Any) -> None:
        super().__init__(stand, options)
        self.daemons = Daemons(stand.number)

    def router(self, here: LabNode, there: LabNode) -> None:
        names = {node.name: links.mac(3, node.number) for node in (here, there)}
        argv = [self.far_end, here.addresses[4], names[here.name], there.addresses[4], names[there.name]]
        self.daemons.start(f"weave-sleeve-{here.name}", here.ns, [program("weave_sleeve"), *argv])

    def alive(self) -> str:
        return self.daemons.alive()

    def remove(self) -> None:
        self.daemons.stop()


def _length() -> str:
    return CLUSTER_CIDRS[4].partition("/")[2]


PROVIDER = WeaveSleeve
