"""Real CNIs one after the other on one kept cluster: installed, attested, recognised, removed
without a trace; and what is refused.

Everything is the product's own: charts out of the projects' modules, images built from their
sources (see tests/e2e/kind).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _kind_cluster import Kept
from _kind_runs import until
from _kubectl import kubectl

from cnibench.clusters.kubernetes import install
from cnibench.clusters.kubernetes.cni import manifests, recognise, wait
from cnibench.clusters.kubernetes.pods import policy_objects
from cnibench.clusters.kubernetes.removal import eviction, node_cleaning
from cnibench.errors import ClusterError, LimitError
from cnibench.model.profile import Profile, builtin

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def kept(bare_cluster: Kept) -> Kept:
    return bare_cluster


@pytest.fixture(autouse=True)
def _nothing_stays(kept: Kept) -> Iterator[None]:
    yield
    kept.remove()
    assert install.recorded(kept.access) == ""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no CNI works, Pods never leave the network properly: they are not waited for long."""
    monkeypatch.setattr(eviction, "_LEAVING", 5.0)


def _attested(kept: Kept, profile: Profile) -> dict[str, str]:
    """Check to what was observed; all of them passed."""
    deployment = kept.deployment(profile)
    try:
        checks = deployment.attest()
    finally:
        deployment.remove()
    assert not [f"{one.check}: {one.expected}: {one.observed}" for one in checks if not one.passed]
    return {one.check: one.observed for one in checks}


def test_a_cluster_without_a_cni_is_known_as_one(kept: Kept) -> None:
    until(
        lambda: recognise.current(kept.access).said == recognise.NONE
    )  # of a CNI that has just gone kubelets tell some seconds later


def test_a_plugin_that_outlives_its_file_is_ended(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it writes its files again after they were removed."""
    monkeypatch.setattr(node_cleaning, "_PLUGINS", 1.0)
    node, host = kept.nodes[0], ["nsenter", "-t", "1", "-m", "--"]
    node.run([*host, "sh", "-c", "cp $(command -v sleep) /opt/cni/bin/slow"], timeout=30)
    with node.spawn([*host, "/opt/cni/bin/slow", "300"]) as process:
        look = ["sh", "-c", "ls -l /proc/[0-9]*/exe 2>/dev/null | grep -q /opt/cni/bin/slow"]
        until(lambda: node.run(look, timeout=10, check=False).returncode == 0, 30)
        node.run([*host, "rm", "/opt/cni/bin/slow"], timeout=30)
        node_cleaning.end_plugins(node)
        assert process.wait(10) != 0


@pytest.mark.parametrize("name", ["veth-baseline", "flannel-udp", "cilium-native"])
def test_installed_attested_removed(kept: Kept, name: str) -> None:
    """flannel, flannel-host-gw, cilium: see test_kind_fidelity.py, and the runs that attest them;
    bridge-static: test_kind_ownership.py.
    """
    profile = builtin()[name]
    kept.install(profile)
    kept.ready(profile)
    assert recognise.current(kept.access)[0] == name
    observed = _attested(kept, profile)
    assert {"reach-intra", "intra-stays-inside", "reach-inter", "encapsulation", "mtu"} <= set(
        observed
    )
    kept.remove()
    assert kept.left(kept.bare) == []


@pytest.mark.parametrize(
    "name",
    [
        "flannel",
        "flannel-wireguard",
        "flannel-ipip",
        "cilium-geneve",
        "cilium-kpr",
        "cilium-wireguard",
        "cilium-ipsec",
        "kube-router",
        "kube-router-default",
        "kube-router-ipip",
        "weave",
        "weave-encrypted",
        "weave-npc",
        "weave-sleeve",
        "kindnet",
        "kindnetd",
    ],
)
def test_the_api_server_accepts_what_would_be_applied(kept: Kept, name: str) -> None:
    """Those among them that cannot run here: no registry has their images. In a namespace that is
    there, for one that is made takes some seconds to go.
    """
    profile = builtin()[name]
    rendered = manifests.render(kept.access, profile, kept.settings(profile), kept.variables)
    spaces = {item["metadata"]["name"] for item in rendered.objects if item["kind"] == "Namespace"}
    for item in rendered.objects:
        if item["metadata"].get("namespace") in spaces:
            item["metadata"]["namespace"] = kept.making.namespace
    install.dry_run(kept.access, rendered.objects)


def test_the_api_server_accepts_the_policies(kept: Kept) -> None:
    install.dry_run(kept.access, policy_objects.pairs(kept.making.namespace))


def test_what_fails_half_way_is_removed_and_reported(kept: Kept, hurried: None) -> None:
    with pytest.raises(
        ClusterError, match="could not be installed, and was removed again"
    ) as error:
        kept.install(builtin()["flannel"], **{"flannel.resources.requests.cpu": "many"})
    assert "quantit" in error.value.message
    assert not kubectl(kept.access, "get", "namespace", "kube-flannel", "--ignore-not-found").stdout
    assert kept.left(kept.bare) == []


def test_a_pull_that_does_not_end_is_reported_with_the_pod_that_waits(
    kept: Kept, hurried: None
) -> None:
    profile = builtin()["flannel"]
    kept.install(profile, image="registry.invalid/none/flannel:v0")
    with pytest.raises(LimitError, match="not ready within 20 s") as error:
        wait.ready(kept.access, profile, 20)
    assert "ImagePull" in error.value.message
    assert "registry.invalid/none/flannel:v0" in error.value.message
    kept.remove()


def test_what_an_earlier_run_installed_is_named_and_can_be_removed(kept: Kept) -> None:
    kept.install(builtin()["bridge-static"])
    with pytest.raises(ClusterError, match="earlier run installed bridge-static") as error:
        kept.install(builtin()["veth-baseline"])
    assert "cnibench clean" in error.value.remedy
    kept.remove()
    assert kept.left(kept.bare) == []
