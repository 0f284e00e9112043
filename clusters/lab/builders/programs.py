"""Datapaths whose Pods are behind eBPF programs at tc (bpf/cilium.c): endpoints, policies and
connections in maps.
"""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from cnibench.clusters.lab.attestation import capture, probe
from cnibench.clusters.lab.builders.filtered import Filtered, FilterOptions
from cnibench.clusters.lab.ebpf import tc
from cnibench.clusters.lab.ebpf.maps import (
    ALLOW_ALL,
    FORWARDED,
    HOST,
    REMOTE_NODE,
    WORLD,
    NodeMaps,
    Rule,
)
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.model.cell import Attestation
from cnibench.model.conditions import Policies

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment

HOST_BITS = {4: 32, 6: 128}
_ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
_IDENTITY = {"bench": 0x4E01, "stranger": 0x4E02}  # identities of labels begin at 256
_OTHERS = 0x10000  # identities that no Pod of ours has
_POLICY = 0  # all Pods share one
_TRIES = 3
_PROBE = 64 * 1024  # bytes
_TCP, _UDP = 6, 17
_CONNECTIONS = ("cilium_ct4_global", "cilium_ct6_global")


class ProgramOptions(FilterOptions):
    """``host_routing``: ``legacy`` goes through the node's stack, ``ebpf`` delivers with
    redirect_peer and asks the FIB itself. ``conntrack_entries``: size of each family's connection
    table (Cilium's own default depends on the memory: at least 131072).
    """

    host_routing: Literal["ebpf", "legacy"] = "legacy"
    conntrack_entries: int = Field(default=131072, ge=1024, le=1 << 24)


class Programs(Filtered):
    """Subclasses make the nodes' devices and routes, and each Pod's veth pair.

    ``tcx``: programs are attached by TCX where the kernel has it, else at clsact.
    """

    tcx: ClassVar[bool] = False

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self.maps: dict[str, NodeMaps] = {}  # by the node's name

    @abc.abstractmethod
    def host_end(self, pod: LabPod) -> str:
        """The name of the node's end of a Pod's veth pair."""

    @abc.abstractmethod
    def _pair(self, pod: LabPod) -> tuple[int, str, str]:
        """Makes the veth pair: the index of the node's end, the MAC of the Pod's, the MAC of the
        node's.
        """

    @abc.abstractmethod
    def _configure(self, pod: LabPod, node_mac: str) -> None:
        """The Pod's addresses and its way out."""

    @abc.abstractmethod
    def routed(self, node: LabNode, family: int) -> int:
        """Packets of others that the node's own stack has forwarded."""

    def _load_maps(self, here: LabNode, there: LabNode, tunnel: int) -> None:
        """Maps as they are before there is a Pod: the policy, the nodes' own addresses, and that
        all else is the world. ``tunnel`` is the index of the tunnel device, 0 without one.
        """
        maps = self.maps[here.name] = NodeMaps(
            tunnel,
            host_routing=self.options.host_routing == "ebpf",
            entries=dict.fromkeys(_CONNECTIONS, self.options.conntrack_entries),
        )
        maps.policy(_POLICY, self._policy())
        for family in self.deployment.families:
            maps.identity(_ANYWHERE[family], WORLD)
            for address in (here.addresses[family], here.gateways[family]):
                maps.host_address(address)
                maps.identity(f"{address}/{HOST_BITS[family]}", HOST)
            maps.identity(f"{there.addresses[family]}/{HOST_BITS[family]}", REMOTE_NODE)
            maps.identity(
                f"{there.gateways[family]}/{HOST_BITS[family]}",
                REMOTE_NODE,
                there.addresses[4] if self.tunnel else "",
            )

    def _attach(
        self, node: LabNode, device: str, program: str, hook: str, endpoint: int = 0
    ) -> None:
        maps = self.maps[node.name]
        if self.tcx and tc.has_tcx():
            copy = maps.program(program, endpoint)
            tc.attach_tcx(node.ns, device, hook, program, copy)
        else:
            tc.attach(node.ns, device, hook, program, maps.program(program), endpoint)

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
                self.maps[other.name].identity(f"{address}/{HOST_BITS[family]}", identity, over)
        self.maps[node.name].endpoint(
            number, pod.addresses, identity, index, mac, node_mac, _POLICY
        )
        yield "routes"
        self._attach(node, pod.host_end, "cil_from_container", "ingress", number)
        yield "policy"

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
        return {name: maps.policy_size(_POLICY) - own for name, maps in self.maps.items()}

    def policies_expected(self, asked: Policies | None) -> int:
        return len(_added(asked, None))

    def deny(self, port: int | None) -> None:
        self._denied = port
        self._write_policies()

    def _write_policies(self) -> float:
        start = time.monotonic()
        for maps in self.maps.values():
            maps.policy(_POLICY, (*self._policy(), *_added(self._asked, self._denied)))
        return time.monotonic() - start

    def disconnect(self, pod: LabPod) -> None:
        self.maps[pod.node.name].forget_endpoint(pod.number + 1, pod.addresses)
        for maps in self.maps.values():
            for family, address in pod.addresses.items():
                maps.forget_identity(f"{address}/{HOST_BITS[family]}")

    def reset_state(self) -> None:
        for maps in self.maps.values():
            maps.expire(math.inf)

    def remove(self) -> None:
        for maps in self.maps.values():
            maps.close()
        self.maps.clear()

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
