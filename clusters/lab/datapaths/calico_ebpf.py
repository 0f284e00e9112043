"""``calico-ebpf``: Calico's eBPF dataplane: routed veth pairs as in its iptables mode, programs at
tc in place of rules, no kube-proxy.

Follows projectcalico/calico v3.32.1: cni-plugin/pkg/dataplane/linux/dataplane_linux.go for the
Pods, felix/bpf-gpl (tc.c: connection first, policy for new connections only; fib_common.h: the
routing table asked from the program, the packet redirected past the node's stack and, to a Pod,
past its veth), felix/dataplane/linux/bpf_ep_mgr.go for where programs are attached. The programs
are those of bpf/cilium.c, which take the same steps: connection table, policy map, route, redirect.
Two differences remain: Calico compiles policies into programs, where ours look them up in a map,
and judges packets to a Pod at the egress of its veth, where ours do so before the redirect.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.clusters.lab.datapaths.calico import GATEWAYS, HOST_MAC, host_settings
from cnibench.clusters.lab.datapaths.ebpf import POLICY, Ebpf, EbpfOptions
from cnibench.clusters.lab.ebpf.maps import NodeMaps
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import calico
from cnibench.clusters.lab.rules.ruleset import Part

_BIRD, _LINK_SCOPE = 12, 253
_EVERYTHING = {4: "default", 6: "default6"}
_HOST_BITS = {4: 32, 6: 128}


class CalicoEbpf(Ebpf):
    """Programs at the Pods' veth ends and at the wire's device; BGP routes between the nodes."""

    name = "calico-ebpf"
    Options = EbpfOptions
    needs = ("tc-bpf",)

    def build(self) -> None:
        a, b = self.deployment.nodes()
        for here, there in ((a, b), (b, a)):
            links.route(
                here.ns, "169.254.0.0/16", dev=here.wire, scope=_LINK_SCOPE
            )  # so that proxy ARP answers for the gateway
            entries = dict.fromkeys(
                ("cilium_ct4_global", "cilium_ct6_global"), self.options.conntrack_entries
            )
            maps = self.maps[here.name] = NodeMaps(
                0, host_routing=self.options.host_routing == "ebpf", entries=entries
            )
            maps.policy(POLICY, self._policy())
            self._neighbourhood(maps, here, there)
            for family in self.deployment.families:
                links.route(
                    here.ns,
                    there.subnets[family],
                    via=there.addresses[family],
                    dev=here.wire,
                    proto=_BIRD,
                )
                links.route(here.ns, here.subnets[family], type="blackhole", proto=_BIRD)
            self._attach(here, here.wire, "cil_from_netdev", "ingress")

    def host_end(self, pod: LabPod) -> str:
        return calico.interface_name("cnibench", pod.name)

    def _pair(self, pod: LabPod) -> tuple[int, str, str]:
        node, mac = pod.node, links.mac(2, pod.node.number, pod.number)
        links.veth(
            node.ns,
            pod.host_end,
            pod.ns,
            pod.interface,
            mtu=self.deployment.mtu,
            mac=HOST_MAC,
            peer_mac=mac,
            up=False,
        )
        node.ns.sysctl(host_settings(pod.host_end))
        for ns, device in ((node.ns, pod.host_end), (pod.ns, pod.interface)):
            links.set_link(ns, device, state="up")
        return links.index(node.ns, pod.host_end), mac, HOST_MAC

    def _configure(self, pod: LabPod, node_mac: str) -> None:
        node = pod.node
        for family, address in pod.addresses.items():
            links.address(pod.ns, pod.interface, f"{address}/{_HOST_BITS[family]}")
            if family == 4:
                links.route(pod.ns, f"{GATEWAYS[4]}/32", dev=pod.interface, scope=_LINK_SCOPE)
            else:
                links.address(node.ns, pod.host_end, f"{GATEWAYS[6]}/64")
            links.route(
                pod.ns,
                _EVERYTHING[family],
                via=GATEWAYS[family],
                dev=pod.interface,
                onlink=family == 6,
            )
            links.route(
                node.ns,
                f"{address}/{_HOST_BITS[family]}",
                dev=pod.host_end,
                scope=_LINK_SCOPE if family == 4 else 0,
            )

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        return ()

    def routed(self, node: LabNode, family: int) -> int:
        """Packets that the node's stack has forwarded (there are no rules to count them)."""
        if family == 4:
            heads, values = (
                line.split()
                for line in node.read_text("/proc/net/snmp").splitlines()
                if line.startswith("Ip: ")
            )
            return int(values[heads.index("ForwDatagrams")])
        counters = dict(line.split() for line in node.read_text("/proc/net/snmp6").splitlines())
        return int(counters["Ip6OutForwDatagrams"])


PROVIDER = CalicoEbpf
