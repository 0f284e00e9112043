"""Requests to an API server that fails: which are an outage, and which are an answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.kubernetes.api import access as accesses
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.proxy import Answer
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.removal import deletion
from cnibench.errors import ClusterError
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
            deletion.clean_nodes(Rest(access), about, {})
        return
    deletion.clean_nodes(Rest(access), about, {})
    assert server.asked.count("PATCH /api/v1/nodes/n") == conflicts + 1
