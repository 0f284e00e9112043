"""A stand: one profile with its own pair of nodes, wire and Pods, so that several profiles stand side by side."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from cnibench.cell import Attestation, Placement
from cnibench.cluster import Fidelity, Node, Options, Pod, Standing
from cnibench.clusters.lab import features, sysctls, wire
from cnibench.clusters.lab.base import builder_of
from cnibench.clusters.lab.netns import Namespace
from cnibench.clusters.lab.places import LabNode, LabPod, Role
from cnibench.errors import ClusterError, CnibenchError
from cnibench.profile import Profile

_MOST_PODS = 250  # of one node: its subnet is a /24


class Stand(Standing):
    """One profile, standing. ``a`` and ``b`` are the nodes, ``mtu`` is the Pods' MTU, ``settings`` the sysctls that hold, per namespace."""

    def __init__(self, label: str, profile: Profile, options: Options, number: int) -> None:
        """Builds all of it. Raises ClusterError; nothing stays then."""
        builder, given = builder_of(profile, {**options.settings.get("", {}), **options.settings.get(label, {})})
        assert profile.datapath is not None
        self.label = label
        self.profile = profile
        self.options = options
        self.number = number
        self.fidelity: Fidelity = "baseline" if profile.features.network_model == "host" else "datapath-model"
        self.claim = profile.datapath
        self.families = tuple(family for family in options.ip if family in profile.features.ip) or (4,)
        self.wire_mtu = options.mtu
        self.mtu = options.mtu - self.claim.overhead - (self.claim.overhead_ipv6 if 6 in self.families else 0)
        self.settings: dict[str, dict[str, str]] = {}
        self.steps: dict[str, list[tuple[str, float]]] = {}  # Pod name -> (step, seconds) of its making
        self._namespaces: list[Namespace] = []
        self._pods: dict[int, list[LabPod]] = {0: [], 1: []}
        try:
            self.a, self.b = (self._node(name, index) for index, name in enumerate("ab"))
            wire.join(self.a, self.b, options)
            self.datapath = builder(self, given)
            with self.datapath.batch():
                self.datapath.build()
                for node in (self.a, self.b):
                    if changed := self.datapath.underlay_features(node):
                        features.write(node.ns, node.wire, changed)
                self._ensure(self.a, 2)
                self._ensure(self.b, 1)
        except BaseException:
            with contextlib.suppress(CnibenchError):
                self.remove()
            raise

    def _namespace(self, name: str) -> Namespace:
        ns = Namespace(f"s{self.number}-{name}")
        self._namespaces.append(ns)
        return ns

    def _node(self, name: str, number: int) -> LabNode:
        ns = self._namespace(name)
        self.settings[name] = ns.sysctl(sysctls.node())
        return LabNode(name, ns, number)

    def _ensure(self, node: LabNode, count: int) -> None:
        while len(self._pods[node.number]) < count:
            self._pod(node, "bench")

    def _pod(self, node: LabNode, role: Role) -> LabPod:
        """One Pod, as a kubelet has it made: sandbox, then the CNI's own steps; each timed."""
        pods = self._pods[node.number]
        if len(pods) >= _MOST_PODS:
            raise ClusterError(f"node {node.name} has no address left for another Pod", f"at most {_MOST_PODS} Pods stand on one node")
        name = f"{node.name}{len(pods)}"
        start = time.monotonic()
        if self.datapath.sandbox:
            ns = self._namespace(name)
            self.settings.setdefault("pod", ns.sysctl(sysctls.pod()))
            pod = LabPod(name, ns, node, len(pods), role, self.families)
        else:
            pod = LabPod(name, node.ns, node, len(pods), role, self.families, interface="")
        steps = self.steps[name] = [("sandbox", time.monotonic() - start)]
        pods.append(pod)
        start = time.monotonic()
        for step in self.datapath.connect(pod):
            now = time.monotonic()
            steps.append((step, now - start))
            start = now
        return pod

    def pair(self, placement: Placement, number: int = 0) -> tuple[LabPod, LabPod]:
        self._ensure(self.a, 2 * number + 2)
        self._ensure(self.b, number + 1)
        server = self._bench(self.a)[2 * number + 1] if placement == "intra" else self._bench(self.b)[number]
        return self._bench(self.a)[2 * number], server

    def _bench(self, node: LabNode) -> list[LabPod]:
        return [pod for pod in self._pods[node.number] if pod.role == "bench"]

    def pods(self) -> Iterator[LabPod]:
        """All Pods, node a's first."""
        yield from self._pods[0]
        yield from self._pods[1]

    def stranger(self, node: LabNode) -> LabPod:
        """A Pod there that the policies of an enforcing profile do not let in; made when first asked for."""
        for pod in self._pods[node.number]:
            if pod.role == "stranger":
                return pod
        return self._pod(node, "stranger")

    def nodes(self) -> tuple[LabNode, LabNode]:
        return (self.a, self.b)

    def add_pods(self, node: Node, count: int) -> list[Pod]:
        assert isinstance(node, LabNode)
        with self.datapath.batch():
            return [self._pod(node, "bench") for _ in range(count)]

    def underlay(self) -> dict[str, str]:
        return {node.name: node.wire for node in self.nodes()}

    def tunnel(self) -> str:
        return self.datapath.tunnel

    def alive(self) -> str:
        return self.datapath.alive()

    def attestation(self, check: str, expected: str, observed: str, passed: bool, ip: int = 4) -> Attestation:
        """One check of this stand."""
        name = self.profile.name
        return Attestation(label=self.label, profile=name, check=check, expected=expected, observed=observed, passed=passed, ip=ip)

    def attest(self) -> list[Attestation]:
        from cnibench.clusters.lab.attest import attest

        return attest(self)

    def remove(self) -> None:
        errors: list[str] = []
        if hasattr(self, "datapath"):
            try:
                self.datapath.remove()
            except CnibenchError as error:
                errors.append(error.message)
        while self._namespaces:
            try:
                self._namespaces.pop().remove()
            except CnibenchError as error:
                errors.append(error.message)
        if errors:
            raise ClusterError(f"{self.label}: not all of it could be removed: " + "; ".join(errors), "it goes when this program ends")
