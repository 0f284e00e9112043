"""``ebpf``: Cilium's datapath by eBPF programs at tc (bpf/cilium.c): endpoints, policies and
connections in maps, no rule inside a node.

Between nodes a collect-metadata VXLAN (or Geneve) device ``cilium_vxlan`` that carries the source's
identity in the VNI, or, without a tunnel, routed packets. Follows cilium/cilium v1.15.19:
bpf/bpf_lxc.c, bpf_overlay.c, bpf_host.c, bpf/lib; devices, routes and routing rules as
pkg/datapath/loader, pkg/datapath/linux and pkg/proxy make them (cilium_host with cilium_net,
cilium_vxlan, lxc*). Beside kube-proxy, as in the chart's default, the node's stack routes
(``host_routing: legacy``; daemon/cmd/kube_proxy_replacement.go, finishKubeProxyReplacementInit):
packets of the tunnel, and without one the Pods' own, meet kube-proxy's rules and Cilium's. In
kube-proxy's place Cilium asks the routing table itself (``ebpf``). docs/fidelity.md compares the
model with the real one.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from cnibench.clusters.lab.builders import pod_veth
from cnibench.clusters.lab.builders.programs import HOST_BITS, ProgramOptions, Programs
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import cilium
from cnibench.clusters.lab.rules.ruleset import IpSet, Part
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS

_EVERYTHING = {4: "default", 6: "default6"}
_VXLAN_PORT, _GENEVE_PORT = 8472, 6081  # the chart's tunnelPort
_AF = {4: socket.AF_INET, 6: socket.AF_INET6}
# pkg/datapath/linux/linux_defaults/linux_defaults.go; rtnetlink(7)
_TO_PROXY, _PROXY_FIRST, _LOCAL_LATER = 2004, 9, 100
_LOCAL_TABLE, _LOCAL_ROUTE, _SCOPE = 255, 2, {4: 254, 6: 0}


class EbpfOptions(ProgramOptions):
    """``kube_proxy``: are kube-proxy's and the kubelet's rules there? ``masquerade``: by whom Pods'
    packets that leave the cluster are.
    """

    kube_proxy: bool = True
    masquerade: Literal["iptables", "ebpf"] = "iptables"


class Ebpf(Programs):
    """Pods behind programs at tc; the claim's encapsulation says whether and which tunnel."""

    name = "ebpf"
    Options = EbpfOptions
    needs: ClassVar[tuple[str, ...]] = ("tc-bpf", "iptables")

    @classmethod
    def proxies(cls, options: Any) -> tuple[str, ...]:
        return ("iptables",) if options.kube_proxy else ("none", "ebpf")

    @classmethod
    def no_services(cls, options: Any, proxy: str) -> str:
        if proxy == "iptables":
            return (
                "beside kube-proxy Cilium leads Pods' connections to Services by its own programs,"
                " which are left out of the model"
            )
        return super().no_services(options, proxy)

    @property
    def tunnel(self) -> str:
        return {"vxlan": "cilium_vxlan", "geneve": "cilium_geneve"}.get(
            self.deployment.claim.encapsulation, ""
        )

    def build(self) -> None:
        a, b = self.deployment.nodes()
        for here, there in ((a, b), (b, a)):
            self._devices(here)
            tunnel = links.index(here.ns, self.tunnel) if self.tunnel else 0
            self._load_maps(here, there, tunnel)
            self._routes(here, there)
            self._routing_rules(here)
            self._attach(here, "cilium_host", "cil_from_host", "egress")
            if self.tunnel:
                self._attach(here, self.tunnel, "cil_from_overlay", "ingress")
                self._attach(here, self.tunnel, "cil_to_overlay", "egress")
            elif self.options.host_routing == "ebpf":
                self._attach(here, here.wire, "cil_from_netdev", "ingress")
            self.load(here)

    def _devices(self, node: LabNode) -> None:
        ns = node.ns
        links.veth(
            ns,
            "cilium_host",
            ns,
            "cilium_net",
            mac=links.mac(6, node.number),
            peer_mac=links.mac(7, node.number),
            mtu=self.deployment.mtu,
        )
        for name in ("cilium_host", "cilium_net"):
            links.set_link(ns, name, arp=False)
        for family in self.deployment.families:
            links.address(ns, "cilium_host", f"{node.gateways[family]}/{HOST_BITS[family]}")
        if self.tunnel == "cilium_vxlan":
            links.add(
                ns,
                self.tunnel,
                "vxlan",
                vxlan_collect_metadata=True,
                vxlan_port=_VXLAN_PORT,
                vxlan_learning=0,
                mtu=self.deployment.mtu,
            )
        elif self.tunnel:
            links.add(
                ns,
                self.tunnel,
                "geneve",
                geneve_collect_metadata=True,
                geneve_port=_GENEVE_PORT,
                mtu=self.deployment.mtu,
            )

    def _routes(self, here: LabNode, there: LabNode) -> None:
        for family in self.deployment.families:
            links.route(
                here.ns, here.subnets[family], dev="cilium_host", prefsrc=here.gateways[family]
            )
            if self.tunnel:
                links.route(
                    here.ns, there.subnets[family], dev="cilium_host", prefsrc=here.gateways[family]
                )
            else:  # autoDirectNodeRoutes
                links.route(
                    here.ns, there.subnets[family], via=there.addresses[family], dev=here.wire
                )

    def _routing_rules(self, node: LabNode) -> None:
        """What is marked for a proxy goes to this node, before its own table is asked
        (pkg/proxy/routes.go, NodeEnsureLocalRoutingRule).

        No packet here is marked so, but from the first rule on the kernel walks the rules for every
        route that it looks up.
        """
        for family in self.deployment.families:
            kind = _AF[family]
            ipr = node.ns.ipr
            ipr.route(
                "add",
                family=kind,
                dst_len=0,
                type=_LOCAL_ROUTE,
                table=_TO_PROXY,
                oif=links.index(node.ns, "lo"),
                scope=_SCOPE[family],
            )
            ipr.rule(
                "add",
                family=kind,
                priority=_PROXY_FIRST,
                fwmark=0x200,
                fwmask=0xF00,
                table=_TO_PROXY,
                action="FR_ACT_TO_TBL",
            )
            ipr.rule(
                "add",
                family=kind,
                priority=_LOCAL_LATER,
                table=_LOCAL_TABLE,
                action="FR_ACT_TO_TBL",
            )
            ipr.rule("del", family=kind, priority=0, table=_LOCAL_TABLE)

    def host_end(self, pod: LabPod) -> str:
        return f"lxc{pod.node.number}{pod.number + 1:08x}"

    def _pair(self, pod: LabPod) -> tuple[int, str, str]:
        return pod_veth.make(pod, self.deployment.mtu)

    def _configure(self, pod: LabPod, node_mac: str) -> None:
        for family, address in pod.addresses.items():
            links.address(pod.ns, pod.interface, f"{address}/{HOST_BITS[family]}")
            links.neighbour(pod.ns, pod.interface, pod.node.gateways[family], node_mac)
            links.route(
                pod.ns,
                _EVERYTHING[family],
                via=pod.node.gateways[family],
                dev=pod.interface,
                onlink=True,
            )

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        mode: cilium.Masquerade = (
            "none" if self.options.masquerade == "ebpf" else "tunnel" if self.tunnel else "native"
        )
        agent = cilium.rules(
            family, CLUSTER_CIDRS[family], node.subnets[family], node.gateways[family], mode
        )
        return (self.kube_proxy(node, family), agent) if self.options.kube_proxy else (agent,)

    def sets(self, node: LabNode, family: int) -> Sequence[IpSet]:
        if self.tunnel or self.options.masquerade == "ebpf":
            return ()
        return (
            cilium.nodes_set(
                family, [there.addresses[family] for there in self.deployment.nodes()]
            ),
        )

    def routed(self, node: LabNode, family: int) -> int:
        """Packets that the chain FORWARD of this node's packet filter has seen: what the node's
        stack routed, none of the node's own.
        """
        program = f"{'iptables' if family == 4 else 'ip6tables'}-{self.options.iptables}-save"
        text = node.ns.run([program, "-c", "-t", "filter"], timeout=20).stdout
        # the first rule is Cilium's jump, without a match: it counts all
        return next(
            (
                int(line[1:].partition(":")[0])
                for line in text.splitlines()
                if "] -A FORWARD " in line
            ),
            0,
        )


PROVIDER = Ebpf
