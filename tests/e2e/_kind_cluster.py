"""A kind cluster without a CNI, made by the product's own code, on which profiles are installed and
removed one after the other.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from _audit import audited
from _kind_runs import until
from _kubectl import got, kubectl
from kind.parts import Parts

from cnibench.clusters.kind import containers
from cnibench.clusters.kubernetes import images, install
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.cni import wait
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.nodes import agents, proxy_mode
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.model.profile import Profile
from cnibench.testbed.cluster import Options
from tests._node_leftovers import Snapshot, leftovers, snapshot

OPTIONS = Options()
READY = 240.0  # s


@dataclasses.dataclass
class Kept:
    """A cluster without a CNI, with our agents on its nodes, and what those had then."""

    cluster: containers.OneCluster
    access: Access
    making: Making
    nodes: list[KubernetesNode]
    variables: dict[str, str]
    charts: Mapping[str, str]
    audit: Path
    """folder of the API server's log of what ServiceAccounts in ``bench`` ask for"""
    bare: dict[str, Snapshot]

    def settings(self, profile: Profile) -> dict[str, str]:
        assert profile.kubernetes is not None
        chart = any(step.chart for step in profile.kubernetes.steps)
        # Privileged instead of single capabilities, of which a machine may lack some
        # (CAP_SYS_RESOURCE in many containers).
        more = {"securityContext.privileged": "true"} if profile.cni == "cilium" else {}
        return {"chart": self.charts[profile.cni], **more} if chart else {}

    def install(self, profile: Profile, **more: str) -> None:
        install.install(
            self.access, profile, {**self.settings(profile), **more}, self.variables, self.nodes
        )

    def ready(self, profile: Profile, dns: bool = False) -> None:
        """Waits for the CNI; ``dns``: and for kube-dns. A Service without Pods has rules of its
        own, and Pods that come up disturb.
        """
        wait.ready(self.access, profile, READY)
        if dns:
            until(self._has_dns)

    def _has_dns(self) -> bool:
        slices = got(
            self.access,
            "endpointslices",
            "-n",
            "kube-system",
            "-l",
            "kubernetes.io/service-name=kube-dns",
        )["items"]
        return (
            sum(
                one["conditions"].get("ready", False)
                for item in slices
                for one in item.get("endpoints") or ()
            )
            == 2
        )

    def deployment(self, profile: Profile) -> KubernetesDeployment:
        """The profile that was installed, as it is measured."""
        made = KubernetesDeployment(
            profile.name, profile, OPTIONS, self.access, self.making, self.nodes, self.variables
        )
        made.proxy = proxy_mode.of(profile, self.nodes)
        return made

    def remove(self) -> None:
        install.uninstall(self.access, None, {}, self.nodes)

    def state(self) -> dict[str, Snapshot]:
        return {node.name: snapshot(node) for node in self.nodes}

    def left(self, before: Mapping[str, Snapshot]) -> list[str]:
        return [
            f"{name}: {item}"
            for name, after in self.state().items()
            for item in leftovers(before[name], after)
        ]


def _ask_dns_often(access: Access) -> None:
    """Whether kube-dns is ready the kubelet asks every second, not every ten: it is waited for
    after some installations. No Pod of it runs before there is a CNI.
    """
    dns = ("deployment", "coredns", "-n", "kube-system")
    path = "/spec/template/spec/containers/0/readinessProbe/periodSeconds"
    often = json.dumps([{"op": "add", "path": path, "value": 1}])
    kubectl(access, "scale", *dns, "--replicas=0")
    kubectl(access, "patch", *dns, "--type=json", "-p", often)
    kubectl(access, "scale", *dns, "--replicas=2")


def kept(parts: Parts, audit: Path) -> Iterator[Kept]:
    """One such cluster, until the generator goes on; CNIBENCH_KIND_IMAGE names the node image."""
    usual = containers.configuration
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(containers, "configuration", lambda *asked: audited(usual(*asked), audit))
        cluster = containers.OneCluster(OPTIONS)
    try:
        making = Making(
            cluster.name,
            cluster.name,
            images.name("workload"),
            images.name("agent"),
            tolerations=({"operator": "Exists"},),
        )
        ordered = sorted(cluster.facts, key=lambda node: (node.control_plane, node.name))
        making, nodes = agents.start(cluster.access, making, ordered)
        assert making.rights == "capabilities"
        charts = {name: str(path) for name, path in parts.charts.items()}
        variables = cluster.variables(OPTIONS)
        found = Kept(cluster, cluster.access, making, nodes, variables, charts, audit, {})
        found.bare = found.state()
        _ask_dns_often(found.access)
        yield found
    finally:
        cluster.delete()
