"""A deployment in the lab: one profile with its own pair of nodes, wire and Pods, so that several
profiles exist at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.builders.base import Datapath, builder_of
from cnibench.clusters.lab.namespaces import congestion, features, leftovers, links, sysctls, wire
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod, Role
from cnibench.clusters.lab.proxies.base import Proxy, proxy_of
from cnibench.clusters.lab.services import LabServices
from cnibench.errors import ClusterError, CnibenchError, UnsupportedError
from cnibench.model.cell import Attestation, Cell, Placement
from cnibench.model.conditions import Conditions
from cnibench.model.profile import Profile
from cnibench.system.interrupt import cleaning_up
from cnibench.testbed.capabilities.cell_conditions import CellConditions
from cnibench.testbed.capabilities.cni_processes import CniProcesses
from cnibench.testbed.capabilities.node_devices import NodeDevices
from cnibench.testbed.capabilities.pods.extra import ExtraPods
from cnibench.testbed.capabilities.pods.lifecycle import PodLifecycle, Started
from cnibench.testbed.capabilities.policies import Policies
from cnibench.testbed.capabilities.quick_attestation import QuickAttestation
from cnibench.testbed.capabilities.service_changes import Change, Coming, ServiceChanges
from cnibench.testbed.capabilities.service_paths import ServicePaths
from cnibench.testbed.cluster import Options
from cnibench.testbed.deployment import Deployment, Fidelity
from cnibench.testbed.place import Node, Pod

REFERENCES = 1_000_000  # the first number of a reference
MOST_PODS = 250  # of one node: its subnet is a /24
_SETTLES = 3.0  # s after the start of a deployment until its addresses no longer change routes


class LabDeployment(
    Deployment,
    CellConditions,
    CniProcesses,
    ExtraPods,
    NodeDevices,
    PodLifecycle,
    Policies,
    QuickAttestation,
    ServiceChanges,
    ServicePaths,
):
    """One deployed profile. ``a`` and ``b`` are the nodes, ``mtu`` is the Pods' MTU, ``settings``
    the sysctls that hold, per namespace.
    """

    def __init__(
        self,
        label: str,
        profile: Profile,
        options: Options,
        number: int,
        like: LabDeployment | None = None,
    ) -> None:
        """Builds all of it, with the same Pods as ``like`` has when it is given. Raises
        ClusterError; nothing stays then.
        """
        settings = {**options.settings.get("", {}), **options.settings.get(label, {})}
        builder, given = builder_of(profile, settings)
        assert profile.datapath is not None
        self.label = label
        self.profile = profile
        self.options = options
        self.number = number
        self.fidelity: Fidelity = "baseline" if profile.cni == "none" else "datapath-model"
        self.claim = profile.datapath
        self.families = tuple(family for family in options.ip if family in profile.features.ip) or (
            4,
        )
        self.wire_mtu = options.mtu
        self._congestion_control = options.congestion_control or congestion.DEFAULT
        self._settled = time.monotonic() + _SETTLES
        self.path_mtu = (
            options.mtu
            - self.claim.overhead
            - (self.claim.overhead_ipv6 if 6 in self.families else 0)
        )
        self.mtu = options.mtu if self.claim.pod_mtu == "wire" else self.path_mtu
        self.settings: dict[str, dict[str, str]] = {}
        self.steps: dict[
            str, list[tuple[str, float]]
        ] = {}  # Pod name -> (step, seconds) of its making
        self._namespaces: list[Namespace] = []
        self.made: list[LabPod] = []  # all Pods in the order in which they were made
        self._pods: dict[int, list[LabPod]] = {0: [], 1: []}
        self._monitored: dict[int, list[LabPod]] = {
            0: [],
            1: [],
        }  # those of _pods that pairs are made of
        try:
            self.a, self.b = (self._node(name, index) for index, name in enumerate("ab"))
            self._join()
            self.datapath = self._datapath(builder(self, given))
            self.proxy = profile.proxy or builder.proxies(given)[0]
            self.services: Proxy = proxy_of(self.proxy)(self)
            self._paths = LabServices(self)
            with self.datapath.batch():
                self.datapath.build()
                for node in (self.a, self.b):
                    self.services.build(node)
                    if changed := self.datapath.underlay_features(node):
                        features.write(node.ns, node.wire, changed)
                self._populate(like)
            if like is not None:
                self.services.follow(like.services)
            for ns in self._namespaces:  # another thread may go on with it
                ns.hang_up()
        except BaseException as error:
            with cleaning_up(error):
                self.remove()
            raise

    def _join(self) -> None:
        """Makes the wire between the nodes."""
        wire.join(self.a, self.b, self.options)

    def _datapath(self, model: Datapath) -> Datapath:
        """What makes it: the model of the profile."""
        return model

    def _populate(self, like: LabDeployment | None) -> None:
        if like is None:
            self._ensure(self.a, 2)
            self._ensure(self.b, 1)
            if self.claim.policy == "enforced":
                # The attestation asks for strangers: in this batch their rules cost nothing.
                for node in self.nodes():
                    self.stranger(node)
            return
        for pod in like.made:
            node = self.nodes()[pod.node.number]
            copy = self._pod(node, pod.role, pod.number)
            if pod in like.attested_pods():
                self._monitored[node.number].append(self._with_congestion_control(copy))

    def _namespace(self, name: str) -> Namespace:
        ns = Namespace(f"s{self.number}-{name}")
        self._namespaces.append(ns)
        return ns

    def _node(self, name: str, number: int) -> LabNode:
        ns = self._namespace(name)
        self.settings[name] = ns.sysctl(sysctls.node())
        return LabNode(name, ns, number)

    def _ensure(self, node: LabNode, count: int) -> list[LabPod]:
        """The node's Pods that pairs are made of, ``count`` at least; none of the background load
        or of ``start_pods`` is among them.
        """
        monitored = self._monitored[node.number]
        while len(monitored) < count:
            monitored.append(self._with_congestion_control(self._pod(node, "bench")))
        return monitored

    def _pod(self, node: LabNode, role: Role, number: int | None = None) -> LabPod:
        """One Pod, as a kubelet has it made: sandbox, then the CNI's own steps; each timed."""
        pods = self._pods[node.number]
        if len(pods) >= MOST_PODS:
            raise ClusterError(
                f"node {node.name} has no address left for another Pod",
                f"at most {MOST_PODS} Pods fit on one node",
            )
        taken = {pod.number for pod in pods}
        if number is None:
            number = next(number for number in count() if number not in taken)
        name = f"{node.name}{number}"
        start = time.monotonic()
        if self.datapath.sandbox:
            ns = self._namespace(name)
            self.settings.setdefault("pod", ns.sysctl(sysctls.pod()))
            pod = LabPod(name, ns, node, number, role, self.families)
        else:
            pod = LabPod(name, node.ns, node, number, role, self.families, interface="")
        steps = self.steps[name] = [("sandbox", time.monotonic() - start)]
        pods.append(pod)
        self.made.append(pod)
        start = time.monotonic()
        for step in self.datapath.connect(pod):
            now = time.monotonic()
            steps.append((step, now - start))
            start = now
        self.services.connect(pod)
        return pod

    def pair(self, placement: Placement, number: int = 0) -> tuple[LabPod, LabPod]:
        near, far = self._ensure(self.a, 2 * number + 2), self._ensure(self.b, number + 1)
        return near[2 * number], near[2 * number + 1] if placement == "intra" else far[number]

    def pairs_for(self, cells: Sequence[Cell]) -> list[tuple[LabPod, LabPod]]:
        return [self.pair(cell.placement, cell.pair) for cell in cells]

    def pods(self) -> Iterator[LabPod]:
        """All Pods, node a's first."""
        yield from self._pods[0]
        yield from self._pods[1]

    def attested_pods(self) -> list[LabPod]:
        """The Pods that pairs are made of, in the order in which they were made."""
        return [pod for pod in self.made if pod in self._monitored[pod.node.number]]

    def reference(self) -> LabDeployment:
        """The same profile with the same options and Pods once more, in namespaces of its own.
        Raises ClusterError.
        """
        number = self.number + REFERENCES
        return LabDeployment(self.label, self.profile, self.options, number, like=self)

    def stranger(self, node: LabNode) -> LabPod:
        """A Pod there that the policies of an enforcing profile do not let in; made when first
        asked for (on a with the others).
        """
        for pod in self._pods[node.number]:
            if pod.role == "stranger":
                return pod
        return self._pod(node, "stranger")

    def nodes(self) -> tuple[LabNode, LabNode]:
        return (self.a, self.b)

    def add_pods(self, node: Node, count: int) -> list[Pod]:
        assert isinstance(node, LabNode)
        with self.datapath.batch():
            return [self._with_congestion_control(self._pod(node, "bench")) for _ in range(count)]

    def _with_congestion_control(self, pod: LabPod) -> LabPod:
        congestion.use(pod.ns, self._congestion_control, local=not pod.interface)
        return pod

    def add_pods_on(self, wanted: Sequence[tuple[Node, int]]) -> list[list[Pod]]:
        return [self.add_pods(node, count) for node, count in wanted]

    def read_texts(self, pods: Sequence[Pod], path: str) -> list[str]:
        return [pod.read_text(path) for pod in pods]

    def underlay(self) -> dict[str, str]:
        return {node.name: node.wire for node in self.nodes()}

    def unheld(self) -> list[str]:
        """Settings that do not hold in one of its namespaces, in words."""
        return sorted({said for ns in self._namespaces for said in ns.unheld.values()})

    def alive(self) -> str:
        return self.broken or self.datapath.alive()

    def tunnel_on(self, node: Node, family: int) -> str:
        assert isinstance(node, LabNode)
        return self.datapath.tunnel_on(node, family)

    def reset_state(self) -> None:
        """Removes what the last cell left in the kernel; refuses a deployment that has changed.
        Raises ClusterError.
        """
        if self.broken:
            raise ClusterError(self.broken)
        leftovers.drain(self._namespaces)
        for node in (self.a, self.b):
            if any(not pod.interface for pod in self._monitored[node.number]):
                # the kernel makes local IPv6 routes again some time after a device came up
                time.sleep(max(0.0, self._settled - time.monotonic()))
                congestion.use(node.ns, self._congestion_control, local=True)
        self.datapath.reset_state()
        self.services.forget()

    def address(self, cell: Cell, server: Pod) -> str:
        return self._paths.address(cell, server)

    def port(self, cell: Cell, server: Pod, number: int) -> int:
        return number

    def service_change(
        self, cell: Cell, server: Pod, port: int, change: Change
    ) -> AbstractContextManager[Coming]:
        assert isinstance(server, LabPod)
        return self._paths.change(cell.ip, server, port, change)

    def apply_conditions(
        self, asked: Conditions, client: Pod, server: Pod, cell: Cell | None = None
    ) -> AbstractContextManager[list[dict[str, Any]]]:
        from cnibench.clusters.lab.conditions import apply_conditions

        assert isinstance(client, LabPod)
        assert isinstance(server, LabPod)
        return apply_conditions(self, asked, client, server, cell)

    def denial(self, port: int) -> Callable[[], None]:
        return lambda: self.datapath.deny(port)

    def end_denial(self) -> None:
        self.datapath.deny(None)

    def start_pods(self, node: Node, count: int, at_once: bool) -> list[Started]:
        """Pods through the same steps as all; ``first-packet`` is a TCP connection from the node's
        first Pod, its last step.
        """
        assert isinstance(node, LabNode)
        if not self.datapath.sandbox:
            raise UnsupportedError(
                f"{self.label}: its Pods use the node's network, so nothing is created for a Pod"
            )
        before = set(self._pods[node.number])
        try:
            return (
                self._start_at_once(node, count)
                if at_once
                else [self._start_one(node) for _ in range(count)]
            )
        except BaseException as error:
            with cleaning_up(error):
                self.remove_pods([pod for pod in self._pods[node.number] if pod not in before])
            raise

    def _start_one(self, node: LabNode) -> Started:
        asked = time.monotonic()
        return self._started(self._pod(node, "bench"), asked)

    def _start_at_once(self, node: LabNode, count: int) -> list[Started]:
        """What a daemon writes for all of them together, at the end of the batch, each of them has
        waited for.
        """
        asked = time.monotonic()
        with self.datapath.batch():
            made = [self._pod(node, "bench") for _ in range(count)]
            last = time.monotonic()
        shared = time.monotonic() - last
        for pod in made:
            self.steps[pod.name].append(("rules-of-all", shared))
        return [self._started(pod, asked) for pod in made]

    def _started(self, pod: LabPod, asked: float) -> Started:
        self._first_packet(self._monitored[pod.node.number][0], pod)
        ready = time.monotonic() - asked
        steps = tuple(self.steps[pod.name])
        return Started(
            pod,
            steps,
            ready,
            sum(seconds for step, seconds in steps if step not in ("sandbox", "first-packet")),
        )

    def _first_packet(self, known: LabPod, pod: LabPod) -> None:
        start = time.monotonic()
        for family, address in pod.addresses.items():
            if failure := probe.stream(known.ns, pod.ns, address, family, 1):
                raise ClusterError(
                    f"{self.label}: the new Pod {pod.name} is not reached over IPv{family}:"
                    f" {failure}"
                )
        self.steps[pod.name].append(("first-packet", time.monotonic() - start))

    def remove_pods(self, pods: Sequence[Pod]) -> None:
        with self.datapath.batch():
            for pod in pods:
                assert isinstance(pod, LabPod)
                self.datapath.disconnect(pod)
                self._pods[pod.node.number].remove(pod)
                self.made.remove(pod)
                self.steps.pop(pod.name, None)
                links.delete(
                    pod.node.ns, pod.host_end
                )  # at once: what goes with a namespace goes some time later
                self._namespaces.remove(pod.ns)
                pod.ns.remove()

    def processes(self) -> Mapping[str, int]:
        """The daemons of the model; most models are kernel objects alone."""
        daemons = getattr(self.datapath, "daemons", None)
        return daemons.pids() if daemons is not None else {}

    def attest(self) -> list[Attestation]:
        from cnibench.clusters.lab.attestation.checks import attest

        return attest(self)

    def verify(self) -> list[Attestation]:
        from cnibench.clusters.lab.attestation.comparison import compare

        return compare(self)

    def remove(self) -> None:
        errors: list[str] = []
        if hasattr(self, "services"):
            self.services.remove()
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
            raise ClusterError(
                f"{self.label}: not all of it could be removed: " + "; ".join(errors),
                "it is removed when this program ends",
            )
