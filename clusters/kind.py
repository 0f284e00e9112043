"""Two nodes of real Kubernetes as containers of this machine, one cluster for each profile
(https://kind.sigs.k8s.io).
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cnibench.clusters.kubernetes import images
from cnibench.clusters.kubernetes.api import tools
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.cni import install, suitability, unsupported, wait
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.nodes import agents, pids_limit
from cnibench.clusters.kubernetes.nodes.environment import describe
from cnibench.clusters.kubernetes.nodes.nodes import facts
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.ownership import kind_clusters, state
from cnibench.clusters.kubernetes.ownership.namespace import PATIENCE, Claim
from cnibench.clusters.kubernetes.pods import paths, pods
from cnibench.errors import ClusterError, CnibenchError, LimitError, MissingError
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.model.units import seconds
from cnibench.offload.nic import Nic
from cnibench.system import process as programs
from cnibench.testbed.capabilities.cell_limits import CellLimits
from cnibench.testbed.capabilities.nics import Nics
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.capabilities.ownership import Leftover, Ownership
from cnibench.testbed.cluster import Cluster, Options, Problem, Wire

POD_SUBNETS = {4: "10.244.0.0/16", 6: "fd00:10:244::/56"}
SERVICE_SUBNETS = {4: "10.96.0.0/16", 6: "fd00:10:96::/112"}
_CREATE = 300.0  # s
_LOAD = 180.0  # s: of one archive
_READY = 300.0  # s: of a CNI; images may have to be fetched
# s that making, installing, attesting and removing one takes on a small machine, for plans
_SECONDS = 75.0
# of a node: qi2021 has 99 background Pods on one, beside those of the cluster; as many as a /24 has
# addresses for
_MOST_PODS = 250
_NODE_IMAGE = "CNIBENCH_KIND_IMAGE"
_REMEDIES = {  # by what kind says
    # A node's system did not come up, mostly because many others run.
    "could not find a log line": (
        "a node's systemd needs inotify instances: sysctl -w fs.inotify.max_user_instances=1024"
    ),
    "failed to get IPv6 address": (
        "podman network create --ipv6 NAME, and KIND_EXPERIMENTAL_PODMAN_NETWORK=NAME; docker:"
        ' "ipv6": true'
    ),
}


def configuration(families: Sequence[int], nodes: int, kube_proxy: bool) -> dict[str, Any]:
    """A kind Cluster object without a CNI."""
    networking = {
        "disableDefaultCNI": True,
        "ipFamily": "dual" if len(families) > 1 else f"ipv{families[0]}",
        "podSubnet": ",".join(POD_SUBNETS[family] for family in families),
        "serviceSubnet": ",".join(SERVICE_SUBNETS[family] for family in families),
        "kubeProxyMode": "iptables" if kube_proxy else "none",
    }
    if (
        4 not in families
    ):  # kind would publish the API server's port on ::1, from which podman 4.3 forwards nothing
        networking["apiServerAddress"] = "127.0.0.1"
    roles = ["control-plane", *["worker"] * (nodes - 1)]
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": _MOST_PODS,
    }
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": networking,
        "nodes": [{"role": role} for role in roles],
        "kubeadmConfigPatches": [json.dumps(kubelet)],
    }


class KindDeployment(KubernetesDeployment):
    """A profile on its own cluster, which goes with it."""

    cluster: OneCluster

    def remove(self) -> None:
        self.disconnect()
        self.cluster.delete()


class OneCluster:
    """One kind cluster, ours. Raises ClusterError when it cannot be made; nothing of it stays
    then.
    """

    def __init__(self, options: Options, kube_proxy: bool) -> None:
        self.kept = state.Kept(state.new_cluster())
        self.name = self.kept.name
        self.claim: Claim | None = None
        self.nodes: list[KubernetesNode] = []
        self._there = False
        try:
            self._create(options, kube_proxy)
        except BaseException:
            with contextlib.suppress(CnibenchError):
                self.delete()
            raise

    def _create(self, options: Options, kube_proxy: bool) -> None:
        config = configuration(options.ip, int(options.extra.get("kind_nodes", 2)), kube_proxy)
        argv = [
            "kind",
            "create",
            "cluster",
            "--name",
            self.name,
            "--kubeconfig",
            str(self.kept.kubeconfig),
            "--wait",
            "0s",
            "--config",
            "-",
        ]
        if image := options.extra.get("node_image") or os.environ.get(_NODE_IMAGE):
            argv += ["--image", str(image)]
        self._there = True
        try:
            programs.run(argv, timeout=_CREATE, input=json.dumps(config))
        except LimitError:
            raise ClusterError(
                f"kind made no cluster within {_CREATE:.0f} s",
                "is its node image here? --node-image IMAGE",
            ) from None
        except ClusterError as error:
            told = (remedy for sign, remedy in _REMEDIES.items() if sign in error.message)
            remedy = next(told, "--node-image IMAGE names another node image")
            raise ClusterError(f"kind made no cluster: {error.message}", remedy) from None
        self.access = Access(self.kept.kubeconfig)
        self.facts = [facts(item) for item in self.access.get("nodes")["items"]]
        pids_limit.unlimited([node.name for node in self.facts])

    @property
    def there(self) -> bool:
        """Has it been made, and not deleted?"""
        return self._there

    def load(self, archives: Sequence[Path]) -> None:
        """Gives images to all nodes. Raises ClusterError."""
        for path in archives:
            if not path.is_file():
                raise MissingError(
                    f"there is no image archive {path}", "podman save or docker save makes one"
                )
            programs.run(
                ["kind", "load", "image-archive", str(path), "--name", self.name], timeout=_LOAD
            )

    def variables(self, options: Options) -> dict[str, str]:
        """What installations are told of the cluster."""
        control = next(node for node in self.facts if node.control_plane)
        family = options.ip[0]
        return {
            "pod_cidr": POD_SUBNETS[family],
            "pod_cidr_ipv6": POD_SUBNETS[6] if 6 in options.ip else "",
            "service_cidr": SERVICE_SUBNETS[family],
            "api_host": control.addresses[family],
            "api_port": "6443",
            "cluster_name": self.name,
            "node_addresses": ",".join(node.addresses[family] for node in self.facts),
            "registry": str(options.extra.get("registry", "")),
            "pull_secret": str(options.extra.get("pull_secret", "")),
            "kubernetes": self.access.server_version,
        }

    def delete(self) -> None:
        """Raises ClusterError; may be called twice."""
        if self.claim is not None:
            self.claim.lease.stop()
        if self._there:
            if (access := getattr(self, "access", None)) is not None:
                access.close()
            kind_clusters.delete(self.name)
            self._there = False
        self.kept.release()

    def keep(self) -> str:
        """Gives it up without removing it, its CNI its own from now on; how to look at it."""
        try:
            install.give_up(self.access, self.nodes)
            more = ""
        except CnibenchError as error:
            more = f" (what was noted of its installation stays on it: {error.message})"
        if self.claim is not None:
            self.claim.lease.release()
        self.access.close()
        self.kept.release(keep=True)
        return (
            f"kept: KUBECONFIG={self.kept.kubeconfig} kubectl get pods -A; 'cnibench clean"
            f" --cluster kind' removes it{more}"
        )


class KindCluster(Cluster, CellLimits, Nics, Outages, Ownership):
    """Real CNIs between two containers of this machine: the datapath is real, the wire is a veth
    pair and a bridge.
    """

    kind: ClassVar[str] = "kind"
    deploys: ClassVar[type] = KindDeployment
    testbed: str = "kind"
    wire: Wire = "veth"
    most_pairs: ClassVar[int] = 50
    paths: ClassVar[tuple[str, ...]] = paths.ALL
    pod_seconds: ClassVar[float] = pods.EACH
    conntrack_bypass: ClassVar[bool] = False
    mtus: ClassVar[tuple[int, ...]] = (1500,)

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.patience = seconds(str(options.extra.get("patience") or PATIENCE))
        self._deployment: list[KindDeployment] = []
        self._facts: dict[str, Any] = {}

    def missing(self) -> list[Problem]:
        problems = tools.problems("kind", "kubectl")
        try:
            engine = images.engine()
        except MissingError as error:
            return [*problems, Problem("", error.message, error.remedy)]
        if not self.options.extra.get("registry") and (absent := images.missing(engine)):
            problems.append(
                Problem(
                    "",
                    f"{engine.program} has not the image {', '.join(absent)}",
                    "cnibench images build",
                )
            )
        return problems

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        options = options or self.options
        found = suitability.problems(profile, options) + suitability.on_this_kernel(profile)
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
        return unsupported.refusal(profile, cell)

    def seconds(self, profile: Profile) -> float:
        return _SECONDS

    def install(self, label: str, profile: Profile) -> KindDeployment:
        installation = profile.kubernetes
        assert installation is not None
        self._replace(label)
        settings = {**self.options.settings.get("", {}), **self.options.settings.get(label, {})}
        cluster = OneCluster(self.options, installation.kube_proxy)
        try:
            variables = cluster.variables(self.options)
            archives = [
                *install.archives(settings),
                *map(Path, self.options.extra.get("image_archive", ())),
            ]
            making, nodes = self._agents(
                cluster, install.images(cluster.access, profile, settings, variables), archives
            )
            cluster.nodes = nodes
            install.install(cluster.access, profile, settings, variables, nodes)
            wait.ready(cluster.access, profile, _READY)
            install.policies(cluster.access, profile, making.namespace)
            # The control plane, which is the last, is left out unless the pairs would have one node
            # twice without it.
            measured = nodes[:-1] if len(nodes) > 2 * self.options.pairs else nodes
            deployment = KindDeployment(
                label, profile, self.options, cluster.access, making, measured, variables
            )
            deployment.cluster = cluster
            self._facts = describe(cluster.access, nodes) | {
                "kind_node_image": self.options.extra.get("node_image", "")
            }
            self._facts |= deployment.told()
        except BaseException:
            with contextlib.suppress(CnibenchError):
                cluster.delete()
            raise
        self._deployment.append(deployment)
        return deployment

    def _agents(
        self, cluster: OneCluster, wanted: Sequence[str], archives: Sequence[Path]
    ) -> tuple[Making, list[KubernetesNode]]:
        """Agents on all nodes of a new cluster, the control plane's last; it gets our images, and
        those of ``wanted`` that are here.
        """
        making = agents.plan(
            cluster.name, self.options.extra, tolerations=({"operator": "Exists"},)
        )
        cluster.claim = Claim(cluster.access, making)
        cluster.access.availability.patience = self.patience
        cluster.access.availability.tell = self.tell
        engine = images.engine()
        here = [
            image
            for image in dict.fromkeys((making.workload_image, making.agent_image, *wanted))
            if engine.has(image)
        ]
        cluster.load([*([images.archive(engine, here)] if here else []), *archives])
        return agents.start(
            cluster.access,
            making,
            sorted(cluster.facts, key=lambda node: (node.control_plane, node.name)),
        )

    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        """Of a cluster without a CNI, which is made for it and removed."""
        cluster = OneCluster(self.options, kube_proxy=True)
        try:
            _, nodes = self._agents(cluster, (), ())
            try:
                return agents.nics(nodes, every)
            finally:
                for node in nodes:
                    node.gateway.close()
        finally:
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
            **self._facts,
        }

    def leftovers(
        self, owners: Sequence[str] = (), tell: Callable[[str], None] = print
    ) -> list[Leftover]:
        """The clusters of runs that are no more, and those that were kept."""
        return kind_clusters.leftovers({state.owner(), *owners}, tell)

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


PROVIDER = KindCluster
