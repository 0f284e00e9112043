"""A profile on a cluster: installed by its own means, with our agents and Pods next to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.api.following import Following
from cnibench.clusters.kubernetes.nodes import restarts, tunnels
from cnibench.clusters.kubernetes.nodes.nodes import facts
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod, on_each
from cnibench.clusters.kubernetes.nodes.processes import Processes
from cnibench.clusters.kubernetes.pods.denial import Denying
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.errors import CnibenchError
from cnibench.model.cell import Attestation, Cell
from cnibench.model.conditions import Conditions
from cnibench.testbed.capabilities.cell_conditions import CellConditions
from cnibench.testbed.capabilities.cni_processes import CniProcesses
from cnibench.testbed.capabilities.node_devices import NodeDevices
from cnibench.testbed.capabilities.pods.extra import ExtraPods
from cnibench.testbed.capabilities.pods.lifecycle import PodLifecycle, Started
from cnibench.testbed.capabilities.policies import Policies
from cnibench.testbed.capabilities.service_changes import Change, Coming, ServiceChanges
from cnibench.testbed.capabilities.service_paths import ServicePaths
from cnibench.testbed.place import Node, Pod

if TYPE_CHECKING:
    from cnibench.clusters.kubernetes.kernel_state.difference import State


class KubernetesDeployment(
    MeasuredPods,
    CellConditions,
    ExtraPods,
    CniProcesses,
    NodeDevices,
    PodLifecycle,
    Policies,
    ServiceChanges,
    ServicePaths,
):
    """The measured Pods with all that a real cluster can do for them."""

    _denying: Denying | None = None  # what denies UDP to one port
    _started = 0  # calls of start_pods
    _processes: Processes | None = None
    _news: Following | None = None  # of all Pods in our namespace
    _listed: State | None = None  # what the kernels had after the installation

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._starts = on_each(self._nodes, restarts.start_of)

    @cached_property
    def _tunnels(self) -> dict[tuple[str, int], str]:
        """Of a node's name and a family."""
        return {}

    def underlay(self) -> dict[str, str]:
        return {node.name: node.device for node in self._nodes if node.device}

    def tunnel_on(self, node: Node, family: int) -> str:
        """The profile's; else the device of a tunnel's kind that the node routes Pods through, or
        (no route tells) the only one.
        """
        if (node.name, family) not in self._tunnels:
            self._tunnels[(node.name, family)] = tunnels.find(
                node,
                self.profile,
                family,
                next(
                    (
                        pod.addresses.get(family, "")
                        for pod in self._pods.values()
                        if pod.node.name != node.name and pod.interface
                    ),
                    "",
                ),
                self.underlay().get(node.name, ""),
            )
        return self._tunnels[(node.name, family)]

    def attest(self) -> list[Attestation]:
        from cnibench.clusters.kubernetes.cni.attest import attest

        if not all(node.host for node in self._nodes):
            return self.reached()
        return self.with_kernel_state(lambda: attest(self))

    def with_kernel_state(self, checks: Callable[[], list[Attestation]]) -> list[Attestation]:
        """The checks, and what the kernels have: listed after the first of them, and compared with
        that before all later ones.
        """
        from cnibench.clusters.kubernetes.kernel_state import looks

        if self._listed is None:
            found = checks()
            self._listed = looks.first_look(
                self.access, self.namespace, self._nodes, self.measured()
            )
            return found
        changes = looks.changes(self.access, self.namespace, self._nodes, self._listed)
        return [*(self.attestation(*one) for one in changes), *checks()]

    def reset_state(self) -> None:
        """What a Pod's kernel remembers of its last peer goes, where we may."""
        self.processes()  # looked for here, not in a window, as the tunnels are
        if self._processes is not None:
            self._processes.reset_state()
        for node in self._nodes:
            for family in self.families:
                self.tunnel_on(node, family)
        if self.making.confined:
            return
        for pod in self._pods.values():
            if pod.interface and pod.gateway.python:  # it has a connection: it has been measured
                pod.run(["ip", "tcp_metrics", "flush"], timeout=20, check=False)

    def alive(self) -> str:
        """Which node is not Ready or was restarted, which Pod does not run, or that the API server
        does not answer.
        """
        if self.broken:
            return self.broken
        installed = self.profile.kubernetes
        no_cni = installed is not None and installed.host_network
        try:
            if self._all_run():
                return ""
            for node in self._nodes:
                now = facts(self.access.get("nodes", node.facts.name, timeout=20))
                if not now.ready and not (no_cni and now.lacks_only_cni):
                    return f"node {node.name} is not Ready: {now.reason}"
            there = self.access.listed("pods", self.namespace, timeout=20)
            if gone := sorted(self._pods.keys() - {item["metadata"]["name"] for item in there}):
                return f"the Pod {gone[0]} is gone: somebody else has removed it"
            for item in there:
                if not pods.is_ready(item) and not item["metadata"].get("deletionTimestamp"):
                    if where := self._restarted(item["spec"].get("nodeName", "")):
                        self.broken = f"node {where} was restarted, and its Pods ended with it"
                        return self.broken
                    reason, said = pods.trouble(item)
                    return (
                        f"the Pod {item['metadata']['name']} runs no more: {reason or 'not Ready'}"
                        f" {said}".strip()
                    )
        except CnibenchError as error:
            return error.message
        return ""

    def _restarted(self, name: str) -> str:
        """The node of that name on the cluster, as we call it, if it was restarted since this
        deployment was made; else ''.
        """
        for node, start in zip(self._nodes, self._starts, strict=True):
            if node.facts.name == name and restarts.restarted(node, start):
                return node.name
        return ""

    def _all_run(self) -> bool:
        """Are all Pods there and Ready? Those of a node that is not Ready are not."""
        if self._news is None:
            self._news = Following(self.access, self.namespace)
        there = {item["metadata"]["name"]: item for item in self._news.items()}
        return self._pods.keys() <= there.keys() and all(map(pods.is_ready, there.values()))

    def disconnect(self) -> None:
        super().disconnect()
        if self._news is not None:
            self._news.close()

    def apply_conditions(
        self, asked: Conditions, client: Pod, server: Pod, cell: Cell | None = None
    ) -> AbstractContextManager[list[dict[str, Any]]]:
        from cnibench.clusters.kubernetes.pods.conditions import apply_conditions

        assert isinstance(client, KubernetesPod)
        assert isinstance(server, KubernetesPod)
        return apply_conditions(self, asked, client, server, cell)

    def service_change(
        self, cell: Cell, server: Pod, port: int, change: Change
    ) -> AbstractContextManager[Coming]:
        from cnibench.clusters.kubernetes.pods.service_changes import changing

        assert isinstance(server, KubernetesPod)
        return changing(self, server, cell.ip, port, change)

    def denial(self, port: int) -> Callable[[], None]:
        from cnibench.clusters.kubernetes.pods import denial

        self._denying = denial.prepare(self, port)
        return self._denying.send

    def end_denial(self) -> None:
        from cnibench.clusters.kubernetes.pods import denial

        denying, self._denying = self._denying, None
        if denying is not None:
            denial.end(self, denying)

    def start_pods(self, node: Node, count: int, at_once: bool) -> list[Started]:
        from cnibench.clusters.kubernetes.pods.startup import start

        assert isinstance(node, KubernetesNode)
        self._started += 1
        names = [f"{node.name}s{self._started}-{number}" for number in range(count)]
        return start(self, node, names, at_once)

    def remove_pods(self, pods: Sequence[Pod]) -> None:
        from cnibench.clusters.kubernetes.pods.startup import remove

        remove(self, [pod.name for pod in pods])

    def processes(self) -> Mapping[str, int | tuple[Node, int]] | None:
        """Those that ``reset_state`` found; None where the nodes cannot be looked into, or the
        profile is not known.
        """
        if not all(node.host for node in self._nodes) or self.profile.kubernetes is None:
            return None
        if self._processes is None:
            known = Processes(self.access, self.profile, self._nodes)
            known.look()
            self._processes = known
        return self._processes.found
