"""A Pod's veth pair, addresses and routes as Calico's CNI plugin and Felix make them, whichever
dataplane is behind it.

Follows projectcalico/calico v3.32.1 cni-plugin/pkg/dataplane/linux/dataplane_linux.go and
felix/dataplane/linux/endpoint_mgr.go (configureProcSysForInterface: settings of the node's end) and
int_dataplane.go (configureKernel: settings of the node).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnibench.clusters.lab.builders.filtered import NAMESPACE
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules.calico_node import interface_name

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment

HOST_MAC = "ee:ee:ee:ee:ee:ee"
BIRD = 12  # RTPROT_BIRD
_GATEWAYS = {4: "169.254.1.1", 6: "fe80::ecee:eeff:feee:eeee"}
_EVERYTHING = {4: "default", 6: "default6"}
_LENGTH = {4: 32, 6: 128}
_LINK_SCOPE = 253
_METRIC = 1024  # IPv4NormalRoutePriority, IPv6NormalRoutePriority of Felix
_QUEUES = 1  # num_queues of the plugin's configuration
# A Pod forwards nothing (configureContainerSysctls).
_FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


def gateway_route(node: LabNode) -> None:
    """The kernel answers for 169.254.1.1 by proxy ARP when it has a route there through another
    device. A real node has its default route; here that would send strays to and fro between the
    nodes.
    """
    links.route(node.ns, "169.254.0.0/16", dev=node.wire, scope=_LINK_SCOPE)


def count_connections(node: LabNode) -> None:
    """Connection tracking counts packets and bytes of every connection."""
    node.ns.sysctl({"net/netfilter/nf_conntrack_acct": 1})


def bgp_routes(here: LabNode, there: LabNode, family: int) -> None:
    """As BIRD writes them without encapsulation: the other node's block, and a blackhole for the
    own one.
    """
    via = there.addresses[family]
    links.route(here.ns, there.subnets[family], via=via, dev=here.wire, proto=BIRD)
    links.route(here.ns, here.subnets[family], type="blackhole", proto=BIRD)


def host_end(pod: LabPod) -> str:
    """The name of the node's end."""
    return interface_name(NAMESPACE, pod.name)


def pair(deployment: LabDeployment, pod: LabPod, rp_filter: str | None = None) -> str:
    """Makes the veth pair, both ends up; the MAC of the Pod's end. ``rp_filter`` is that of the
    node's end: the node's own default for devices, unless the dataplane needs another.
    """
    node, mac = pod.node, links.mac(2, pod.node.number, pod.number)
    links.veth(
        node.ns,
        pod.host_end,
        pod.ns,
        pod.interface,
        mtu=deployment.mtu,
        mac=HOST_MAC,
        peer_mac=mac,
        up=False,
        queues=_QUEUES,
    )
    rp_filter = rp_filter or node.ns.read("/proc/sys/net/ipv4/conf/default/rp_filter").strip()
    for family in pod.addresses:
        node.ns.sysctl(_host_settings(pod.host_end, family, rp_filter))
        pod.ns.sysctl({_FORWARDING[family]: 0})
    node.ns.sysctl({f"net/ipv6/conf/{pod.host_end}/accept_ra": 0})
    links.set_link(node.ns, pod.host_end, state="up", txqueuelen=0)
    links.set_link(pod.ns, pod.interface, state="up")
    return mac


def addresses(pod: LabPod) -> None:
    for family, address in pod.addresses.items():
        links.address(pod.ns, pod.interface, f"{address}/{_LENGTH[family]}")


def routes(pod: LabPod) -> None:
    """The Pod's way out, and the node's to the Pod."""
    node = pod.node
    for family, address in pod.addresses.items():
        gateway = _GATEWAYS[family]
        if family == 4:
            direct = f"{gateway}/32"
            links.route(
                pod.ns, direct, dev=pod.interface, scope=_LINK_SCOPE, proto=links.PROTO_BOOT
            )
        else:
            links.address(node.ns, pod.host_end, f"{gateway}/64")
        links.route(
            pod.ns,
            _EVERYTHING[family],
            via=gateway,
            dev=pod.interface,
            onlink=family == 6,
            proto=links.PROTO_BOOT,
        )
        links.route(
            node.ns,
            f"{address}/{_LENGTH[family]}",
            dev=pod.host_end,
            scope=_LINK_SCOPE if family == 4 else 0,
            proto=links.PROTO_BOOT,
            metric=_METRIC,
        )


def _host_settings(device: str, family: int, rp_filter: str) -> dict[str, object]:
    if family == 6:
        return {f"net/ipv6/conf/{device}/proxy_ndp": 1, f"net/ipv6/conf/{device}/forwarding": 1}
    return {
        f"net/ipv4/conf/{device}/route_localnet": 1,
        f"net/ipv4/neigh/{device}/proxy_delay": 0,
        f"net/ipv4/conf/{device}/proxy_arp": 1,
        f"net/ipv4/conf/{device}/forwarding": 1,
        f"net/ipv4/conf/{device}/rp_filter": rp_filter,
    }
