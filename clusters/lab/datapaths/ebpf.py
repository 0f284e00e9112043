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

import math
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from cnibench.clusters.lab.attestation import capture, probe
from cnibench.clusters.lab.datapaths.filtered import CLUSTER_CIDRS, Filtered, FilterOptions
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.ebpf import tc as ebpf_tc
from cnibench.clusters.lab.ebpf.maps import (
    ALLOW_ALL,
    FORWARDED,
    HOST,
    REMOTE_NODE,
    WORLD,
    NodeMaps,
    Rule,
)
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import cilium
from cnibench.clusters.lab.rules.ruleset import IpSet, Part
from cnibench.model.cell import Attestation
from cnibench.model.conditions import Policies

_EVERYTHING = {4: "default", 6: "default6"}
_ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
_HOST_BITS = {4: 32, 6: 128}
_VXLAN_PORT, _GENEVE_PORT = 8472, 6081  # the chart's tunnelPort
_IDENTITY = {"bench": 0x4E01, "stranger": 0x4E02}  # identities of labels begin at 256
POLICY = 0  # all Pods share one
_TRIES = 3
_PROBE = 64 * 1024  # bytes
_TCP, _UDP = 6, 17
_AF = {4: socket.AF_INET, 6: socket.AF_INET6}
# pkg/datapath/linux/linux_defaults/linux_defaults.go; rtnetlink(7)
_TO_PROXY, _PROXY_FIRST, _LOCAL_LATER = 2004, 9, 100
_LOCAL_TABLE, _LOCAL_ROUTE, _SCOPE = 255, 2, {4: 254, 6: 0}
_OTHERS = 0x10000  # identities that no Pod of ours has


class EbpfOptions(FilterOptions):
    """``host_routing``: ``legacy`` goes through the node's stack, ``ebpf`` delivers with
    redirect_peer and asks the FIB itself.

    ``kube_proxy``: are kube-proxy's and the kubelet's rules there? ``masquerade``: by whom Pods'
    packets that leave the cluster are.
    ``conntrack_entries``: size of each family's connection table (Cilium's own default depends on
    the memory: at least 131072).
    """

    host_routing: Literal["ebpf", "legacy"] = "legacy"
    kube_proxy: bool = True
    masquerade: Literal["iptables", "ebpf"] = "iptables"
    conntrack_entries: int = Field(default=131072, ge=1024, le=1 << 24)


class Ebpf(Filtered):
    """Pods behind programs at tc; the claim's encapsulation says whether and which tunnel."""

    name = "ebpf"
    Options = EbpfOptions
    needs: ClassVar[tuple[str, ...]] = ("tc-bpf", "iptables")

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self.maps: dict[str, NodeMaps] = {}  # by the node's name

    @property
    def tunnel(self) -> str:
        return {"vxlan": "cilium_vxlan", "geneve": "cilium_geneve"}.get(
            self.deployment.claim.encapsulation, ""
        )

    def build(self) -> None:
        a, b = self.deployment.nodes()
        for here, there in ((a, b), (b, a)):
            self._devices(here)
            entries = dict.fromkeys(
                ("cilium_ct4_global", "cilium_ct6_global"), self.options.conntrack_entries
            )
            tunnel = links.index(here.ns, self.tunnel) if self.tunnel else 0
            maps = self.maps[here.name] = NodeMaps(
                tunnel, host_routing=self.options.host_routing == "ebpf", entries=entries
            )
            maps.policy(POLICY, self._policy())
            self._neighbourhood(maps, here, there)
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
            links.address(ns, "cilium_host", f"{node.gateways[family]}/{_HOST_BITS[family]}")
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

    def _neighbourhood(self, maps: NodeMaps, here: LabNode, there: LabNode) -> None:
        """What the programs know before there is a Pod: the nodes' own addresses, and that all else
        is the world.
        """
        for family in self.deployment.families:
            maps.identity(_ANYWHERE[family], WORLD)
            for address in (here.addresses[family], here.gateways[family]):
                maps.host_address(address)
                maps.identity(f"{address}/{_HOST_BITS[family]}", HOST)
            maps.identity(f"{there.addresses[family]}/{_HOST_BITS[family]}", REMOTE_NODE)
            maps.identity(
                f"{there.gateways[family]}/{_HOST_BITS[family]}",
                REMOTE_NODE,
                there.addresses[4] if self.tunnel else "",
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

    def _attach(
        self, node: LabNode, device: str, program: str, hook: str, endpoint: int = 0
    ) -> None:
        ebpf_tc.attach(
            node.ns, device, hook, program, self.maps[node.name].program(program), endpoint
        )

    def connect(self, pod: LabPod) -> Iterator[str]:
        node, number = pod.node, pod.number + 1
        pod.host_end = self.host_end(pod)
        index, mac, node_mac = self._pair(pod)
        yield "link"
        self._configure(pod, node_mac)
        yield "address"
        identity = _IDENTITY[pod.role]
        for other in self.deployment.nodes():
            over = node.addresses[4] if self.tunnel and other is not node else ""
            for family, address in pod.addresses.items():
                self.maps[other.name].identity(f"{address}/{_HOST_BITS[family]}", identity, over)
        self.maps[node.name].endpoint(number, pod.addresses, identity, index, mac, node_mac, POLICY)
        yield "routes"
        self._attach(node, pod.host_end, "cil_from_container", "ingress", number)
        yield "policy"

    def host_end(self, pod: LabPod) -> str:
        """The name of the node's end of a Pod's veth pair."""
        return f"lxc{pod.node.number}{pod.number + 1:08x}"

    def _pair(self, pod: LabPod) -> tuple[int, str, str]:
        """Makes the veth pair: the index of the node's end, the MAC of the Pod's, the MAC of the
        node's.
        """
        node = pod.node
        node_mac, mac = links.mac(1, node.number, pod.number), links.mac(2, node.number, pod.number)
        index, _ = links.veth(
            node.ns,
            pod.host_end,
            pod.ns,
            pod.interface,
            mtu=self.deployment.mtu,
            mac=node_mac,
            peer_mac=mac,
        )
        return index, mac, node_mac

    def _configure(self, pod: LabPod, node_mac: str) -> None:
        """The Pod's addresses and its way out."""
        for family, address in pod.addresses.items():
            links.address(pod.ns, pod.interface, f"{address}/{_HOST_BITS[family]}")
            links.neighbour(pod.ns, pod.interface, pod.node.gateways[family], node_mac)
            links.route(
                pod.ns,
                _EVERYTHING[family],
                via=pod.node.gateways[family],
                dev=pod.interface,
                onlink=True,
            )

    def _policy(self) -> tuple[Rule, ...]:
        """Enforced: in from the benchmark's Pods and from nodes, out everywhere. Else what an
        endpoint without policy has.
        """
        if self.deployment.claim.policy != "enforced":
            return ALLOW_ALL
        return (
            *(Rule(identity=identity) for identity in (_IDENTITY["bench"], HOST, REMOTE_NODE)),
            Rule(egress=True),
        )

    def policies(self, asked: Policies | None) -> float:
        self._asked = asked
        return self._write_policies()

    def policies_found(self) -> Mapping[str, int]:
        own = len(self._policy())
        return {name: maps.policy_size(POLICY) - own for name, maps in self.maps.items()}

    def policies_expected(self, asked: Policies | None) -> int:
        return len(_added(asked, None))

    def deny(self, port: int | None) -> None:
        self._denied = port
        self._write_policies()

    def _write_policies(self) -> float:
        start = time.monotonic()
        for maps in self.maps.values():
            maps.policy(POLICY, (*self._policy(), *_added(self._asked, self._denied)))
        return time.monotonic() - start

    def disconnect(self, pod: LabPod) -> None:
        self.maps[pod.node.name].forget_endpoint(pod.number + 1, pod.addresses)

    def reset_state(self) -> None:
        for maps in self.maps.values():
            maps.expire(math.inf)

    def remove(self) -> None:
        for maps in self.maps.values():
            maps.close()
        self.maps.clear()

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        mode: cilium.Masquerade = (
            "none" if self.options.masquerade == "ebpf" else "tunnel" if self.tunnel else "native"
        )
        agent = cilium.rules(
            family, CLUSTER_CIDRS[family], node.subnets[family], node.gateways[family], mode
        )
        return (self.kube_proxy(family), agent) if self.options.kube_proxy else (agent,)

    def sets(self, node: LabNode, family: int) -> Sequence[IpSet]:
        if self.tunnel or self.options.masquerade == "ebpf":
            return ()
        return (
            cilium.nodes_set(
                family, [there.addresses[family] for there in self.deployment.nodes()]
            ),
        )

    def checks(self) -> Sequence[Attestation]:
        found: list[Attestation] = []
        for family in self.deployment.families:
            found += self._forwarded(family)
        return found

    def _forwarded(self, family: int) -> Iterator[Attestation]:
        """The programs themselves count the probe's packets; inside a node no rule does; between
        nodes the VNI is the identity.
        """
        a, b = self.deployment.nodes()
        near, far = self.deployment.pair("intra"), self.deployment.pair("inter")
        for _ in range(_TRIES):  # a late packet of an earlier probe may be among them, once
            rules, before = self.routed(a, family), self._counts(a)
            failure = probe.stream(
                near[0].ns, near[1].ns, near[1].addresses[family], family, _PROBE
            )
            after, hits = self._counts(a), self.routed(a, family) - rules
            if not hits:
                break
        sent, got = after[0] - before[0], after[1] - before[1]
        # the connection's opening and its data alone are four packets, whatever their size
        passed = not failure and min(sent, got) >= 4
        yield self.deployment.attestation(
            "ebpf-forwards-intra",
            "counted by the programs",
            failure or f"{sent} sent, {got} delivered",
            passed,
            family,
        )
        yield self.deployment.attestation(
            "no-rules-intra",
            "no packet at the rules of FORWARD",
            f"{hits} packets at the rules of FORWARD",
            not hits,
            family,
        )

        before, there = self._counts(a), self._counts(b)
        with capture.watching(a) as seen:
            failure = probe.stream(far[0].ns, far[1].ns, far[1].addresses[family], family, _PROBE)
        sent, got = self._counts(a)[0] - before[0], self._counts(b)[1] - there[1]
        passed = not failure and min(sent, got) >= 4
        yield self.deployment.attestation(
            "ebpf-forwards-inter",
            "counted by the programs",
            failure or f"{sent} sent, {got} delivered",
            passed,
            family,
        )
        if self.tunnel:
            keys = {
                packet.key
                for packet in seen.between(far[0].addresses[family], far[1].addresses[family])
            }
            expected = _IDENTITY[far[0].role]
            yield self.deployment.attestation(
                "identity-in-vni",
                str(expected),
                ", ".join(map(str, sorted(keys))) or "nothing",
                keys == {expected},
                family,
            )

    def _counts(self, node: LabNode) -> tuple[int, int]:
        maps = self.maps[node.name]
        return maps.counted(FORWARDED, "egress"), maps.counted(FORWARDED, "ingress")

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


def _added(asked: Policies | None, denied: int | None) -> list[Rule]:
    """Entries of a map, which has no order: those of other identities for what a packet passes, the
    peer's own for what it meets first.

    Packets of the direction that a connection was opened in meet the policy each time, so nothing
    has to be bypassed.
    """
    rules = [] if denied is None else [Rule(proto=_UDP, port=denied, deny=True)]
    if asked is not None:
        rules += [
            Rule(identity=_IDENTITY["bench"], proto=_TCP, port=port)
            for port in range(1, asked.restrictions + 1)
        ]
        first = int(bool(asked.entries) and asked.setting == "top-of-chain")
        rules += [Rule(identity=_IDENTITY["bench"], proto=_TCP)] * first
        rules += [
            Rule(identity=_OTHERS + number, proto=_TCP, port=80)
            for number in range(asked.entries - first)
        ]
    return rules


PROVIDER = Ebpf
