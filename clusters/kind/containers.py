"""One kind cluster: its configuration, its containers, their images, its end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cnibench.clusters.kubernetes import install
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.nodes import kubelets, pids_limit
from cnibench.clusters.kubernetes.nodes.nodes import facts
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.ownership import kind_clusters, state
from cnibench.clusters.kubernetes.ownership.namespace import Claim
from cnibench.errors import ClusterError, CnibenchError, LimitError, MissingError
from cnibench.system import process as programs
from cnibench.system.interrupt import cleaning_up
from cnibench.testbed.cluster import Options

POD_SUBNETS = {4: "10.244.0.0/16", 6: "fd00:10:244::/56"}
SERVICE_SUBNETS = {4: "10.96.0.0/16", 6: "fd00:10:96::/112"}
_CREATE = 300.0  # s
_LOAD = 180.0  # s: of one archive
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


def configuration(families: Sequence[int], nodes: int, proxy: str) -> dict[str, Any]:
    """A kind Cluster object without a CNI; ``proxy`` is kube-proxy's mode, or none."""
    networking = {
        "disableDefaultCNI": True,
        "ipFamily": "dual" if len(families) > 1 else f"ipv{families[0]}",
        "podSubnet": ",".join(POD_SUBNETS[family] for family in families),
        "serviceSubnet": ",".join(SERVICE_SUBNETS[family] for family in families),
        "kubeProxyMode": proxy,
    }
    if (
        4 not in families
    ):  # kind would publish the API server's port on ::1, from which podman 4.3 forwards nothing
        networking["apiServerAddress"] = "127.0.0.1"
    roles = ["control-plane", *["worker"] * (nodes - 1)]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": networking,
        "nodes": [{"role": role} for role in roles],
        "kubeadmConfigPatches": list(map(json.dumps, (kubelets.configuration(), *_alone()))),
    }


def _alone() -> Iterator[dict[str, Any]]:
    """The only controller manager and the only scheduler elect no leader: they would write to etcd
    every other second, and end when the CPUs are too busy for it. One patch for each version
    of kubeadm's configuration.
    """
    off = {"leader-elect": "false"}
    for version, options in (
        ("v1beta3", off),
        ("v1beta4", [{"name": name, "value": value} for name, value in off.items()]),
    ):
        yield {
            "apiVersion": f"kubeadm.k8s.io/{version}",
            "kind": "ClusterConfiguration",
            "controllerManager": {"extraArgs": options},
            "scheduler": {"extraArgs": options},
        }


def node_image(options: Options) -> str:
    """The one that was asked for; '' for kind's own."""
    return options.cluster.node_image or os.environ.get(_NODE_IMAGE, "")


class OneCluster:
    """One kind cluster, ours. Raises ClusterError when it cannot be made; nothing of it stays
    then.
    """

    def __init__(self, options: Options, proxy: str = "iptables") -> None:
        self.kept = state.Kept(state.new_cluster())
        self.name = self.kept.name
        self.claim: Claim | None = None
        self.nodes: list[KubernetesNode] = []
        self._there = False
        try:
            self._create(options, proxy)
        except BaseException as error:
            with cleaning_up(error):
                self.delete()
            raise

    def _create(self, options: Options, proxy: str) -> None:
        config = configuration(options.ip, options.cluster.kind_nodes or 2, proxy)
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
        if image := node_image(options):
            argv += ["--image", image]
        self._there = True
        try:
            programs.run(argv, timeout=_CREATE, input=json.dumps(config))
        except LimitError:
            raise ClusterError(
                f"kind made no cluster within {_CREATE:.0f} s",
                "is its node image here? --node-image IMAGE",
            ) from None
        except ClusterError as error:
            remedies = (remedy for sign, remedy in _REMEDIES.items() if sign in error.message)
            remedy = next(remedies, "--node-image IMAGE names another node image")
            raise ClusterError(f"kind made no cluster: {error.message}", remedy) from None
        self.access = Access(self.kept.kubeconfig)
        self.facts = [facts(item) for item in self.access.listed("nodes")]
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
        """What an installation knows of the cluster."""
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
            "registry": options.cluster.registry or "",
            "pull_secret": options.cluster.pull_secret or "",
            "kubernetes": self.access.server_version,
        }

    def delete(self) -> None:
        """Raises ClusterError; may be called twice."""
        if self.claim is not None:
            self.claim.stop()
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
            self.claim.release()
        self.access.close()
        self.kept.release(keep=True)
        return (
            f"kept: KUBECONFIG={self.kept.kubeconfig} kubectl get pods -A; 'cnibench clean"
            f" --cluster kind' removes it{more}"
        )
