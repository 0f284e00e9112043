"""Measures with Pods in a namespace that somebody else made, and looks at nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from cnibench.clusters.kubernetes import images
from cnibench.clusters.kubernetes.api import objects, pods, resources
from cnibench.clusters.kubernetes.api.access import Access, access_of
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.clusters.kubernetes.nodes.nodes import Facts, toleration
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.ownership import lease, safety, state
from cnibench.clusters.kubernetes.ownership.lease import Lease
from cnibench.clusters.kubernetes.ownership.safety import Allowed, RefusedError
from cnibench.clusters.kubernetes.rights import preflight
from cnibench.clusters.kubernetes.rights.table import rights
from cnibench.clusters.namespace import ownership
from cnibench.clusters.namespace.deployment import NamespaceDeployment, environment
from cnibench.errors import CnibenchError, InputError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import CURRENT, Profile
from cnibench.testbed.capabilities.access_rights import AccessRights, Lacking
from cnibench.testbed.capabilities.consent import Consent
from cnibench.testbed.capabilities.node_inspection import KernelAccess
from cnibench.testbed.capabilities.ownership import Leftover, Ownership
from cnibench.testbed.capabilities.recognition import Recognition
from cnibench.testbed.cluster import Cluster, Options, Problem, Wire
from cnibench.testbed.cluster_options import ACCESS, NODES, PODS

_SECONDS = 10.0  # s that making and removing the Pods takes, for plans
_UNSEEN = "only the Pods of one namespace may be seen"


@dataclass(frozen=True)
class Guest(Making):
    """Pods that are to runs of others what any Pod is: no CNI is changed under them. ``lease`` is
    the UID of the run's Lease, which owns them: whoever deletes it deletes them.
    """

    lease: str = ""

    def labels(self, role: str = "") -> dict[str, str]:
        found = super().labels(role)
        del found[objects.OURS]
        return found

    def owners(self) -> list[dict[str, str]]:
        return [lease.reference(self.lease)]


class NamespaceCluster(Cluster, AccessRights, Consent, KernelAccess, Ownership, Recognition):
    """One namespace of the cluster that a kubeconfig leads to."""

    kind: ClassVar[str] = "namespace"
    takes: ClassVar[frozenset[str]] = ACCESS | NODES | PODS | {"allow_load"}
    deploys: ClassVar[type] = NamespaceDeployment
    manages_nodes: ClassVar[bool] = False
    testbed: str = "cluster"
    most_pairs: ClassVar[int] = 1
    pod_seconds: ClassVar[float] = pods.EACH
    conntrack_bypass: ClassVar[bool] = False

    def __init__(self, options: Options) -> None:
        """Raises UsageError for wrong options; the cluster is not talked to yet."""
        super().__init__(options)
        given = options.cluster
        self.allowed = Allowed.of(given)
        self.namespace = given.namespace or ""
        self.names = (given.client_node or "", given.server_node or "")
        self.tolerations = tuple(toleration(item) for item in given.toleration)
        self.resources = resources.parse(given.pod_resources)
        self.wire: Wire = "nic"
        self._run = state.new_name()
        self._lease: Lease | None = None
        self._deployments: list[NamespaceDeployment] = []
        self._facts: dict[str, Any] = {}
        self._lacking = Lacking()
        self._made = 0

    @cached_property
    def access(self) -> Access:
        """Raises InputError, UsageError."""
        return access_of(self.options.cluster)

    def missing(self) -> list[Problem]:
        """Raises UsageError when no namespace is named."""
        if not self.namespace:
            raise UsageError("--cluster namespace needs the name of a namespace", "-n NAME")
        try:
            _ = self.access.server_version
        except (InputError, UsageError):
            raise
        except CnibenchError as error:
            return [Problem("", error.message, error.remedy)]
        return []

    def missing_rights(self, cells: Sequence[Cell]) -> Lacking:
        self._lacking = preflight.lacking(
            self.access, "namespace", rights("namespace"), namespace=self.namespace
        )
        return self._lacking

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        if profile.proxy:
            return [
                Problem(
                    profile.name,
                    f"rights to see how Services are implemented: {_UNSEEN}",
                    "leave --proxy out, or --cluster existing",
                )
            ]
        if profile.cni == CURRENT.cni:
            return []
        return [
            Problem(
                profile.name,
                f"rights to install or recognise it: {_UNSEEN}",
                "--cni current, or --cluster existing",
            )
        ]

    def kernel_access_denied(self) -> str:
        return _UNSEEN

    def seconds(self, profile: Profile) -> float:
        return _SECONDS

    def resolve(self, profiles: Mapping[str, Profile]) -> Mapping[str, Profile]:
        unknown = CURRENT.model_copy(update={"title": f"not recognised: {_UNSEEN}"})
        return {
            label: unknown if profile.name == CURRENT.name else profile
            for label, profile in profiles.items()
        }

    def permit(self, cells: Sequence[Cell]) -> None:
        """Conditions that nodes would have to be changed for are refused by their capability."""

    def preview(
        self, profiles: Mapping[str, Profile], seconds: float, volume: float
    ) -> Sequence[str]:
        client, server = self.names
        if not client or not server or client == server:
            raise UsageError(
                "--cluster namespace may not list nodes",
                "name two: --client-node A --server-node B",
            )
        if not self.allowed.load:
            raise RefusedError(
                "whether Pods of others run on the chosen nodes cannot be seen: they would be"
                " disturbed",
                "--allow-load allows it",
            )
        ownership.free(self.access, self.namespace)
        changes = (
            f"only Pods and a Lease in the namespace {self.namespace} are made, and removed again;"
            f" {_UNSEEN}: throughput and latency, and no more"
        )
        _, _, *lines = safety.lines(
            self.access.context, self.names, (), self.allowed, seconds, volume, changes
        )
        return [
            f"context {self.access.context}: clients on node {client}, servers on node {server}",
            *lines,
            *(f"{one.lacks}; {one.remedy}" for one in self._lacking.useful),
        ]

    def install(self, label: str, profile: Profile) -> NamespaceDeployment:
        if self._lease is None:
            self._lease = ownership.claimed(self.access, self.namespace, self._run)
        workload, agent = (
            images.reference(kind, self.options.cluster.registry or "") for kind in images.KINDS
        )
        making = Guest(
            self.namespace,
            self._run,
            workload,
            agent,
            tolerations=self.tolerations,
            pull_secret=self.options.cluster.pull_secret or "",
            rights="none",
            resources=self.resources,
            lease=self._lease.uid,
        )
        self._made += 1
        prefix = f"{self._run}-{self._made}-"
        nodes = [
            self._node(agents.letter(number), name, prefix)
            for number, name in enumerate(self.names)
        ]
        made = NamespaceDeployment(
            label, profile, self.options, self.access, making, nodes, {}, prefix=prefix
        )
        self._deployments.append(made)
        self._facts = {"kubernetes": self.access.server_version, **environment(nodes)}
        return made

    def _node(self, letter: str, name: str, prefix: str) -> KubernetesNode:
        """As the first Pod there sees it."""
        known = Facts(name, True, "", True, {}, (), (), {}, "linux", "", {})
        pod = f"{prefix}{letter}0"
        gateway = Gateway(self.access, self.namespace, pod, f"the Pod {pod} on node {letter}")
        return KubernetesNode(letter, known, gateway, host=False)

    def environment(self) -> dict[str, Any]:
        return {
            "wire_offload": "as the nodes' devices have it",
            **resources.fact(self.options.cluster.pod_resources),
            **self._facts,
        }

    def leftovers(
        self, owners: Sequence[str] = (), notify: Callable[[str], None] = print
    ) -> list[Leftover]:
        if not self.namespace:
            raise UsageError("--cluster namespace needs the name of a namespace", "-n NAME")
        return ownership.leftovers(self.access, self.namespace, owners, notify)

    def __exit__(self, *error: object) -> None:
        """The Pods of this run and its Lease, which stays where Pods do; a failure is reported when
        nothing worse has happened.
        """
        for deployment in self._deployments:
            deployment.disconnect()
        self._deployments.clear()
        held, self._lease = self._lease, None
        try:
            if held is not None and self.options.keep:
                held.release()
            elif held is not None:
                ownership.remove_pods(self.access, self.namespace, self._run)
                ownership.given_up(self.access, self.namespace, held)
        except CnibenchError:
            assert held is not None
            held.release()
            if error and error[0] is None:
                raise
        finally:
            if "access" in self.__dict__:
                self.access.close()
