"""A profile on a cluster: installed by its own means, with our agents and Pods beside it."""

from __future__ import annotations

import contextlib
import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access, InvalidError
from cnibench.clusters.kubernetes.api.objects import Making, Role
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.clusters.kubernetes.nodes.gateway import Gateway
from cnibench.clusters.kubernetes.nodes.nodes import Facts, facts
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod
from cnibench.clusters.kubernetes.nodes.processes import Processes
from cnibench.clusters.kubernetes.pods import background, paths, pods
from cnibench.clusters.kubernetes.pods.denial import Denying
from cnibench.clusters.kubernetes.pods.policy_objects import Kind
from cnibench.errors import ClusterError, CnibenchError, Interrupted, UnsupportedError
from cnibench.model.cell import Attestation, Cell, Placement
from cnibench.model.conditions import Conditions
from cnibench.model.profile import Profile
from cnibench.testbed.capabilities.cell_conditions import CellConditions
from cnibench.testbed.capabilities.cni_processes import CniProcesses
from cnibench.testbed.capabilities.extra_pods import ExtraPods
from cnibench.testbed.capabilities.node_devices import NodeDevices
from cnibench.testbed.capabilities.pod_lifecycle import PodLifecycle, Started
from cnibench.testbed.capabilities.policies import Policies
from cnibench.testbed.capabilities.service_paths import ServicePaths
from cnibench.testbed.cluster import Options
from cnibench.testbed.deployment import Deployment, Fidelity
from cnibench.testbed.place import Node, Pod

_TUNNELS = ("vxlan", "geneve", "ipip", "wireguard", "gre", "tun", "ip6tnl", "sit")


class KubernetesDeployment(
    Deployment,
    CellConditions,
    ExtraPods,
    CniProcesses,
    NodeDevices,
    PodLifecycle,
    Policies,
    ServicePaths,
):
    """``chosen`` are the measured nodes, the client's first, ``variables`` what the installation
    was given.
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
    ) -> None:
        """Of a CNI that is ready. The Pods of the first pair are made. Raises ClusterError; nothing
        of ours stays then but the agents.
        """
        self.label = label
        self.profile = profile
        self.options = options
        self.access = access
        self.making = making
        self.namespace = making.namespace
        self.variables = variables
        self.settings = {**options.settings.get("", {}), **options.settings.get(label, {})}
        self.families = tuple(family for family in options.ip if family in profile.features.ip) or (
            4,
        )
        self.fidelity: Fidelity = "baseline" if profile.features.network_model == "host" else "cni"
        self._nodes = list(nodes)
        self.restrict: dict[
            str, tuple[Kind, Callable[[bool], list[dict[str, Any]]]]
        ] = {}  # server to the policies that stand for it
        self.denying: Denying | None = None  # what denies UDP to one port
        self.started = 0  # calls of start_pods
        self._pods: dict[str, KubernetesPod] = {}
        self.each_pod: Callable[[KubernetesPod], None] = lambda pod: (
            None
        )  # done to every Pod that is made
        self._processes: Processes | None = None
        self._services: dict[str, Mapping[int, str]] = {}  # Service name to its addresses
        self._firsts: dict[str, int] = {}  # Service name to its first node port, 0 for none
        self._reached: set[str] = set()  # what a connection through a Service has been seen on
        self._tunnels: dict[tuple[str, int], str] = {}
        self._bench(
            [("a0", 0, False, "client"), ("a1", 0, False, "server"), ("b0", 1, False, "server")]
        )

    # Pods

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
            except Interrupted:  # the whole standing goes then
                raise
            except BaseException:
                # One that stays and is not ready would be taken for a standing that is broken, and
                # fail the cells that do without it.
                with contextlib.suppress(CnibenchError):
                    self._unmake([item[0] for item in new])
                raise
        return [self._pods[item[0]] for item in wanted]

    def _make(self, new: Sequence[tuple[str, int, bool, Role]], many: bool) -> None:
        host_only = self.profile.features.network_model == "host"
        made = [
            objects.pod(
                self.making, name, self._nodes[number].facts.name, host=host or host_only, role=role
            )
            for name, number, host, role in new
        ]
        self.access.apply(*made)
        names = ",".join(item[0] for item in new)
        ready = pods.wait_ready(
            self.access, self.namespace, f"{objects.POD} in ({names})", len(new)
        )
        known = {pod["metadata"]["name"]: pods.addresses(pod) for pod in ready}
        for name, number, host, _ in new:
            node = self._nodes[number]
            gateway = Gateway(
                self.access, self.namespace, name, f"the Pod {name} on node {node.name}"
            )
            addresses = node.addresses if host or host_only else known[name]
            self._pods[name] = KubernetesPod(name, node, gateway, addresses, host or host_only)
        if many:
            self._pods |= {
                pod.name: pod
                for pod in background.enter(self, [self._pods[item[0]] for item in new])
            }
        for name, *_ in new:
            self.each_pod(self._pods[name])

    def _unmake(self, names: Sequence[str]) -> None:
        """Pods of which not all could be made. Raises ClusterError, LimitError."""
        for name in names:
            if pod := self._pods.pop(name, None):
                pod.gateway.close()
        pods.remove(self.access, self.namespace, names)

    def pods(self) -> list[KubernetesPod]:
        return list(self._pods.values())

    def pair(self, placement: Placement, number: int = 0) -> tuple[KubernetesPod, KubernetesPod]:
        client, server = self._bench(self._pair("pod", placement, number))
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

    def pairs_for(self, cells: Sequence[Cell]) -> list[tuple[KubernetesPod, KubernetesPod]]:
        """Those that are missing are made together."""
        self._bench(
            [pod for cell in cells for pod in self._pair(cell.path, cell.placement, cell.pair)]
        )
        return [self.pair_for(cell) for cell in cells]

    def between(self, placement: Placement, number: int) -> tuple[KubernetesNode, KubernetesNode]:
        """The nodes of pair ``number``'s client and server: (a, b), then (c, a) where there are
        three, (c, d) where there are four.
        """
        one = 2 * number % len(self._nodes)
        return (
            self._nodes[one],
            self._nodes[one if placement == "intra" else (one + 1) % len(self._nodes)],
        )

    def told(self) -> dict[str, Any]:
        """Between which nodes the pairs are, for env.json; nothing where all are between the
        same.
        """
        names = [
            f"{one.name} to {other.name}"
            for one, other in (self.between("inter", pair) for pair in range(self.options.pairs))
        ]
        return {"pairs": names} if len(set(names)) > 1 else {}

    def pair_for(self, cell: Cell) -> tuple[KubernetesPod, KubernetesPod]:
        """With the Service before the server where the cell's path goes through one. Raises
        UnsupportedError, ClusterError.
        """
        client, server = self._bench(self._pair(cell.path, cell.placement, cell.pair))
        if paths.through_service(cell.path):
            known = f"{client.name} {server.name} {cell.path} {cell.ip}"
            address = self.address(cell, server)
            if known not in self._reached:
                paths.wait_reached(
                    client, server, cell.path, address, cell.ip, self._first(cell, server)
                )
                self._reached.add(known)
        return client, server

    def address(self, cell: Cell, server: Pod) -> str:
        """Where the client connects to on the cell's path; a Service is made when it is first asked
        for. Raises UnsupportedError.
        """
        if not paths.through_service(cell.path):
            return server.addresses[cell.ip]
        name = f"{server.name}-{cell.path}"
        if name not in self._services:
            self._serve(name, server.name, cell.path)
        if cell.path == "nodeport":
            assert isinstance(server.node, KubernetesNode)
            return server.node.addresses[cell.ip]
        if cell.ip not in self._services[name]:
            raise UnsupportedError(
                f"{self.label}: Services have no IPv{cell.ip} address on this cluster"
            )
        return self._services[name][cell.ip]

    def _serve(self, name: str, server: str, path: str) -> None:
        """Makes the Service; node ports that others have are stepped over. Raises ClusterError."""
        starts = paths.node_ports() if path == "nodeport" else [0]
        starts = [first for first in starts if first not in self._firsts.values() or not first]
        for first in starts:
            service = paths.service(self.making, server, path, self.families, first)
            where = f"/api/v1/namespaces/{self.namespace}/services/{service['metadata']['name']}"
            try:
                Rest(self.access).apply(where, service)
                break
            except InvalidError as error:
                taken = any(field.endswith(".nodePort") for field in error.fields)
                if not taken or first == starts[-1]:
                    raise
        self._firsts[name] = first
        self._services[name] = paths.cluster_ips(
            self.access.get("service", name, "-n", self.namespace)
        )

    def _first(self, cell: Cell, server: Pod) -> int:
        return self._firsts.get(f"{server.name}-{cell.path}", 0)

    def port(self, cell: Cell, number: int) -> int:
        return (
            paths.port(number, self._first(cell, self.pair_for(cell)[1]))
            if cell.path == "nodeport"
            else number
        )

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

    # What is there

    def nodes(self) -> tuple[KubernetesNode, ...]:
        return tuple(self._nodes)

    def underlay(self) -> dict[str, str]:
        return {node.name: node.device for node in self._nodes if node.device}

    def tunnel_on(self, node: Node, family: int) -> str:
        """The profile's; else the device of a tunnel's kind that the node routes Pods through, or
        (no route tells) the only one.
        """
        if (node.name, family) not in self._tunnels:
            self._tunnels[(node.name, family)] = self._find_tunnel(node, family)
        return self._tunnels[(node.name, family)]

    def _find_tunnel(self, node: Node, family: int) -> str:
        pattern = (
            _of_family(self.profile.kubernetes.tunnel, family) if self.profile.kubernetes else ""
        )
        other = next(
            (pod for pod in self._pods.values() if pod.node.name != node.name and pod.interface),
            None,
        )
        try:
            links = json.loads(
                node.run(["ip", "-j", "-d", "link", "show", "up"], timeout=20).stdout
            )
            kinds = {
                str(link["ifname"]): str(link.get("linkinfo", {}).get("info_kind", ""))
                for link in links
            }
            if pattern:
                return next(iter(fnmatch.filter(sorted(kinds), pattern)), "")
            if other is None or family not in other.addresses:
                return ""
            route = json.loads(
                node.run(
                    ["ip", "-j", "route", "get", other.addresses[family]], timeout=20, check=False
                ).stdout
                or "[]"
            )
        except (CnibenchError, ValueError):
            return ""
        way = str(route[0].get("dev", "")) if route else ""
        if kinds.get(way) in _TUNNELS:
            return way
        if way == self.underlay().get(node.name):
            return ""
        found = [name for name, kind in kinds.items() if kind in _TUNNELS]
        return found[0] if len(found) == 1 else ""

    def attest(self) -> list[Attestation]:
        from cnibench.clusters.kubernetes.cni.attest import attest

        return attest(self) if all(node.host for node in self._nodes) else self.reached()

    def reached(self) -> list[Attestation]:
        """What can be said of a datapath that may not be looked into, or that no profile describes:
        that it carries a connection.
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
                    failure = error.message
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

    # While it is measured

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
            if pod.interface and pod.gateway.python:  # a connection stands: it has been measured
                pod.run(["ip", "tcp_metrics", "flush"], timeout=20, check=False)

    def alive(self) -> str:
        """Which node is not Ready, which Pod does not run, or that the API server does not
        answer.
        """
        if self.broken:
            return self.broken
        try:
            for item in self.access.get(
                "nodes", *[node.facts.name for node in self._nodes], timeout=20
            )["items"]:
                if not (now := facts(item)).ready:
                    return f"node {self._name(now)} is not Ready: {now.reason}"
            there = self.access.get("pods", "-n", self.namespace, timeout=20)["items"]
            if gone := sorted(self._pods.keys() - {item["metadata"]["name"] for item in there}):
                return f"the Pod {gone[0]} is gone: somebody else has removed it"
            for item in there:
                if not pods.is_ready(item) and not item["metadata"].get("deletionTimestamp"):
                    reason, said = pods.trouble(item)
                    return (
                        f"the Pod {item['metadata']['name']} runs no more: {reason or 'not Ready'}"
                        f" {said}".strip()
                    )
        except CnibenchError as error:
            return error.message
        return ""

    def apply_conditions(
        self, asked: Conditions, client: Pod, server: Pod, cell: Cell | None = None
    ) -> AbstractContextManager[list[dict[str, Any]]]:
        from cnibench.clusters.kubernetes.pods.conditions import apply_conditions

        assert isinstance(client, KubernetesPod)
        assert isinstance(server, KubernetesPod)
        return apply_conditions(self, asked, client, server, cell)

    def denial(self, port: int) -> Callable[[], None]:
        from cnibench.clusters.kubernetes.pods import denial

        return denial.prepare(self, port)

    def end_denial(self) -> None:
        from cnibench.clusters.kubernetes.pods import denial

        denial.end(self)

    def start_pods(self, node: Node, count: int, at_once: bool) -> list[Started]:
        from cnibench.clusters.kubernetes.pods.startup import start

        assert isinstance(node, KubernetesNode)
        return start(self, node, count, at_once)

    def remove_pods(self, pods: Sequence[Pod]) -> None:
        from cnibench.clusters.kubernetes.pods.startup import remove

        remove(self, [pod.name for pod in pods])

    def processes(self) -> Mapping[str, int | tuple[Node, int]] | None:
        """Those that ``settle`` knew; None where the nodes cannot be looked into, or the profile is
        not known.
        """
        if not all(node.host for node in self._nodes) or self.profile.kubernetes is None:
            return None
        if self._processes is None:
            known = Processes(self.access, self.profile, self._nodes)
            known.look()
            self._processes = known
        return self._processes.found

    def _name(self, known: Facts) -> str:
        return next(node.name for node in self._nodes if node.facts.name == known.name)

    # Its end

    def disconnect(self) -> None:
        """Ends all connections; what runs over them ends with them."""
        for place in (*self._pods.values(), *self._nodes):
            place.gateway.close()

    def remove(self) -> None:
        """Our Pods and Services; the cluster that made this standing removes the rest."""
        self.disconnect()
        names = list(self._pods)
        self._pods.clear()
        try:
            pods.remove(self.access, self.namespace, names)
            if self._services:
                self.access.kubectl(
                    "delete", "service", "-n", self.namespace, "--ignore-not-found", *self._services
                )
        except CnibenchError as error:
            raise ClusterError(
                f"{self.label}: not all of its Pods could be removed: {error.message}",
                f"kubectl delete ns {self.namespace}",
            ) from None


def _of_family(given: Mapping[Any, str], family: int) -> str:
    return given.get(family, "")
