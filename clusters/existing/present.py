"""What is on the cluster already, and which profiles it can have: nothing is changed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from cnibench.clusters.existing import granted
from cnibench.clusters.existing.deployment import ExistingDeployment
from cnibench.clusters.kubernetes.api import pods, resources
from cnibench.clusters.kubernetes.api.access import Access, DeniedError, access_of
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.cni import recognise, suitability
from cnibench.clusters.kubernetes.nodes.nodes import Facts, Wanted, choose, facts, more, toleration
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.ownership import safety
from cnibench.clusters.kubernetes.ownership.namespace import PATIENCE, Claim
from cnibench.clusters.kubernetes.pods import other_services, paths, unsupported
from cnibench.clusters.kubernetes.removal import cleaning
from cnibench.errors import ClusterError, CnibenchError, InputError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import CURRENT, Profile, builtin
from cnibench.model.units import seconds
from cnibench.testbed.capabilities.access_rights import AccessRights, Lacking
from cnibench.testbed.capabilities.cell_limits import CellLimits
from cnibench.testbed.capabilities.recognition import Recognition
from cnibench.testbed.capabilities.service_time import ServiceTime
from cnibench.testbed.cluster import Cluster, Options, Problem, Wire
from cnibench.testbed.cluster_options import ACCESS, NODES, PODS

_SECONDS = 60.0  # s that installing, attesting and removing one takes, for plans
_SECONDS_CURRENT = 15.0  # s: agents and Pods only
NO_CNI = "no CNI"


class PresentCluster(Cluster, AccessRights, CellLimits, Recognition, ServiceTime):
    """The cluster that a kubeconfig leads to, as it is."""

    kind: ClassVar[str] = "existing"
    takes: ClassVar[frozenset[str]] = (
        ACCESS
        | NODES
        | PODS
        | {
            "client_selector",
            "server_selector",
            "max_rate",
            "allow_load",
            "allow_install",
            "allow_replace",
            "allow_node_changes",
            "patience",
        }
    )
    deploys: ClassVar[type] = ExistingDeployment
    slices: ClassVar[Literal["", "together", "in turn"]] = "in turn"
    cycles_in_slices: ClassVar[bool] = False
    manages_nodes: ClassVar[bool] = False
    testbed: str = "cluster"
    most_pairs: ClassVar[int] = 50
    paths: ClassVar[tuple[str, ...]] = paths.ALL
    pod_seconds: ClassVar[float] = pods.EACH
    conntrack_bypass: ClassVar[bool] = False

    def __init__(self, options: Options) -> None:
        """Raises UsageError for wrong options; the cluster is not talked to yet."""
        super().__init__(options)
        given = options.cluster
        self.allowed = safety.Allowed.of(given)
        resources.parse(given.pod_resources)  # UsageError before anything is made
        self.patience = seconds(given.patience or PATIENCE)
        self.wanted = Wanted(
            client=given.client_node or "",
            server=given.server_node or "",
            client_selector=given.client_selector or "",
            server_selector=given.server_selector or "",
            tolerations=tuple(toleration(item) for item in given.toleration),
        )
        self._claim: Claim | None = None
        self._making: Making | None = None
        self._agents: list[KubernetesNode] = []
        self._deployments: list[ExistingDeployment] = []
        self._facts: dict[str, Any] = {}
        self._installed: dict[str, dict[str, str]] = {}  # by label: what it is, by SHA-256
        self._resolved: set[str] = set()  # names of what ``current`` is
        self._lacking = Lacking()  # rights, when they were asked for
        self.wire: Wire = "nic"
        # we have removed what was there; the nodes' kubelets say so only some seconds later
        self._bare = False

    def service_seconds(self, profile: Profile) -> float:
        return other_services.SECONDS

    @cached_property
    def access(self) -> Access:
        """Raises InputError, UsageError."""
        return access_of(self.options.cluster)

    @cached_property
    def nodes(self) -> list[Facts]:
        """All nodes. Raises UnreachableError, DeniedError."""
        return [facts(item) for item in self.access.listed("nodes")]

    @cached_property
    def chosen(self) -> list[Facts]:
        """The client's node, the server's, those of further pairs."""
        return more(
            self.nodes,
            choose(self.nodes, self.wanted, self.options.ip),
            self.wanted,
            self.options.ip,
            self.options.pairs,
        )

    @cached_property
    def present(self) -> recognise.Found:
        """What runs there."""
        return recognise.current(self.access)

    @cached_property
    def _left(self) -> cleaning.Record | None:
        """What an earlier run had left on the cluster when this one began."""
        return cleaning.record(self.access)

    def missing(self) -> list[Problem]:
        try:
            _ = self.access.server_version
        except (InputError, UsageError):  # nothing is missing: what was given is wrong
            raise
        except CnibenchError as error:
            remedy = error.remedy or "name another with --kubeconfig or --context"
            return [Problem("", error.message, remedy)]
        return []

    def missing_rights(self, cells: Sequence[Cell]) -> Lacking:
        self._lacking = granted.lacking(
            self.access, granted.level(self.allowed), cells, self.options.cluster.pull_secret or ""
        )
        return self._lacking

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        if profile.cni == CURRENT.cni:
            return []
        try:
            installed = self._is_installed(profile)
        except DeniedError as error:
            return [Problem(profile.name, error.message, error.remedy)]
        found = suitability.problems(profile, options or self.options, installed=not installed)
        if installed:
            return found
        found += suitability.proxy(profile)
        return found + suitability.proxy_on_cluster(profile, self.access)

    def _is_installed(self, profile: Profile) -> bool:
        """Asked of what was resolved, and of what only others install; false where the cluster does
        not answer. Raises DeniedError.
        """
        if profile.name in self._resolved:
            return True
        if profile.kubernetes is None or not profile.kubernetes.installed_by:
            return False
        try:
            present = self.present
        except DeniedError:
            raise
        except CnibenchError:
            return False
        if present.denied:
            raise self.access.denied("Forbidden", f"which CNI runs is not known: {present.said}")
        return profile.name == present.name

    def refuses(self, profile: Profile, cell: Cell) -> str:
        return unsupported.refusal(profile, cell) or unsupported.too_many_services(
            profile, cell, lambda: [node.memory for node in self.nodes]
        )

    def seconds(self, profile: Profile) -> float:
        return _SECONDS_CURRENT if self._is_current(profile) else _SECONDS

    def resolve(self, profiles: Mapping[str, Profile]) -> Mapping[str, Profile]:
        """``current`` becomes the profile that is recognised. Raises ClusterError where there is no
        CNI at all.
        """
        if all(profile.name != CURRENT.name for profile in profiles.values()):
            return profiles
        present = self.present
        if present.said == NO_CNI:
            raise ClusterError(
                "no CNI runs on this cluster",
                "install one first, or name a profile and --allow-install",
            )
        if present.name:
            self._resolved.add(present.name)
            found = builtin()[present.name].model_copy(update={"title": present.title})
        else:
            found = CURRENT.model_copy(update={"title": f"not recognised: {present.said}"})
        return {
            label: found.model_copy(update={"proxy": profile.proxy})
            if profile.name == CURRENT.name
            else profile
            for label, profile in profiles.items()
        }

    def _is_current(self, profile: Profile) -> bool:
        """Is it measured as it is installed there? Every profile that is not to be installed is."""
        again = self.allowed.replace or (self.allowed.install and self._left is not None)
        return profile.cni == CURRENT.cni or (profile.name == self.present[0] and not again)
