"""Real CNIs one after the other on one kept cluster: installed, attested, recognised, removed without a trace; and what is refused.

Everything is the product's own: charts out of the projects' modules, images built from their sources (see tests/e2e/kind).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kind.parts import Parts

from cnibench import exec as programs
from cnibench.cluster import Options
from cnibench.clusters import kind as kind_cluster
from cnibench.clusters._kubernetes import agents, images, install, manifests, recognise, removal, wait
from cnibench.clusters._kubernetes.access import Access
from cnibench.clusters._kubernetes.objects import Making
from cnibench.clusters._kubernetes.places import KubernetesNode
from cnibench.clusters._kubernetes.remains import Snapshot
from cnibench.clusters._kubernetes.standing import KubernetesStanding
from cnibench.errors import ClusterError, LimitError
from cnibench.profile import Profile, builtin

pytestmark = pytest.mark.timeout(600)
READY = 240.0  # s
OPTIONS = Options()
BASE = "localhost/cnibench-e2e/base:bookworm"


@dataclasses.dataclass
class Kept:
    """A cluster without a CNI, with our agents on its nodes, and what those had then."""

    cluster: kind_cluster.OneCluster
    access: Access
    making: Making
    nodes: list[KubernetesNode]
    variables: dict[str, str]
    charts: Mapping[str, str]
    bare: dict[str, Snapshot]

    def settings(self, profile: Profile) -> dict[str, str]:
        assert profile.kubernetes is not None
        chart = any(step.chart for step in profile.kubernetes.steps)
        # Privileged instead of single capabilities, of which a machine may lack some (CAP_SYS_RESOURCE in many containers).
        more = {"securityContext.privileged": "true"} if profile.cni == "cilium" else {}
        return {"chart": self.charts[profile.cni], **more} if chart else {}

    def install(self, profile: Profile, **more: str) -> None:
        install.install(self.access, profile, {**self.settings(profile), **more}, self.variables, self.nodes)

    def remove(self) -> None:
        install.uninstall(self.access, None, {}, {}, self.nodes)

    def state(self) -> dict[str, Snapshot]:
        return {node.name: removal.snapshot(node) for node in self.nodes}

    def left(self, before: Mapping[str, Snapshot]) -> list[str]:
        return [f"{name}: {item}" for name, after in self.state().items() for item in removal.leftovers(before[name], after)]


@pytest.fixture(scope="module")
def kept(kind_parts: Parts) -> Iterator[Kept]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CNIBENCH_KIND_IMAGE", kind_parts.node_image)
        engine = images.engine()
        if not engine.has(BASE):
            programs.run(["podman", "load", "-i", str(kind_parts.base)], timeout=300)
        for name in images.KINDS:
            if not engine.has(images.name(name)):
                engine.build(name, base=BASE)
        cluster = kind_cluster.OneCluster(OPTIONS, kube_proxy=True)
        try:
            making = Making(
                cluster.name, cluster.name, images.name("workload"), images.name("agent"), tolerations=({"operator": "Exists"},)
            )
            cluster.load([images.archive(engine, [making.workload_image, making.agent_image])])
            cluster.load([kind_parts.flannel, kind_parts.cilium])
            ordered = sorted(cluster.facts, key=lambda node: (node.control_plane, node.name))
            making = agents.make(cluster.access, making, ordered)
            nodes = agents.connect(cluster.access, making, ordered)
            for node in nodes:
                node.device = agents.device(node)
            charts = {name: str(path) for name, path in kind_parts.charts.items()}
            found = Kept(cluster, cluster.access, making, nodes, cluster.variables(OPTIONS), charts, {})
            found.bare = found.state()
            yield found
        finally:
            cluster.delete()


@pytest.fixture(autouse=True)
def _nothing_stays(kept: Kept) -> Iterator[None]:
    yield
    kept.remove()
    assert install.recorded(kept.access) == ""


def _attested(kept: Kept, profile: Profile) -> dict[str, str]:
    """Check to what was observed; all of them passed."""
    install.policies(kept.access, profile, kept.making.namespace)
    standing = KubernetesStanding(profile.name, profile, OPTIONS, kept.access, kept.making, kept.nodes, kept.variables)
    try:
        checks = standing.attest()
    finally:
        standing.remove()
    assert not [f"{one.check}: {one.expected}: {one.observed}" for one in checks if not one.passed]
    return {one.check: one.observed for one in checks}


def test_a_cluster_without_a_cni_is_known_as_one(kept: Kept) -> None:
    assert recognise.current(kept.access) == ("", recognise.NONE)


@pytest.mark.parametrize("name", ["bridge-static", "veth-baseline", "flannel-host-gw", "flannel-udp", "cilium-native"])
def test_installed_attested_removed(kept: Kept, name: str) -> None:
    profile = builtin()[name]
    kept.install(profile)
    wait.ready(kept.access, profile, READY)
    assert recognise.current(kept.access)[0] == name
    observed = _attested(kept, profile)
    assert {"reach-intra", "intra-stays-inside", "reach-inter", "encapsulation", "mtu"} <= set(observed)
    kept.remove()
    assert kept.left(kept.bare) == []


def test_flannel_then_cilium_then_flannel_again(kept: Kept) -> None:
    """The second flannel stands on nodes that are as they were before the first."""
    flannel, cilium = builtin()["flannel"], builtin()["cilium"]
    seen: list[dict[str, Any]] = []
    for profile in (flannel, cilium, flannel):
        kept.install(profile)
        wait.ready(kept.access, profile, READY)
        observed = _attested(kept, profile)
        assert "vxlan" in observed["encapsulation"]
        rules = {name: shot.items["iptables"] for name, shot in kept.state().items()}
        seen.append({"checks": set(observed), "rules": rules})
        kept.remove()
        assert kept.left(kept.bare) == []
    assert seen[0] == seen[2]
    assert seen[0] != seen[1]


def test_policies_that_apply_are_attested(kept: Kept) -> None:
    """A CNI that enforces policies, with ours: the stranger stays out, the pair is let in."""
    plain = builtin()["cilium"]
    assert plain.kubernetes is not None
    profile = plain.model_copy(update={"kubernetes": plain.kubernetes.model_copy(update={"policy": "enforced"})})
    kept.install(profile)
    wait.ready(kept.access, profile, READY)
    observed = _attested(kept, profile)
    assert observed["denied-intra"].startswith("denied")
    assert observed["denied-inter"].startswith("denied")
    kept.access.kubectl("delete", "networkpolicies", "--all", "-n", kept.making.namespace)


@pytest.mark.parametrize("name", [
    "flannel", "flannel-wireguard", "flannel-ipip", "cilium-geneve", "cilium-kpr", "cilium-wireguard", "cilium-ipsec",
    "kube-router", "kube-router-ipip", "weave", "weave-sleeve", "weave-encrypted", "kindnet",
])  # fmt: skip
def test_the_api_server_accepts_what_would_be_applied(kept: Kept, name: str) -> None:
    """Those among them that cannot run here: no registry has their images."""
    profile = builtin()[name]
    objects = manifests.render(kept.access, profile, kept.settings(profile), kept.variables)
    spaces = [item for item in objects if item["kind"] == "Namespace"]
    if spaces:
        kept.access.apply(*spaces)
    try:
        install.dry_run(kept.access, [item for item in objects if item["kind"] != "Namespace"])
    finally:
        for space in spaces:
            kept.access.kubectl("delete", "namespace", space["metadata"]["name"], timeout=60)


def test_the_api_server_accepts_the_policies(kept: Kept) -> None:
    policies = manifests.own("policies.yaml")
    for item in policies:
        item["metadata"]["namespace"] = kept.making.namespace
    install.dry_run(kept.access, policies)


def test_what_fails_half_way_is_removed_and_reported(kept: Kept) -> None:
    with pytest.raises(ClusterError, match="could not be installed, and was removed again") as error:
        kept.install(builtin()["flannel"], **{"flannel.resources.requests.cpu": "many"})
    assert "quantit" in error.value.message
    assert not kept.access.kubectl("get", "namespace", "kube-flannel", "--ignore-not-found").stdout
    assert kept.left(kept.bare) == []


def test_a_pull_that_does_not_end_is_told_with_the_pod_that_waits(kept: Kept) -> None:
    profile = builtin()["flannel"]
    kept.install(profile, image="registry.invalid/none/flannel:v0")
    with pytest.raises(LimitError, match="not ready within 20 s") as error:
        wait.ready(kept.access, profile, 20)
    assert "ImagePull" in error.value.message
    assert "registry.invalid/none/flannel:v0" in error.value.message


def test_what_an_earlier_run_installed_is_named_and_can_be_removed(kept: Kept) -> None:
    kept.install(builtin()["bridge-static"])
    with pytest.raises(ClusterError, match="earlier run installed bridge-static") as error:
        kept.install(builtin()["veth-baseline"])
    assert "cnibench clean" in error.value.remedy
    kept.remove()
    assert kept.left(kept.bare) == []
