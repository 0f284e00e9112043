"""Installs, measures on and removes clusters that kind makes."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from cnibench.clusters.kind import node_images
from cnibench.clusters.kind.containers import OneCluster, node_image
from cnibench.clusters.kind.pods import LocalPod, on_this_machine
from cnibench.clusters.kubernetes import images, install
from cnibench.clusters.kubernetes.api import pods, resources, tools
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.cni import suitability, wait
from cnibench.clusters.kubernetes.cni.image_digests import image_digests
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.nodes import agents, proxy_mode
from cnibench.clusters.kubernetes.nodes.environment import describe
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.ownership import kind_clusters, state
from cnibench.clusters.kubernetes.ownership.namespace import PATIENCE, Claim
from cnibench.clusters.kubernetes.pods import other_services, paths, unsupported
from cnibench.clusters.kubernetes.pods.background import uids_of
from cnibench.clusters.lab.proxies.base import too_many
from cnibench.errors import ClusterError, CnibenchError, MissingError, NoSlicesError
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.model.units import seconds
from cnibench.offload.nic import Nic
from cnibench.system import memory
from cnibench.system.interrupt import cleaning_up, uninterrupted
from cnibench.testbed.capabilities.cell_limits import CellLimits
from cnibench.testbed.capabilities.nics import Nics
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.capabilities.ownership import Leftover, Ownership
from cnibench.testbed.capabilities.pods.entered import EnteredPods
from cnibench.testbed.capabilities.service_time import ServiceTime
from cnibench.testbed.cluster import Cluster, Options, Problem, Wire
from cnibench.testbed.cluster_options import PODS
from cnibench.testbed.place import Pod

_READY = 300.0  # s: of a CNI; images may have to be fetched
# s that making, installing, attesting and removing one takes on a small machine, for plans
_SECONDS = 75.0
_MEMORY = 900 << 20  # bytes that one of two nodes takes, about: 0.6 GiB and a CNI


class KindDeployment(KubernetesDeployment, EnteredPods):
    """A profile on its own cluster, which goes with it."""

    cluster: OneCluster

    @cached_property
    def _entered(self) -> dict[str, LocalPod]:
        """By name."""
        return {}

    def entered(self, pods: Sequence[Pod]) -> list[Pod]:
        if names := [pod.name for pod in pods if pod.name not in self._entered]:
            uids = uids_of(self.access, self.namespace, names)
            if gone := [name for name in names if name not in uids]:
                raise ClusterError(f"the Pod {gone[0]} is gone: somebody else has removed it")
            for pod in on_this_machine({uids[name]: self._pods[name] for name in names}):
                self._entered[pod.name] = pod
        return [self._entered[pod.name] for pod in pods]

    def remove(self) -> None:
        self.disconnect()
        self.cluster.delete()


class KindCluster(Cluster, CellLimits, Nics, Outages, Ownership, ServiceTime):
    """Real CNIs between two containers of this machine: the datapath is real, the wire is a veth
    pair and a bridge.
    """

    kind: ClassVar[str] = "kind"
    takes: ClassVar[frozenset[str]] = PODS | {
        "patience",
        "node_image",
        "kind_nodes",
        "image_archive",
    }
    deploys: ClassVar[type] = KindDeployment
    slices: ClassVar[Literal["", "together", "in turn"]] = "together"
    testbed: str = "kind"
    wire: Wire = "veth"
    most_pairs: ClassVar[int] = 50
    paths: ClassVar[tuple[str, ...]] = paths.ALL
    pod_seconds: ClassVar[float] = pods.EACH
    conntrack_bypass: ClassVar[bool] = False
    mtus: ClassVar[tuple[int, ...]] = (1500,)

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        resources.parse(
            options.cluster.pod_resources
        )  # wrong ones are refused before anything is made
        self.patience = seconds(options.cluster.patience or PATIENCE)
        self._deployment: list[KindDeployment] = []
        self._facts: dict[str, Any] = {}
        self._installed: dict[str, dict[str, str]] = {}  # by label: what it is, by SHA-256

    def service_seconds(self, profile: Profile) -> float:
        return other_services.SECONDS

    def missing(self) -> list[Problem]:
        problems = tools.problems("kind")
        try:
            engine = images.engine()
        except MissingError as error:
            return [*problems, Problem("", error.message, error.remedy)]
        if not self.options.cluster.registry and (absent := images.missing(engine)):
            problems.append(
                Problem(
                    "",
                    f"{engine.program} does not have the image {', '.join(absent)}",
                    "cnibench images build",
                )
            )
        image = node_image(self.options)
        if image.startswith("localhost/") and not engine.has(image):  # no registry has that name
            problems.append(
                Problem(
                    "",
                    f"{engine.program} does not have the node image {image}",
                    "name one that is here with --node-image or CNIBENCH_KIND_IMAGE",
                )
            )
        return problems

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        options = options or self.options
        found = suitability.problems(profile, options) + suitability.on_this_kernel(profile)
        found += suitability.proxy(profile) + suitability.proxy_on_this_kernel(profile)
        if options.mtu not in self.mtus:
            found.append(
                Problem(
                    profile.name,
                    f"a wire with an MTU of {options.mtu}",
                    "leave --mtu out: kind's network has 1500",
                )
            )
        return found

    def refuses(self, profile: Profile, cell: Cell) -> str:
        if refused := unsupported.refusal(profile, cell):
            return refused
        asked = conditions.of(cell.params)
        if asked is None or asked.services is None:
            return ""
        return too_many(proxy_mode.expected(profile), asked.services, 1)

    def require_room(self, profiles: int) -> None:
        # not in our cgroups: a container engine's are its own
        needed, available = profiles * _MEMORY, memory.of_machine()
        if needed > available:
            raise NoSlicesError(
                f"{profiles} kind clusters at once take about {needed >> 20} MiB;"
                f" {available >> 20} MiB are free",
                "measure fewer profiles at once, or use --method windows",
            )

    def seconds(self, profile: Profile) -> float:
        return _SECONDS

    def install(self, label: str, profile: Profile) -> KindDeployment:
        assert profile.kubernetes is not None
        self._replace(label)
        settings = {**self.options.settings.get("", {}), **self.options.settings.get(label, {})}
        cluster = OneCluster(self.options, proxy_mode.asked_of_kind(profile))
        try:
            variables = cluster.variables(self.options)
            archives = [*install.archives(settings), *map(Path, self.options.cluster.image_archive)]
            making, nodes = self._agents(
                cluster, install.images(cluster.access, profile, settings, variables), archives
            )
            cluster.nodes = nodes
            sources = install.install(cluster.access, profile, settings, variables, nodes)
            wait.ready(cluster.access, profile, _READY)
            install.policies(cluster.access, profile, making.namespace)
            # The control plane, which is the last, is left out unless the pairs would have one node
            # twice without it.
            measured = nodes[:-1] if len(nodes) > 2 * self.options.pairs else nodes
            deployment = KindDeployment(
                label, profile, self.options, cluster.access, making, measured, variables
            )
            deployment.cluster = cluster
            deployment.proxy = proxy_mode.of(profile, nodes)
            self._facts = describe(cluster.access, nodes) | {
                "kind_node_image": self.options.cluster.node_image or ""
            }
            self._facts |= deployment.pair_facts()
            self._installed[label] = sources | image_digests(cluster.access, profile)
        except BaseException as error:
            with cleaning_up(error):
                cluster.delete()
            raise
        self._deployment.append(deployment)
        return deployment

    def _agents(
        self, cluster: OneCluster, wanted: Sequence[str], archives: Sequence[Path]
    ) -> tuple[Making, list[KubernetesNode]]:
        """Agents on all nodes of a new cluster, the control plane's last; it gets our images and
        those of ``wanted`` that are here and not on its nodes.
        """
        making = agents.plan(
            cluster.name, self.options.cluster, tolerations=({"operator": "Exists"},)
        )
        cluster.claim = Claim(cluster.access, making)
        cluster.access.availability.patience = self.patience
        cluster.access.availability.notify = self.notify
        engine = images.engine()
        needed = dict.fromkeys((making.workload_image, making.agent_image, *wanted))
        lacking = node_images.absent([node.name for node in cluster.facts], needed)
        here = [image for image in lacking if "@" not in image and engine.has(image)]
        cluster.load([*([images.archive(engine, here)] if here else []), *archives])
        return agents.start(
            cluster.access,
            making,
            sorted(cluster.facts, key=lambda node: (node.control_plane, node.name)),
        )

    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        """Of a cluster without a CNI, which is made for it and removed."""
        cluster = OneCluster(self.options)
        try:
            _, nodes = self._agents(cluster, (), ())
            try:
                return agents.nics(nodes, every)
            finally:
                for node in nodes:
                    node.gateway.close()
        finally:
            with uninterrupted():
                cluster.delete()

    def _replace(self, label: str) -> None:
        """The cluster of the block before that --keep left: one a label is enough to look at."""
        for deployment in [
            one for one in self._deployment if one.label == label and self.options.keep
        ]:
            self._deployment.remove(deployment)
            deployment.remove()

    def environment(self) -> dict[str, Any]:
        return {
            "kernel": platform.release(),
            "wire_offload": "as the veth has it: super-packets cross it whole",
            **resources.fact(self.options.cluster.pod_resources),
            **self._facts,
            **({"installed": dict(self._installed)} if self._installed else {}),
        }

    def leftovers(
        self, owners: Sequence[str] = (), notify: Callable[[str], None] = print
    ) -> list[Leftover]:
        """The clusters of runs that are no more, and those that were kept."""
        return kind_clusters.leftovers({state.owner(), *owners}, notify)

    def outages(self, suspect: bool = False) -> list[Outage]:
        measured = [(one, one.cluster.claim) for one in self._deployment if one.cluster.there]
        return [
            outage
            for one, claim in measured
            if claim
            for outage in claim.outages(suspect, one.alive)
        ]

    def __exit__(self, *error: object) -> None:
        while self._deployment:
            deployment = self._deployment.pop()
            if self.options.keep:
                print(deployment.cluster.keep(), file=sys.stderr)
                deployment.disconnect()
                continue
            try:
                deployment.remove()
            except CnibenchError:
                if error[0] is None:
                    raise
