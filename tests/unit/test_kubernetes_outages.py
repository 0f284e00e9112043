"""Requests to an API server that fails: which are an outage, and which are an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.kubernetes.api import access as accesses
from cnibench.clusters.kubernetes.api.access import Access, InvalidError
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.api.kinds import Kind
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.removal import deletion, node_backup, node_objects
from cnibench.clusters.kubernetes.removal.inventory import Inventory, Thing
from cnibench.clusters.kubernetes.removal.selection import Belongings, Known
from cnibench.clusters.kubernetes.removal.uninstallation import Removal, preview
from cnibench.errors import ClusterError, CnibenchError, LimitError
from cnibench.model.profile import builtin

CONFIG = """
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: me}}]
"""
TAINT = "node.cilium.io/agent-not-ready"


class Server:
    """Gives the answers of ``script`` to each request of its method and path, the last for ever."""

    def __init__(self, **script: list[Answer]) -> None:
        self.script = {"readyz": [Answer(200)], **script}
        self.asked: list[str] = []

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> Answer:
        self.asked.append(f"{method} {path}")
        name = "readyz" if path == "/readyz" else method
        answers = self.script[name]
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Access:
    monkeypatch.setattr(accesses, "_AGAIN", 0.01)
    path = tmp_path / "kubeconfig"
    path.write_text(CONFIG)
    made = Access(path)
    made.availability.patience = 0.5
    return made


def served(access: Access, **script: list[Answer]) -> Server:
    server = Server(**script)
    access.__dict__["api"] = server
    return server


def test_a_request_that_a_working_server_cannot_serve_is_no_outage(access: Access) -> None:
    said = Answer(500, reason="InternalError", message="failed calling webhook: no endpoints")
    server = served(access, PATCH=[said])
    assert access.call("PATCH", "/x") == said
    assert server.asked.count("PATCH /x") == 1
    assert not access.availability.take()


@pytest.mark.parametrize("status", [0, 429, 503, 504])
def test_what_goes_over_by_itself_is_waited_for(access: Access, status: int) -> None:
    server = served(access, GET=[Answer(status), Answer(status), Answer(200)])
    assert access.call("GET", "/x").ok
    assert server.asked.count("GET /x") == 3


def test_a_server_that_goes_down_with_a_500_is_waited_for(access: Access) -> None:
    served(access, GET=[Answer(500), Answer(200)], readyz=[Answer(500), Answer(200)])
    assert access.call("GET", "/x").ok
    assert access.availability.take()


def test_a_request_that_is_refused_again_and_again_is_one_outage(access: Access) -> None:
    server = served(access, GET=[Answer(429)])
    assert access.call("GET", "/x").status == 429
    assert server.asked.count("GET /x") > 5
    (outage,) = access.availability.take()
    assert outage.seconds > 0.2
    assert not access.availability.take()


def test_kinds_of_a_server_that_starts_are_waited_for(access: Access) -> None:
    """Without them, objects of others would not be seen."""
    kinds = Answer(200, {"resources": [{"name": "policies"}]})
    served(access, GET=[Answer(503), Answer(503), kinds], readyz=[Answer(500), Answer(200)])
    assert Rest(access).kinds("cilium.io/v2") == [{"name": "policies"}]
    served(access, GET=[Answer(503)], readyz=[Answer(500)])
    access.availability.patience = 0.0
    with pytest.raises(ClusterError):
        Rest(access).kinds("cilium.io/v2")


def test_an_extension_that_is_down_has_no_kinds(access: Access) -> None:
    served(access, GET=[Answer(503)])
    assert Rest(access).kinds("metrics.k8s.io/v1beta1") == []


class Losing(Server):
    """Makes what it is asked for, and loses its first answer."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Mapping[str, Any]] = []

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> Answer:
        if method == "POST":
            assert body is not None
            if self.made:
                return Answer(409, reason="AlreadyExists", message="already exists")
            self.made.append(body)
            return Answer(0, reason="Unreachable", message="connection reset")
        if path == "/readyz":
            return Answer(200)
        assert (method, path) == ("GET", "/api/v1/configmaps/x")
        return Answer(200, self.made[0])


def test_an_object_whose_answer_was_lost_is_made_once(access: Access) -> None:
    item = {"metadata": {"name": "x", "annotations": {"a": "b"}}}
    server = Losing()
    access.__dict__["api"] = server
    made = Rest(access).create("/api/v1/configmaps", item)
    assert made["metadata"]["annotations"]["a"] == "b"
    assert len(server.made) == 1
    with pytest.raises(ClusterError, match="already exists"):  # of another request
        Rest(access).create("/api/v1/configmaps", item)


@pytest.mark.parametrize("words", ["conversion webhook for x failed", "no words that are known"])
def test_a_kind_that_a_working_server_cannot_list_is_not_seen(access: Access, words: str) -> None:
    said = Answer(500, reason="InternalError", message=words)
    served(access, GET=[said])
    assert Rest(access).metadata("/apis/x/v1/things") is None
    served(access, GET=[said], readyz=[Answer(500)])
    access.availability.patience = 0.0
    with pytest.raises(ClusterError):
        Rest(access).metadata("/apis/x/v1/things")


def test_a_refused_field_is_known_by_its_name(access: Access) -> None:
    cause = {"field": "spec.ports[0].nodePort", "message": "whatever it says"}
    served(access, PATCH=[Answer(422, {"details": {"causes": [cause]}}, "Invalid", "no")])
    with pytest.raises(InvalidError) as refused:
        Rest(access).apply("/api/v1/namespaces/n/services/s", {})
    assert refused.value.fields == ("spec.ports[0].nodePort",)


class Held:
    """Objects with finalizers that nobody answers; ``outage``: seconds that one answer takes."""

    def __init__(self, clock: list[float], outage: float = 0.0, stubborn: bool = False) -> None:
        self.clock, self.outage, self.stubborn = clock, outage, stubborn
        self.there = {"/a": ["f/1"], "/b": []}
        self.freed: list[float] = []

    def delete(self, path: str, uid: str, propagation: str = "") -> bool:
        if path == "/b":
            raise ClusterError("webhook refused it")
        return True

    def get(self, path: str) -> dict[str, Any] | None:
        self.clock[0] += self.outage
        self.outage = 0.0
        if path not in self.there:
            return None
        return {"metadata": {"uid": path, "finalizers": self.there[path]}}

    def patch(self, path: str, change: Mapping[str, Any]) -> bool:
        self.freed.append(self.clock[0])
        if self.stubborn:
            raise ClusterError("forbidden")
        del self.there[path]
        return True


class Item:
    def __init__(self, path: str) -> None:
        self.path = self.uid = path

    def __str__(self) -> str:
        return f"Thing {self.path}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(deletion.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(deletion.time, "sleep", sleep)
    return now


def deleted(rest: Any, *paths: str) -> None:
    things: Any = [Item(path) for path in paths]
    deletion._delete(rest, things, 90.0)


def test_finalizers_go_only_when_their_controllers_had_the_time(clock: list[float]) -> None:
    """The API server was away for longer than all of it: nobody could answer the finalizers."""
    rest = Held(clock, outage=100.0)
    deleted(rest, "/a")
    assert rest.freed[0] > 185


def test_what_stays_is_named_with_what_holds_it(clock: list[float]) -> None:
    rest = Held(clock, stubborn=True)
    with pytest.raises(LimitError, match=r"Thing /a \(finalizers: f/1\).*forbidden") as raised:
        deleted(rest, "/a")
    assert raised.value.remedy
    assert clock[0] < 200


def test_a_namespace_keeps_its_finalizers_and_is_waited_for_last(clock: list[float]) -> None:
    space = Thing(Kind("v1", "Namespace", "namespaces", False), "", "cni", "/api/v1/namespaces/cni")
    rest = Held(clock)
    rest.there = {space.path: ["kubernetes"]}
    inventory: Any = SimpleNamespace(rest=rest, things=lambda: [space])
    failed: list[str] = []

    def step(what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except CnibenchError as error:
            failed.append(f"{what}: {error.message}")

    gone = deletion.delete(inventory, Known({}, "flannel", ()), Belongings([space]), step)
    assert (failed, clock) == ([], [0.0])
    gone()
    assert failed[0].startswith("namespaces: still there: Namespace cni (finalizers: kubernetes)")
    assert rest.freed == []


def test_one_that_is_refused_keeps_no_other_from_being_deleted(clock: list[float]) -> None:
    rest = Held(clock)
    with pytest.raises(ClusterError, match="Thing /b: webhook refused it"):
        deleted(rest, "/b", "/a")
    assert "/a" not in rest.there


UIDS = [
    "the UID in the precondition (1) does not match the UID in record (2)",
    "Precondition failed: UID in precondition: 1, UID in object meta: 2",
]


@pytest.mark.parametrize("words", UIDS)
def test_another_object_of_that_name_stays_whatever_the_server_says(
    access: Access, words: str
) -> None:
    rest = Rest(access)
    other = Answer(200, {"metadata": {"uid": "2"}})
    served(access, DELETE=[Answer(409, reason="Conflict", message=words)], GET=[other])
    assert rest.delete("/x", "1") is False
    served(access, DELETE=[Answer(409, reason="Conflict", message=words)], GET=[Answer(404)])
    assert rest.delete("/x", "1") is False


def test_an_object_that_is_going_already_is_waited_for(access: Access) -> None:
    going = Answer(200, {"metadata": {"uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    served(access, DELETE=[Answer(409, reason="Conflict", message="ending")], GET=[going])
    assert Rest(access).delete("/x", "1") is True


def test_an_object_that_may_not_be_deleted_now_is_an_error(access: Access) -> None:
    same = Answer(200, {"metadata": {"uid": "1"}})
    served(access, DELETE=[Answer(409, reason="Conflict", message="ending")], GET=[same])
    with pytest.raises(ClusterError, match="ending"):
        Rest(access).delete("/x", "1")


@pytest.mark.parametrize("conflicts", [2, 99])
def test_a_node_that_its_kubelet_changes_meanwhile_is_read_again(
    access: Access, conflicts: int
) -> None:
    about = builtin()["cilium"].kubernetes
    assert about is not None
    assert TAINT in about.leaves.taints
    node = {
        "metadata": {"name": "n", "uid": "1", "resourceVersion": "1"},
        "spec": {"taints": [{"key": TAINT}]},
    }
    server = served(
        access,
        GET=[Answer(200, {"items": [node]})],
        PATCH=[Answer(409, reason="Conflict")] * conflicts + [Answer(200)],
    )
    if conflicts > 5:
        with pytest.raises(ClusterError, match="their taints stay"):
            node_objects.clean(Rest(access), about, {})
        return
    node_objects.clean(Rest(access), about, {})
    assert server.asked.count("PATCH /api/v1/nodes/n") == conflicts + 1


def test_what_goes_from_node_objects_is_shown_and_can_be_put_back(
    access: Access, tmp_path: Path
) -> None:
    """By the commands that are saved; what was there before and what others wrote stays."""
    about = builtin()["cilium"].kubernetes
    assert about is not None
    manager = about.managers[0]
    own = {"f:labels": {"f:own": {}, "f:old": {}}, "f:annotations": {"f:own/cidr": {}}}
    node = {
        "metadata": {
            "name": "n",
            "uid": "1",
            "resourceVersion": "1",
            "labels": {"own": "it's", "old": "1", "other": "2"},
            "annotations": {"own/cidr": "10.0.0.0/24"},
            "managedFields": [{"manager": manager, "fieldsV1": {"f:metadata": own}}],
        },
        "spec": {
            "taints": [
                {"key": TAINT, "value": "true", "effect": "NoSchedule"},
                {"key": "others", "effect": "NoExecute"},
            ]
        },
    }
    served(access, GET=[Answer(200, {"items": [node]})], PATCH=[Answer(200)])
    before = {"n": {"labels": ["old"]}}
    assert node_objects.lines(Rest(access), about, before) == [
        "annotation own/cidr of Node n",
        "label own of Node n",
        f"taint {TAINT}=true:NoSchedule of Node n",
    ]
    commands = node_objects.restoring(Rest(access), about, before)
    assert commands == [
        "kubectl annotate node n own/cidr=10.0.0.0/24",
        "kubectl label node n 'own=it'\"'\"'s'",
        f"kubectl taint node n {TAINT}=true:NoSchedule",
    ]
    (said,) = node_backup.save_commands(commands, tmp_path, "cilium")
    script = tmp_path / "cilium-node-objects.sh"
    assert f"sh {script} puts them back" in said
    assert script.read_text().splitlines() == commands
    assert script.stat().st_mode & 0o777 == 0o600


def test_a_removal_shows_what_goes_from_node_objects(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inventory, "things", lambda _: [])
    about = builtin()["cilium"].kubernetes
    assert about is not None
    node = {
        "metadata": {"name": "n", "uid": "1", "resourceVersion": "1"},
        "spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
    }
    served(access, GET=[Answer(200, {"items": [node]})])
    plan = Removal("cilium", about, Known({}, "", about.managers), {})
    assert preview(access, plan) == [f"taint {TAINT}:NoSchedule of Node n"]
