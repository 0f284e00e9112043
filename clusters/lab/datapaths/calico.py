"""``calico``: routed veth pairs with proxy ARP, Felix's rules, and between the nodes BGP routes,
VXLAN or IP-in-IP.

Follows projectcalico/calico v3.32.1 cni-plugin/pkg/dataplane/linux/dataplane_linux.go (one /32 per
Pod, gateway 169.254.1.1, the MAC ee:ee:ee:ee:ee:ee at the node's end),
felix/dataplane/linux/endpoint_mgr.go (sysctls of the node's end), vxlan_mgr.go and vxlanfdb
(vxlan.calico, VNI 4096, port 4789, routes with the tunnel's MTU), int_dataplane.go
(configureKernel: connections are counted), ipip_mgr.go (tunl0), confd's BIRD
templates (routes of protocol bird, 12, and a blackhole for the node's own block), felix/rules for
the filters. The address block of a node is a /24 here, where Calico's default is /26: one route per
node either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.builders import calico_endpoint, vxlan
from cnibench.clusters.lab.builders.filtered import NAMESPACE, Filtered, FilterOptions
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import calico, calico_arp
from cnibench.clusters.lab.rules.calico_node import VXLAN_PORT, Node, Policy, ipsets
from cnibench.clusters.lab.rules.ruleset import IpSet, Part
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS
from cnibench.errors import ClusterError
from cnibench.model.cell import Attestation

_FELIX = 80  # DefaultRouteProto of dataplanedefs.go
_DEVICES = {4: "vxlan.calico", 6: "vxlan-v6.calico"}
_VNI, _IPIP = 4096, "tunl0"
_LOOPBACK = {4: ("127.0.0.0", "127.0.0.1"), 6: ("::1",)}
_LIMIT = 20.0  # s for nft
_DENIED_PORT = 9  # discard: no workload of ours uses it, and the policy does not name it
# s that a denied connection is given; inside one machine an allowed one needs less than a
# millisecond
_DENIAL = 0.25
# What the policies open: HTTP, iperf3, and the ports that programs get from the kernel
# (net.ipv4.ip_local_port_range of the Pods).
_OPEN = ("80", "443", "5201:5299", "8080", "10000:65000")


class CalicoOptions(FilterOptions):
    """``felix`` false leaves out all of Calico's chains (the model of qi2021's "np"); ``ports`` are
    those that the policies open.
    """

    felix: bool = True
    ports: tuple[str, ...] = _OPEN


class Calico(Filtered):
    """Routed Pods; the encapsulation is the profile's own claim."""

    between_machines = True
    name = "calico"
    Options: ClassVar[type[FilterOptions]] = CalicoOptions
    beside_kube_proxy = True
    needs = ("iptables", "ipset", "nftables")

    @classmethod
    def proxies(cls, options: Any) -> tuple[str, ...]:
        """Not ipvs beside Felix: it writes further rules there (KubeIPVSSupportEnabled), which mark
        packets to virtual servers and which the model leaves out.
        """
        return tuple(
            name for name in super().proxies(options) if name != "ipvs" or not options.felix
        )

    @property
    def encapsulation(self) -> Literal["none", "vxlan", "ipip"]:
        claim = self.deployment.claim.encapsulation
        assert claim in ("none", "vxlan", "ipip")
        return claim

    @property
    def tunnel(self) -> str:
        return self.tunnel_on(self.deployment.a, 4 if 4 in self.deployment.families else 6)

    def tunnel_on(self, node: LabNode, family: int) -> str:
        return {"vxlan": _DEVICES[family], "ipip": _IPIP}.get(self.encapsulation, "")

    def build(self) -> None:
        a, b = self.deployment.nodes()
        for here, there in ((a, b), (b, a)):
            calico_endpoint.gateway_route(here)
            calico_endpoint.count_connections(here)
            for family in self.deployment.families:
                self._between(here, there, family)
            self.changed(here)

    def _between(self, here: LabNode, there: LabNode, family: int) -> None:
        if self.encapsulation == "vxlan":
            self._vxlan(here, there, family)
            return
        if self.encapsulation == "ipip":
            _fallback_device(here)
            links.set_link(here.ns, _IPIP, mtu=self.deployment.mtu, state="up")
            links.address(here.ns, _IPIP, f"{here.gateways[4]}/32")
        self.bird(here, there, family)

    def bird(self, here: LabNode, there: LabNode, family: int) -> None:
        """BIRD's routes between the nodes. With VXLAN they are Felix's, and BIRD has none."""
        if self.encapsulation == "none":
            calico_endpoint.bgp_routes(here, there, family)
        elif self.encapsulation == "ipip":
            # tunl0 is the kernel's own fallback device, without addresses of its ends: the route's
            # next hop is the outer address.
            block, via, proto = there.subnets[family], there.addresses[4], calico_endpoint.BIRD
            links.route(here.ns, block, via=via, dev=_IPIP, onlink=True, proto=proto)
            links.route(here.ns, here.subnets[family], type="blackhole", proto=proto)

    def _vxlan(self, here: LabNode, there: LabNode, family: int) -> None:
        device, length = _DEVICES[family], 32 if family == 4 else 128
        vxlan.add(
            here,
            device,
            family,
            vni=_VNI,
            port=VXLAN_PORT,
            mac=links.mac(5, family, here.number),
            mtu=self.deployment.mtu,
        )
        links.address(here.ns, device, f"{here.gateways[family]}/{length}")
        inner, mac = there.gateways[family], links.mac(5, family, there.number)
        vxlan.reach(here, there, device, family, inner=inner, mac=mac)
        links.route(
            here.ns,
            there.subnets[family],
            via=there.gateways[family],
            dev=device,
            onlink=True,
            proto=links.PROTO_BOOT,
            mtu=self.deployment.mtu,
        )
        links.route(here.ns, here.subnets[family], type="blackhole", proto=_FELIX)

    def connect(self, pod: LabPod) -> Iterator[str]:
        pod.host_end = calico_endpoint.host_end(pod)
        calico_endpoint.pair(self.deployment, pod)
        yield "link"
        calico_endpoint.addresses(pod)
        yield "address"
        calico_endpoint.routes(pod)
        yield "routes"
        if self.options.felix:
            self.joined(pod)
            yield "policy"

    def disconnect(self, pod: LabPod) -> None:
        if self.options.felix:
            self.left(pod)

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        proxy = self.kube_proxy(node, family)
        return (proxy, calico.rules(self._felix(node, family))) if self.options.felix else (proxy,)

    def sets(self, node: LabNode, family: int) -> Sequence[IpSet]:
        return ipsets(self._felix(node, family)) if self.options.felix else ()

    def load(self, node: LabNode) -> None:
        super().load(node)
        if self.options.felix and 4 in self.deployment.families:
            text = calico_arp.table(self.described(node, 4))
            node.ns.run(["nft", "-f", "-"], input=text, timeout=_LIMIT)

    def _felix(self, node: LabNode, family: int) -> Node:
        enforced = self.deployment.claim.policy == "enforced"
        bench = [
            pod for pod in self.deployment.pods() if pod.role == "bench" and family in pod.addresses
        ]
        return Node(
            family=family,
            encapsulation=self.encapsulation,
            hosts=tuple(each.addresses[family] for each in self.deployment.nodes()),
            pool=CLUSTER_CIDRS[family],
            this_host=self._own_addresses(node, family),
            pods=self.described(node, family),
            policy=Policy(f"{NAMESPACE}/bench", self.options.ports) if enforced else None,
            selected=frozenset(pod.name for pod in bench),
            peers=tuple(pod.addresses[family] for pod in bench) if enforced else (),
        )

    def _own_addresses(self, node: LabNode, family: int) -> tuple[str, ...]:
        """All that the kernel has a local route to."""
        tunnel = (node.gateways[family],) if self.tunnel_on(node, family) else ()
        return (node.addresses[family], *tunnel, *_LOOPBACK[family])

    def checks(self) -> Sequence[Attestation]:
        """With policies: a port that they do not name is closed even between Pods that may talk; on
        the same Pods others are open.
        """
        if self.deployment.claim.policy != "enforced":
            return ()
        found = []
        client, server = self.deployment.pair("inter")
        for family in self.deployment.families:
            with probe.attempt(
                client.ns, server.ns, server.addresses[family], family, _DENIED_PORT
            ) as (_, listener):
                through = probe.reached(listener, _DENIAL)
            expected = f"TCP port {_DENIED_PORT}, which no policy opens, is closed"
            found.append(
                self.deployment.attestation(
                    "denied-port", expected, "open" if through else "closed", not through, family
                )
            )
        return found


def _fallback_device(node: LabNode) -> None:
    """Brings tunl0 into being where the kernel does not make it for each namespace
    (net.core.fb_tunnels_only_for_init_net).
    """
    try:
        links.index(node.ns, _IPIP)
    except ClusterError:
        links.add(node.ns, _IPIP, "ipip", up=False)


PROVIDER = Calico
