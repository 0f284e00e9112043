"""The measured Pods of a profile on a cluster: made as the cells ask for them, in pairs on the
measured nodes, with Services before the servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cnibench.clusters.kubernetes.api import objects, pods
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import Making, Role
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod
from cnibench.clusters.kubernetes.pods import background, paths, standing_policies
from cnibench.clusters.kubernetes.pods.policy_objects import Kind
from cnibench.clusters.kubernetes.pods.services import Services
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.cell import Attestation, Cell, Placement
from cnibench.model.profile import Profile
from cnibench.system.interrupt import cleaning_up
from cnibench.testbed.cluster import Options
from cnibench.testbed.deployment import Deployment, Fidelity
from cnibench.testbed.place import Node, Pod


class MeasuredPods(Deployment):
    """``nodes`` are the measured ones, the client's first, ``variables`` what the installation was
    given.
    """

    def __init__(
        self,
        label: str,
        profile: Profile,
        options: Options,
        access: Access,
        making: Making,
        nodes: Sequence[KubernetesNode],
        variables: Mapping[str, str],
        prefix: str = "",
    ) -> None:
        """Of a CNI that is ready. The Pods of the first pair are made, their names on the cluster
        with ``prefix``. Raises ClusterError; nothing of ours stays then but the agents.
        """
        self.label = label
        self.profile = profile
        self.options = options
        self.access = access
        self.making = making
        self.namespace = making.namespace
        self.variables = variables
        self.prefix = prefix
        self.settings = {**options.settings.get("", {}), **options.settings.get(label, {})}
        self.families = tuple(family for family in options.ip if family in profile.features.ip) or (
            4,
        )
        self.fidelity: Fidelity = "baseline" if profile.features.network_model == "host" else "cni"
        self.services = Services(access, making, self.families, label)
        # server to the policies that let its pair in, by TCP alone or as they are
        self.restrict: dict[str, tuple[Kind, Callable[[bool], list[dict[str, Any]]]]] = {}
        # done to every Pod that is made
        self.each_pod: Callable[[KubernetesPod], None] = lambda pod: None
        self._nodes = list(nodes)
        self._pods: dict[str, KubernetesPod] = {}
        self._bench(
            [("a0", 0, False, "client"), ("a1", 0, False, "server"), ("b0", 1, False, "server")]
        )

    def nodes(self) -> tuple[KubernetesNode, ...]:
        return tuple(self._nodes)

    def pods(self) -> list[KubernetesPod]:
        return list(self._pods.values())

    def measured(self) -> list[KubernetesPod]:
        """Without those of ``add_pods_on``, which come and go."""
        added = tuple(f"{node.name}x" for node in self._nodes)
        return [pod for name, pod in self._pods.items() if not name.startswith(added)]

    def pair(self, placement: Placement, number: int = 0) -> tuple[KubernetesPod, KubernetesPod]:
        client, server = self._bench(self._pair("pod", placement, number))
        return client, server

    def pairs_for(self, cells: Sequence[Cell]) -> list[tuple[KubernetesPod, KubernetesPod]]:
        """Those that are missing are made together."""
        self._bench(
            [pod for cell in cells for pod in self._pair(cell.path, cell.placement, cell.pair)]
        )
        return [self.pair_for(cell) for cell in cells]

    def pair_for(self, cell: Cell) -> tuple[KubernetesPod, KubernetesPod]:
        """With the Service before the server where the cell's path goes through one. Raises
        UnsupportedError, ClusterError.
        """
        client, server = self._bench(self._pair(cell.path, cell.placement, cell.pair))
        if paths.through_service(cell.path):
            self.services.wait_reached(cell, client, server)
        return client, server

    def _pair(
        self, path: str, placement: Placement, number: int
    ) -> list[tuple[str, int, bool, Role]]:
        """Pair ``number``'s two Pods."""
        one, other = (self._nodes.index(node) for node in self.between(placement, number))
        client, server = paths.on_host(path)
        first, second = (
            f"{agents.letter(node)}{'h' if host else ''}"
            for node, host in ((one, client), (other, server))
        )
        index = 1 if placement == "intra" else 0
        return [
            (f"{first}{2 * number}", one, client, "client"),
            (f"{second}{2 * number + index}", other, server, "server"),
        ]

    def between(self, placement: Placement, number: int) -> tuple[KubernetesNode, KubernetesNode]:
        """The nodes of pair ``number``'s client and server: (a, b), then (c, a) where there are
        three, (c, d) where there are four.
        """
        one = 2 * number % len(self._nodes)
        return (
            self._nodes[one],
            self._nodes[one if placement == "intra" else (one + 1) % len(self._nodes)],
        )

    def pair_facts(self) -> dict[str, Any]:
        """Between which nodes the pairs are, for env.json; nothing where all are between the
        same.
        """
        names = [
            f"{one.name} to {other.name}"
            for one, other in (self.between("inter", pair) for pair in range(self.options.pairs))
        ]
        return {"pairs": names} if len(set(names)) > 1 else {}

    def reached(self) -> list[Attestation]:
        """What can be said of a datapath that may not be looked into, or that no profile describes:
        that it carries a connection. Of one that is not made the policies that may forbid it are
        named.
        """
        found = []
        both: tuple[Placement, ...] = ("intra", "inter")
        for placement in both:
            client, server = self.pair(placement)
            for family in self.families:
                try:
                    paths.wait_reached(
                        client, server, "address", server.addresses[family], family, 0
                    )
                    failure = ""
                except CnibenchError as error:
                    names = [one.pod for one in (client, server) if one.interface]
                    policies = standing_policies.named(self.access, self.namespace, names)
                    failure = "; ".join(filter(None, (error.message, policies)))
                found.append(
                    self.attestation(
                        f"reach-{placement}",
                        "a connection is made",
                        failure or "made",
                        not failure,
                        family,
                    )
                )
        return found

    def address(self, cell: Cell, server: Pod) -> str:
        """Where the client connects to on the cell's path; a Service is made when it is first asked
        for. Raises UnsupportedError.
        """
        return self.services.address(cell, self._pods[server.name])

    def port(self, cell: Cell, server: Pod, number: int) -> int:
        return self.services.port(cell, self._pods[server.name], number)

    def add_pods_on(self, wanted: Sequence[tuple[Node, int]]) -> list[list[Pod]]:
        """All in one request."""
        groups: list[list[tuple[str, int, bool, Role]]] = []
        for node, count in wanted:
            index = next(number for number, one in enumerate(self._nodes) if one.name == node.name)
            known = [*self._pods, *(item[0] for group in groups for item in group)]
            first = sum(1 for name in known if name.startswith(f"{node.name}x"))
            groups.append(
                [(f"{node.name}x{first + more}", index, False, "client") for more in range(count)]
            )
        self._bench([item for group in groups for item in group], many=True)
        return [[self._pods[item[0]] for item in group] for group in groups]

    def read_texts(self, pods: Sequence[Pod], path: str) -> list[str]:
        return background.read([self._pods[pod.name] for pod in pods], path)

    def add_stranger(self) -> KubernetesPod:
        """A Pod on the client's node that the policies of an enforcing profile do not let in."""
        return self._bench([("as0", 0, False, "stranger")])[0]

    def add_strangers(self) -> list[KubernetesPod]:
        """The same, and another one on the server's node."""
        return self._bench([("as0", 0, False, "stranger"), ("as1", 1, False, "stranger")])

    def _bench(
        self, wanted: Sequence[tuple[str, int, bool, Role]], many: bool = False
    ) -> list[KubernetesPod]:
        """The Pods of those (name, node's number, in the node's namespace?, role); those that are
        missing are made together, or none.

        ``many``: their connections would cost more than the load, so they are entered from their
        nodes where agents may.
        """
        new = [item for item in wanted if item[0] not in self._pods]
        if new:
            try:
                self._make(new, many)
            except Exception as error:  # after Ctrl-C the whole deployment is removed
                # One that stays and is not ready would be taken for a broken deployment, and
                # fail the cells that do without it.
                with cleaning_up(error):
                    self._unmake([item[0] for item in new])
                raise
        return [self._pods[item[0]] for item in wanted]

    def _create(self, made: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """They, as the cluster has admitted them."""
        return self.access.apply(*made)

    def _make(self, new: Sequence[tuple[str, int, bool, Role]], many: bool) -> None:
        host_only = self.profile.features.network_model == "host"
        made = [
            objects.pod(
                self.making,
                self.prefix + name,
                self._nodes[number].facts.name,
                host=host or host_only,
                role=role,
            )
            for name, number, host, role in new
        ]
        self._check_admitted(self._create(made))
        names = ",".join(self.prefix + item[0] for item in new)
        ready = pods.wait_ready(
            self.access, self.namespace, f"{objects.POD} in ({names})", len(new)
        )
        known = {pod["metadata"]["name"]: pods.addresses(pod) for pod in ready}
        for name, number, host, _ in new:
            node = self._nodes[number]
            there = self.prefix + name
            gateway = Gateway(
                self.access, self.namespace, there, f"the Pod {there} on node {node.name}"
            )
            addresses = node.addresses if host or host_only else known[there]
            pod = KubernetesPod(there, node, gateway, addresses, host or host_only)
            pod.name = name
            self._pods[name] = pod
        if many:
            self._pods |= {
                pod.name: pod
                for pod in background.enter(
                    self.access, self.namespace, [self._pods[item[0]] for item in new]
                )
            }
        for name, *_ in new:
            self.each_pod(self._pods[name])

    def _check_admitted(self, made: Sequence[Mapping[str, Any]]) -> None:
        """Raises ClusterError for what admission has added to a Pod and would be measured, too."""
        for pod in made:
            if added := pods.added_containers(pod):
                raise ClusterError(
                    f"the cluster added the container {', '.join(added)} to the Pod"
                    f" {pod['metadata']['name']}: its work would be measured, too",
                    f"exempt the namespace {self.namespace} from the admission webhook or policy"
                    " that adds it (a service mesh's injection, say)",
                )
            if not self.making.resources and (limit := pods.cpu_limit(pod)):
                raise ClusterError(
                    f"the cluster limits the CPU time of the Pod {pod['metadata']['name']} to"
                    f" {limit}: the limit would be measured",
                    "set one with --pod-resources (cpu=2,memory=1Gi, say), or remove the default"
                    f" of the LimitRange: kubectl get limitrange -n {self.namespace}",
                )

    def _unmake(self, names: Sequence[str]) -> None:
        """Pods of which not all could be made. Raises ClusterError, LimitError."""
        for name in names:
            if pod := self._pods.pop(name, None):
                pod.gateway.close()
        pods.remove(self.access, self.namespace, [self.prefix + name for name in names])

    def disconnect(self) -> None:
        """Ends all connections; what runs over them ends with them."""
        for place in (*self._pods.values(), *self._nodes):
            place.gateway.close()

    def remove(self) -> None:
        """Our Pods and Services; the cluster that made this deployment removes the rest."""
        self.disconnect()
        names = list(self._pods)
        self._pods.clear()
        try:
            pods.remove(self.access, self.namespace, names)
            self.services.remove()
        except CnibenchError as error:
            raise ClusterError(
                f"{self.label}: not all of its Pods could be removed: {error.message}",
                f"kubectl delete ns {self.namespace}",
            ) from None
