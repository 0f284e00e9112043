"""Whose the objects of a cluster are: what was applied, what a CNI's programs made, what follows
from it, and what is of others.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.kubernetes.api.kinds import Kind
from cnibench.clusters.kubernetes.api.objects import NAME, OURS
from cnibench.clusters.kubernetes.cni.manifests import LABEL
from cnibench.clusters.kubernetes.cni.sources import Rendered
from cnibench.clusters.kubernetes.removal import backup, selection, uninstallation
from cnibench.clusters.kubernetes.removal.inventory import Inventory, Thing, thing
from cnibench.clusters.kubernetes.removal.record import Record, _packed, _unpacked, read
from cnibench.clusters.kubernetes.removal.selection import Belongings, BlockedError, Known
from cnibench.errors import ClusterError
from cnibench.model.profile import builtin

KINDS = {
    kind: Kind(api, kind, plural, namespaced)
    for api, kind, plural, namespaced in (
        ("v1", "Namespace", "namespaces", False),
        ("v1", "ConfigMap", "configmaps", True),
        ("v1", "Pod", "pods", True),
        ("v1", "ServiceAccount", "serviceaccounts", True),
        ("apps/v1", "DaemonSet", "daemonsets", True),
        ("coordination.k8s.io/v1", "Lease", "leases", True),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False),
        ("cilium.io/v2", "CiliumNode", "ciliumnodes", False),
        ("cilium.io/v1alpha1", "TracingPolicy", "tracingpolicies", False),
        ("apps/v1", "ControllerRevision", "controllerrevisions", True),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", False),
    )
}


def one(
    kind: str,
    name: str,
    *managers: str,
    uid: str = "",
    owner: str = "",
    labels: dict[str, str] | None = None,
) -> Thing:
    """``name`` is NAME or NAMESPACE/NAME; its UID is ``name`` unless given."""
    namespace, _, plain = name.rpartition("/")
    metadata: dict[str, Any] = {
        "name": plain,
        "namespace": namespace,
        "uid": uid or f"{kind}:{name}",
        "labels": labels or {},
        "managedFields": [{"manager": manager} for manager in managers],
        "ownerReferences": [{"uid": owner}] if owner else [],
    }
    return thing(KINDS[kind], metadata)


def known(
    *applied: Thing,
    before: tuple[str, ...] = (),
    managers: tuple[str, ...] = ("cilium-agent", "cilium-operator"),
) -> Known:
    return Known(
        {item.identity: item.uid for item in applied}, "cilium", managers, frozenset(before)
    )


SPACE = one("Namespace", "net", "cnibench")
SET = one("DaemonSet", "net/agent", "cnibench", "kube-controller-manager")
NODES = one(
    "CustomResourceDefinition", "ciliumnodes.cilium.io", "cilium-operator", "kube-apiserver"
)
TRACING = one("CustomResourceDefinition", "tracingpolicies.cilium.io", "tetragon-operator")


def names(things: Any) -> set[str]:
    return {str(item) for item in things}


def test_what_its_programs_made_is_its_own_and_what_others_made_is_not() -> None:
    lease = one("Lease", "kube-system/operator", "cilium-operator")
    node = one("CiliumNode", "a", "cilium-agent", owner="node-a")
    policy = one("TracingPolicy", "mine", "kubectl")
    other = one("CustomResourceDefinition", "x.example.org", "kubectl")
    found = selection.find(
        known(SPACE, SET), [SPACE, SET, NODES, TRACING, lease, node, policy, other]
    )
    assert names(found.applied) == {"Namespace net", "DaemonSet net/agent"}
    assert set(found.made) == {lease, node, NODES}
    assert not found.foreign
    assert found.definitions == [NODES]
    selection.check(found, "cilium")


def test_what_was_there_before_stays_whoever_wrote_it() -> None:
    found = selection.find(
        known(SPACE, before=(NODES.uid, SPACE.uid)),
        [SPACE, NODES, one("CiliumNode", "a", "kubectl")],
    )
    assert not found.explicit
    assert not found.foreign, "a definition that stays takes nothing along"


@pytest.mark.parametrize(
    "foreign",
    [
        one("ConfigMap", "net/theirs", "kubectl"),
        one("Pod", "net/theirs", "kubectl-run", "kubelet"),
        one("ConfigMap", "net/without-a-word-on-who-wrote-it"),
        one("ServiceAccount", "net/default", "kubectl-patch"),
        one("ConfigMap", "net/edited", "cilium-agent", "kubectl-edit"),
        one("CiliumNode", "theirs", "kubectl"),
        one("CiliumNode", "edited", "cilium-agent", "kubectl-edit"),
    ],
    ids=str,
)
def test_objects_of_others_in_its_namespaces_and_definitions_block(foreign: Thing) -> None:
    found = selection.find(known(SPACE, SET), [SPACE, SET, NODES, foreign])
    assert [item for item, _ in found.foreign] == [foreign]
    with pytest.raises(BlockedError) as error:
        selection.check(found, "cilium")
    assert str(foreign) in error.value.message
    assert error.value.remedy


def test_what_follows_from_its_own_does_not_block() -> None:
    follows = [
        one("ServiceAccount", "net/default"),
        one("ConfigMap", "net/kube-root-ca.crt", "kube-controller-manager"),
        one("Pod", "net/agent-x", "kube-controller-manager", owner=SET.uid),
        one("ConfigMap", "net/of-a-pod", "any", owner="Pod:net/agent-x"),
        one("CiliumNode", "of-a-run", "kubectl", labels={OURS: NAME}),
    ]
    found = selection.find(known(SPACE, SET), [SPACE, SET, NODES, *follows])
    assert not found.foreign
    assert names(found.derived) == names(follows)


def test_what_others_wrote_for_its_own_to_own_is_shown_and_saved(tmp_path: Path) -> None:
    """Kubernetes deletes it with its owner; nobody writes it again."""
    theirs = [
        one("ConfigMap", "net/theirs", "kubectl", owner=SET.uid),
        one("ConfigMap", "net/edited", "kube-controller-manager", "kubectl", owner=SET.uid),
        one("ConfigMap", "net/without-a-word-on-who-wrote-it", owner=SET.uid),
    ]
    comes_back = [
        one("ServiceAccount", "net/default"),
        one("Pod", "net/agent-x", "kube-controller-manager", "kubelet", owner=SET.uid),
        one("ControllerRevision", "net/agent-6f97", "kube-controller-manager", owner=SET.uid),
        one("CiliumNode", "of-a-run", "kubectl", labels={OURS: NAME}),
        one("Lease", "net/both", "cnibench", "cilium-agent", owner=SET.uid),
    ]
    found = selection.find(known(SPACE, SET), [SPACE, SET, NODES, *theirs, *comes_back])
    selection.check(found, "cilium")
    assert set(found.dependents) == set(theirs)
    assert {f"{item} (written by others, goes with its owner)" for item in theirs} | {
        "Namespace net"
    } <= set(found.lines())
    assert not [line for line in found.lines() if "agent-x" in line]

    class Api:
        def get(self, path: str) -> dict[str, Any] | None:
            item = next((each for each in [SPACE, SET, *theirs] if each.path == path), None)
            return item and {
                "kind": item.kind.kind,
                "metadata": {"name": item.name, "uid": item.uid},
            }

    api: Any = Api()
    (saved,) = backup.save(api, replace(found, made=()), tmp_path, "cilium")
    for item in theirs:
        assert f"name: {item.name}\n" in saved.read_text()


def test_a_namespace_that_follows_holds_others_back_as_well() -> None:
    """Calico's operator makes calico-system, which its Installation owns."""
    made, theirs = (
        one("Namespace", "made", "operator", owner=SET.uid),
        one("ConfigMap", "made/theirs", "kubectl"),
    )
    assert selection.find(known(SET), [SET, made, theirs]).foreign == [(theirs, made)]


def test_another_object_of_the_same_name_is_another_object() -> None:
    again = one("DaemonSet", "net/agent", "kubectl", uid="made-again")
    assert selection.find(known(SPACE, SET), [SPACE, again]).foreign == [(again, SPACE)]


def test_an_object_whose_uid_was_not_noted_is_known_by_who_applied_it_for_what() -> None:
    wanted = Known({SET.identity: ""}, "cilium", ())
    label = {LABEL: "cilium"}
    assert selection.find(wanted, [one("DaemonSet", "net/agent", "cnibench", labels=label)]).applied
    for other in (
        one("DaemonSet", "net/agent", "cnibench"),
        one("DaemonSet", "net/agent", "kubectl", labels=label),
    ):
        assert not selection.find(wanted, [other]).applied


def test_a_name_that_many_programs_have_tells_nothing_outside() -> None:
    made = one("ClusterRole", "somebodys", "operator"), one("CiliumNode", "a", "operator")
    found = selection.find(known(NODES, managers=("operator",)), [NODES, *made])
    assert names(found.made) == {"CiliumNode a"}


def test_what_writes_without_a_name_tells_only_of_bookkeeping() -> None:
    """Calico's programs do, and so does calicoctl, with which users make their policies."""
    made = (
        one("CiliumNode", "a", "Go-http-client"),
        one("TracingPolicy", "theirs", "Go-http-client"),
    )
    own = one("CustomResourceDefinition", "tracingpolicies.cilium.io", "cnibench")
    wanted = Known(
        {NODES.identity: NODES.uid, own.identity: own.uid},
        "",
        ("operator",),
        bookkeeping=("ciliumnodes.cilium.io",),
    )
    found = selection.find(wanted, [NODES, own, *made])
    assert names(found.made) == {"CiliumNode a"}
    assert found.foreign == [(made[1], own)]


@pytest.mark.parametrize("name", ["kube-system", "default"])
def test_the_clusters_own_namespaces_are_never_removed(name: str) -> None:
    space = one("Namespace", name, "cnibench")
    assert not selection.find(known(space), [space]).explicit


def test_kinds_that_cannot_be_listed_may_hide_objects_of_others() -> None:
    found = selection.find(known(SPACE), [SPACE, NODES])
    for kind in ("ConfigMap", "CiliumNode"):
        with pytest.raises(BlockedError, match="cannot be listed"):
            selection.check(found, "cilium", [KINDS[kind]])
    selection.check(found, "cilium", [KINDS["TracingPolicy"]])


class Stored:
    """The API server as far as the record asks it."""

    def __init__(self) -> None:
        self.item: dict[str, Any] | None = None

    def create(self, path: str, item: dict[str, Any]) -> dict[str, Any]:
        self.item = {**item, "metadata": {**item["metadata"], "uid": "1"}}
        return self.item

    def get(self, path: str) -> dict[str, Any] | None:
        return self.item

    def patch(self, path: str, change: dict[str, Any]) -> bool:
        if self.item is None or change["metadata"]["uid"] != self.item["metadata"]["uid"]:
            return False
        self.item["data"] |= change["data"]
        return True


def test_the_record_is_read_as_it_was_written() -> None:
    about = builtin()["cilium"].kubernetes
    assert about is not None
    store: Any = Stored()
    assert read(store) is None
    note = Record(
        "cilium",
        about,
        {SET.identity: ""},
        {"pod_cidr": "10.0.0.0/8"},
        {"n": ["bridge"]},
        frozenset({"u"}),
        {"n": {"labels": ["a"]}},
        owner="calm-otter-0123ab",
        run="cnibench-0123abcd",
    )
    note.create(store)
    assert read(store) == note
    note.applied[SET.identity] = "uid"
    note.remembered = True
    note.note(store)
    assert read(store) == note
    store.item["metadata"]["uid"] = "2"
    with pytest.raises(ClusterError, match="somebody else has deleted"):
        note.note(store)
    store.item["data"]["applied"] = "[1]"
    with pytest.raises(ClusterError, match="not one that this version of cnibench wrote"):
        read(store)


@pytest.mark.parametrize("name", ["../../.kube/config", "/etc/x"])
def test_a_record_whose_profile_is_a_path_is_not_ours(name: str) -> None:
    about = builtin()["cilium"].kubernetes
    assert about is not None
    store: Any = Stored()
    Record(name, about, {}).create(store)
    with pytest.raises(ClusterError, match="not one that this version of cnibench wrote"):
        read(store)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("applied", [["", "Node", "", "n", "u"]], "Node"),
        ("applied", [["", "ConfigMap", "", "n", 5]], "string"),
        ("applied", [["", "ConfigMap", "", "a\nb", "u"]], "pattern"),
        ("applied", {"a": 1}, "list"),
        ("variables", {"pod_cidr": "everything"}, "everything"),
        ("variables", {"other": "10.0.0.0/8"}, "other"),
        ("copied", {"n": ["../../bin/sh"]}, "pattern"),
        ("copied", [], "dict"),
        ("remembered", "yes", "bool"),
        ("before", [1], "string"),
        ("before", "u", "list"),
        ("marks", {"n": {"labels": "a"}}, "list"),
        ("marks", {"n": {"spec": []}}, "spec"),
        ("managers", ["kubectl-client-side-apply"], "writes objects of others"),
        ("managers", ["kube-controller-manager"], "writes objects of others"),
        ("managers", "all", "array"),
        ("leaves", {"rules": [""]}, "four printable"),
        ("leaves", {"taints": ["node.kubernetes.io/not-ready"]}, "taint"),
        ("leaves", {"route_tables": [254]}, "routing table"),
        ("leaves", {"files": ["/etc"]}, "removed"),
        ("leaves", {"devices": ["*"]}, "at least two"),
    ],
)
def test_a_record_that_somebody_changed_removes_nothing(key: str, value: Any, said: str) -> None:
    about = builtin()["cilium"].kubernetes
    assert about is not None
    store: Any = Stored()
    Record("cilium", about, {SET.identity: "u"}, before=frozenset({"u"})).create(store)
    data, packed = store.item["data"], _unpacked(store.item["binaryData"]["before"])
    if key in packed:
        store.item["binaryData"]["before"] = _packed(packed | {key: value})
    elif key in data:
        data[key] = json.dumps(value)
    else:
        data["installation"] = json.dumps(json.loads(data["installation"]) | {key: value})
    with pytest.raises(ClusterError, match="not one that this version") as refused:
        read(store)
    assert said in refused.value.message


def test_a_record_that_unpacks_to_too_much_is_refused() -> None:
    about = builtin()["cilium"].kubernetes
    assert about is not None
    store: Any = Stored()
    Record("cilium", about, {}).create(store)
    store.item["binaryData"]["before"] = _packed({"before": ["u" * (65 << 20)], "marks": {}})
    with pytest.raises(ClusterError, match="not one that this version"):
        read(store)


MANIFEST = """---
# Source: platform/charts/cilium/templates/agent.yaml
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cilium, namespace: kube-system}
---
# Source: platform/charts/cilium/templates/hubble.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: hubble, namespace: kube-system}
---
# Source: platform/charts/database/templates/store.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: store, namespace: kube-system}
"""


@pytest.mark.parametrize(
    ("text", "blocked"),
    [(MANIFEST, "ConfigMap kube-system/store"), (MANIFEST.rpartition("---")[0], "")],
)
def test_a_release_with_objects_of_other_charts_is_not_removed(
    monkeypatch: pytest.MonkeyPatch, text: str, blocked: str
) -> None:
    def of_release(kind: str, name: str) -> Thing:
        return replace(one(kind, f"kube-system/{name}", "helm"), release="kube-system/platform")

    things = [of_release("DaemonSet", "cilium"), of_release("ConfigMap", "hubble")]
    # made by a controller, with the annotations of what it is for
    revision = of_release("ControllerRevision", "cilium-6f97")
    things.append(replace(revision, owners=frozenset({things[0].uid})))
    things += [of_release("ConfigMap", "store")] if blocked else []
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "cilium", "namespace": "kube-system"},
    }
    monkeypatch.setattr(Inventory, "things", lambda inventory: things)
    monkeypatch.setattr(uninstallation.record, "read", lambda rest: None)
    monkeypatch.setattr(uninstallation.manifests, "render", lambda *_: Rendered([daemon_set], {}))
    access: Any = SimpleNamespace(helm=lambda *words: SimpleNamespace(stdout=text))
    if blocked:
        with pytest.raises(BlockedError, match=blocked) as refused:
            uninstallation.planned(access, builtin()["cilium"])
        assert "hubble" not in refused.value.message
    else:
        plan = uninstallation.planned(access, builtin()["cilium"])
        assert plan is not None
        assert set(plan.known.applied) == {thing.identity for thing in things}


def test_what_was_saved_before_stays(tmp_path: Path) -> None:
    """A run saves somebody's Cilium, and later one of its own under the same name."""

    class Api:
        def get(self, path: str) -> dict[str, Any]:
            return {"kind": "Namespace", "metadata": {"name": "net", "uid": SPACE.uid}}

    api: Any = Api()
    (theirs,) = backup.save(api, Belongings([SPACE]), tmp_path / "saved", "cilium")
    said = theirs.read_text()
    (ours,) = backup.save(api, Belongings([]), tmp_path / "saved", "cilium")
    assert ours.name == "cilium-2.yaml"
    assert theirs.read_text() == said != ""
    assert theirs.stat().st_mode & 0o777 == ours.stat().st_mode & 0o777 == 0o600
    assert theirs.parent.stat().st_mode & 0o777 == 0o700


def test_more_than_a_record_holds_is_refused_before_anything_is_made() -> None:
    import secrets

    about = builtin()["cilium"].kubernetes
    assert about is not None
    store: Any = Stored()
    with pytest.raises(ClusterError, match="does not fit"):
        Record(
            "cilium", about, {}, before=frozenset(secrets.token_hex(16) for _ in range(60_000))
        ).create(store)
    assert store.item is None
