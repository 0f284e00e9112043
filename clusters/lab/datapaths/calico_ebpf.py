"""``calico-ebpf``: Calico's eBPF dataplane: routed veth pairs as in its iptables mode, programs at
tc in place of rules, no kube-proxy.

Follows projectcalico/calico v3.32.1: cni-plugin/pkg/dataplane/linux/dataplane_linux.go for the
Pods, felix/bpf-gpl (tc.c: connection first, policy for new connections only; fib_common.h: the
routing table asked from the program, the packet redirected past the node's stack and, to a Pod,
past its veth), felix/dataplane/linux/bpf_ep_mgr.go for where programs are attached, by TCX where
the kernel has it (6.6; felix/bpf/tc/attach.go, BPFAttachType of config_params.go) and for the
settings of devices (no strict reverse path filter anywhere: the programs check sources). The
programs are those of bpf/cilium.c, which take the same steps: connection table, policy map, route,
redirect.
Two differences remain: Calico compiles policies into programs, where ours look them up in a map,
and judges packets to a Pod at the egress of its veth, where ours do so before the redirect.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.clusters.lab.builders import calico_endpoint
from cnibench.clusters.lab.builders.programs import ProgramOptions, Programs
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules.ruleset import Part


class CalicoEbpf(Programs):
    """Programs at the Pods' veth ends and at the wire's device; BGP routes between the nodes."""

    name = "calico-ebpf"
    Options = ProgramOptions
    needs = ("tc-bpf",)
    tcx = True

    def build(self) -> None:
        a, b = self.deployment.nodes()
        for here, there in ((a, b), (b, a)):
            calico_endpoint.gateway_route(here)
            calico_endpoint.count_connections(here)
            here.ns.sysctl(_wire_settings(here.wire))
            self._load_maps(here, there, 0)
            for family in self.deployment.families:
                calico_endpoint.bgp_routes(here, there, family)
            self._attach(here, here.wire, "cil_from_netdev", "ingress")

    def host_end(self, pod: LabPod) -> str:
        return calico_endpoint.host_end(pod)

    def _pair(self, pod: LabPod) -> tuple[int, str, str]:
        mac = calico_endpoint.pair(self.deployment, pod, rp_filter="0")
        return links.index(pod.node.ns, pod.host_end), mac, calico_endpoint.HOST_MAC

    def _configure(self, pod: LabPod, node_mac: str) -> None:
        calico_endpoint.addresses(pod)
        calico_endpoint.routes(pod)

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


def _wire_settings(device: str) -> dict[str, object]:
    """Loose, so that packets may return past connect-time load balancing (setRPFilter and
    setAcceptLocal of bpf_ep_mgr.go).
    """
    return {
        "net/ipv4/conf/all/rp_filter": 0,
        f"net/ipv4/conf/{device}/rp_filter": 2,
        f"net/ipv4/conf/{device}/accept_local": 1,
    }


PROVIDER = CalicoEbpf
