"""Whose a CNI is when it is to be removed: nobody's work goes that the run has not recorded, and
none below a run that lives.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from cnibench.clusters.existing import ExistingCluster
from cnibench.clusters.kubernetes import install
from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.api.kinds import Kind
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.clusters.kubernetes.ownership import discovery, lease
from cnibench.clusters.kubernetes.ownership.safety import Allowed, RefusedError
from cnibench.clusters.kubernetes.removal import cleaning, record, uninstallation
from cnibench.clusters.kubernetes.removal.cleaning import Survey
from cnibench.clusters.kubernetes.removal.inventory import Inventory
from cnibench.clusters.kubernetes.removal.record import Record
from cnibench.clusters.kubernetes.removal.uninstallation import uninstall
from cnibench.errors import ClusterError, Interrupted
from cnibench.model.profile import builtin
from cnibench.offload import change
from cnibench.testbed.cluster import Options
from tests.unit._objects import Objects

OWNER = "calm-otter-0123ab"


class Cluster:
    """Namespaces of runs with their Leases, the record of a CNI, and who renews at each look."""

    context = "lab"

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.renewing: set[str] = set()
        self.asked: list[str] = []

    def run(self, name: str, holder: str) -> None:
        labels = {"app.kubernetes.io/managed-by": "cnibench", "cnibench.io/run": name}
        self.objects[f"/api/v1/namespaces/{name}"] = {
            "metadata": {"name": name, "uid": name, "labels": labels}
        }
        made = lease.body(name, name, OWNER, holder)
        made["spec"]["leaseDurationSeconds"] = 1
        self.objects[lease.path(name)] = made
        if holder:
            self.renewing.add(lease.path(name))

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> Answer:
        self.asked.append(f"{method} {path}")
        if path.startswith("/api/v1/namespaces?"):
            items = [one for at, one in self.objects.items() if at.count("/") == 4]
            return Answer(200, {"items": items})
        if path not in self.objects:
            return Answer(404)
        found = self.objects[path]
        if path in self.renewing:
            found["spec"]["leaseTransitions"] += 1
            found = {**found, "spec": dict(found["spec"])}
        return Answer(200, found)

    def listed(self, *what: str) -> list[dict[str, Any]]:
        return []

    def checked(self, answer: Answer, what: str) -> Any:
        if not answer.ok:
            raise self.refusal(answer, what)
        return answer.body

    def refusal(self, answer: Answer, what: str) -> ClusterError:
        return ClusterError(f"{what}: {answer.status}")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(discovery, "_LOOK", 0.01)
    made = Cluster()
    made.objects[cleaning._RECORD] = {
        "metadata": {
            "resourceVersion": "1",
            "annotations": {"cnibench.io/run": "kept", lease.OWNER: OWNER},
        },
        "data": {"profile": "flannel"},
    }
    made.run("kept", holder="")  # as --keep leaves it
    return made


def left(cluster: Any, run: str = "") -> tuple[Survey, Any]:
    found = Survey(cluster, Allowed(install=True), [OWNER], lambda text: None, run)
    return found, found.cni(2, lambda: None)


def test_a_cni_that_a_run_kept_may_be_removed(cluster: Any) -> None:
    assert left(cluster)[1].kept == ""


def test_a_cni_stays_below_a_run_that_did_not_install_it(cluster: Any) -> None:
    cluster.run("measures", holder="wise-yew-999999_measures")
    assert left(cluster)[1].kept == "the run measures uses it"
    assert left(cluster, run="measures")[1].kept == "", "a run is not in its own way"
    assert [one.name for one in discovery.users(cluster, print, "", set())] == ["measures"]
    assert discovery.users(cluster, print, "measures", set()) == []


def test_a_run_that_begins_meanwhile_keeps_the_cni(cluster: Any) -> None:
    found, _ = left(cluster)
    cluster.run("cleaner", holder="ours")
    cluster.run("later", holder="wise-yew-999999_later")
    with pytest.raises(ClusterError, match=r"the run later of .* has begun to use the cluster"):
        found.take_record("cleaner")
    assert not [asked for asked in cluster.asked if asked.startswith("annotate")]


SOMEBODYS = {"metadata": {"name": "cart", "namespace": "shop"}, "spec": {"nodeName": "a"}}


@pytest.fixture
def existing(cluster: Any) -> Any:
    made = ExistingCluster(Options())
    made.__dict__["access"] = cluster
    return made


def test_a_cni_is_not_removed_under_pods_that_came_meanwhile(existing: Any, cluster: Any) -> None:
    existing._check_alone("flannel", "mine")
    cluster.listed = lambda *what: [SOMEBODYS]
    with pytest.raises(RefusedError, match="shop/cart"):
        existing._check_alone("flannel", "mine")


def test_a_cni_is_not_removed_under_a_run_that_began_meanwhile(existing: Any, cluster: Any) -> None:
    cluster.run("mine", holder="ours")
    existing._check_alone("flannel", "mine")
    cluster.run("later", holder="wise-yew-999999_later")
    with pytest.raises(RefusedError, match=r"the run later of calm-otter-0123ab .* flannel") as it:
        existing._check_alone("flannel", "mine")
    assert "cnibench clean --cluster existing --allow-install" in it.value.remedy
    cluster.run("later", holder="")
    existing._check_alone("flannel", "mine")


def test_a_run_that_was_killed_is_watched_once(
    existing: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each removal of a run with several blocks asks."""
    monkeypatch.setattr(discovery, "_MARGIN", 0.0)
    said: list[str] = []
    existing.notify = said.append
    cluster.run("killed", holder="wise-yew-999999_killed")
    cluster.objects[lease.path("killed")]["spec"]["leaseDurationSeconds"] = 0.05
    cluster.renewing.clear()
    existing._check_alone("flannel", "mine")
    existing._check_alone("flannel", "mine")
    assert len(said) == 1
    cluster.renewing.add(lease.path("killed"))  # it was only suspended
    with pytest.raises(RefusedError, match="the run killed"):
        existing._check_alone("flannel", "mine")


def test_another_run_keeps_a_cni_that_nobody_recorded(existing: Any, cluster: Any) -> None:
    existing._check_unused()
    cluster.run("measures", holder="wise-yew-999999_measures")
    existing._check_unused("measures")
    with pytest.raises(RefusedError, match="the run measures"):
        existing._check_unused("mine")


@pytest.mark.parametrize(
    ("managers", "own"),
    [({"flanneld", "kubelet"}, True), ({"cnibench"}, True), (set(), True), ({"helm"}, False)],
)
def test_what_others_made_while_it_is_installed_is_not_overwritten(
    managers: set[str], own: bool
) -> None:
    kind = Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False)
    fields = [{"manager": one} for one in managers]
    there = {"metadata": {"name": "flannel", "uid": "1", "managedFields": fields}}
    applied: list[str] = []

    class Api:
        def get(self, path: str) -> dict[str, Any]:
            return there

        def apply(self, path: str, item: dict[str, Any]) -> dict[str, Any]:
            applied.append(path)
            return there

    inventory = Inventory(Api())  # type: ignore[arg-type]
    inventory.kinds = {("rbac.authorization.k8s.io", "ClusterRole"): kind}
    item = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "flannel"},
    }
    note = noted("mine")
    if own:
        install._apply(inventory, note, [item])
        assert list(note.applied.values()) == ["1"]
    else:
        with pytest.raises(ClusterError, match="ClusterRole flannel"):
            install._apply(inventory, note, [item])
        assert not applied


def test_clean_restores_what_a_dead_run_changed_on_a_node_and_not_what_a_live_one_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are on the same node; only the live one gives signs of life."""
    for device, age in (("dead", 60), ("live", 2)):
        (tmp_path / f"{device}.restore").write_text(f"touch {tmp_path}/{device}.restored\n")
        lease_of = tmp_path / f"{device}.lease"
        lease_of.touch()
        os.utime(lease_of, (time.time() - age,) * 2)
    ready = {"type": "Ready", "status": "True"}
    meta = {"name": "agent-x", "namespace": "space", "labels": {objects.ROLE: objects.AGENT}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
    access: Any = Objects({**pod, "status": {"conditions": [ready]}})
    asked: list[Sequence[str]] = []

    def run(self: Gateway, argv: Sequence[str], timeout: float) -> None:
        assert self.pod == "agent-x"
        asked.append(argv)

    monkeypatch.setattr(Gateway, "run", run)
    agents.restore(access, "space")
    ((*_, shell, option, script, folder, age, patience),) = asked
    assert folder == f"{objects.HOST}{change.FOLDER}"
    assert int(patience) > int(age), "the run may have ended just now"
    subprocess.run([shell, option, script, str(tmp_path), age, "0"], check=True, timeout=10)
    assert (tmp_path / "dead.restored").exists()
    assert not (tmp_path / "live.restored").exists()
    (tmp_path / "live.lease").touch()
    subprocess.run([shell, option, script, str(tmp_path), "0", "5"], check=True, timeout=10)
    assert (tmp_path / "live.restored").exists(), "it gave no sign of life any more"


def noted(run: str) -> Record:
    about = builtin()["flannel"].kubernetes
    assert about is not None
    return Record("flannel", about, {}, run=run)


@pytest.mark.parametrize(
    ("there", "said"),
    [(None, "deleted the record"), (noted("another"), "installed by another run")],
)
def test_what_this_run_has_not_recorded_is_not_removed(
    there: Record | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It woke up, and somebody else has installed one of the same name meanwhile."""

    def never(*_: Any) -> None:
        raise AssertionError("it went on")

    monkeypatch.setattr(record, "read", lambda rest: there)
    for name in ("Inventory", "Rest"):
        monkeypatch.setattr(uninstallation, name, lambda *_: None)
    monkeypatch.setattr(uninstallation.selection, "find", never)
    monkeypatch.setattr(uninstallation.manifests, "render", never)
    access: Any = None
    with pytest.raises(ClusterError, match=said):
        uninstall(access, builtin()["flannel"], {"run": "mine"})


def test_a_profile_that_installs_nothing_has_nothing_to_remove(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "read", lambda rest: None)
    access: Any = None
    uninstall(access, builtin()["host"], {"run": "mine"})


def test_what_ctrl_c_ends_the_installation_of_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []

    def ctrl_c(*_: Any) -> None:
        raise Interrupted("interrupted")

    def remove(access: Any, profile: Any, variables: Any, nodes: Any) -> None:
        removed.append(profile.name)
        raise ClusterError("node a does not answer", "cnibench clean")

    for name in ("Inventory", "Record", "Rest", "node_objects", "plugins"):
        monkeypatch.setattr(install, name, MagicMock())
    monkeypatch.setattr(install, "recorded", lambda access: "")
    monkeypatch.setattr(install.manifests, "render", MagicMock())
    monkeypatch.setattr(install, "on_each", ctrl_c)
    monkeypatch.setattr(install, "uninstall", remove)
    access: Any = None
    with pytest.raises(Interrupted) as caught:
        install.install(access, builtin()["flannel"], {}, {})
    assert removed == ["flannel"]
    assert caught.value.message == "interrupted; then: node a does not answer"
