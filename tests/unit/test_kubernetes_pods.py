"""Pods of a standing on a cluster that has no room for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cnibench.clusters.kubernetes import deployment as kubernetes_deployment
from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.api.objects import POD, Making
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.nodes.nodes import facts
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.errors import ClusterError
from cnibench.model.profile import builtin
from cnibench.testbed.cluster import Options
from tests.unit._local_stream import Local

ROOM = 6  # Pods of one node


class Api:
    """The API as far as Pods go: a node has room for six; those made while ``evicting`` end at
    once.
    """

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.evicting = False
        self.removed: list[str] = []

    def apply(self, *objects: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        for item in objects:
            term = item["spec"]["affinity"]["nodeAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"
            ]["nodeSelectorTerms"][0]
            node = term["matchFields"][0]["values"][0]
            full = sum(pod["spec"].get("nodeName") == node for pod in self.pods.values()) >= ROOM
            said = {
                "type": "PodScheduled",
                "status": "False",
                "message": "0/2 nodes are available: 1 Too many pods.",
            }
            ready = {"type": "Ready", "status": "False" if self.evicting else "True"}
            ended = (
                {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
                if self.evicting
                else {"phase": "Running"}
            )
            self.pods[item["metadata"]["name"]] = {
                "metadata": dict(item["metadata"]),
                "spec": {**item["spec"], **({} if full else {"nodeName": node})},
                "status": {
                    **ended,
                    "conditions": [said if full else ready],
                    "podIPs": [{"ip": f"10.0.0.{len(self.pods) + 1}"}],
                },
            }
        return objects

    def get(self, kind: str, name: str, timeout: float = 0.0) -> dict[str, Any]:
        assert kind == "nodes"
        return node(name)

    def listed(
        self, kind: str, namespace: str, *, labels: str = "", fields: str = "", timeout: float = 0.0
    ) -> list[dict[str, Any]]:
        return [] if kind == "events" else [self.pods[name] for name in self._named(labels)]

    def delete(self, kind: str, namespace: str, labels: str, *, grace: int, wait: float) -> None:
        assert (kind, grace) == ("pods", 0)
        self.removed = self._named(labels)
        for name in self.removed:
            del self.pods[name]

    def _named(self, labels: str) -> list[str]:
        if not labels:
            return list(self.pods)
        names = labels.removeprefix(f"{POD} in (").removesuffix(")").split(",")
        return [name for name in names if name in self.pods]

    def start(self, namespace: str, pod: str, argv: Sequence[str], **_: Any) -> Local:
        return Local(argv)

    def hidden(self, text: str) -> str:
        return text


class Looked:
    """Pods that are listed at each look."""

    def __init__(self, access: Any, namespace: str, labels: str = "") -> None:
        self.items = lambda: access.listed("pods", namespace, labels=labels)

    def wait(self, seconds: float) -> None:
        """Nothing changes by itself."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No watch, which is what test_kubernetes_following.py has."""
    made = lambda *given: contextlib.closing(Looked(*given))  # noqa: E731
    monkeypatch.setattr(pods, "following", made)
    monkeypatch.setattr(kubernetes_deployment, "Following", Looked)


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def deployment(api: Any, host: bool = False) -> KubernetesDeployment:
    making = Making("space", "run", "workload:1", "agent:1", rights="none")
    nodes = [
        KubernetesNode(
            name,
            facts(node(f"node-{name}")),
            Gateway(api, "space", f"agent-{name}", "the agent"),
            host=host,
        )
        for name in "ab"
    ]
    return KubernetesDeployment("flannel", builtin()["flannel"], Options(), api, making, nodes, {})


def test_background_pods_that_have_no_room_are_removed_and_the_standing_lives() -> None:
    api = Api()
    found = deployment(api)
    before = set(api.pods)
    assert before == {"a0", "a1", "b0"}
    a, b = found.nodes()
    with pytest.raises(ClusterError, match="Too many pods") as caught:
        found.add_pods_on([(a, 5), (b, 5)])
    assert "110" in caught.value.remedy
    assert sorted(api.removed) == sorted(f"{name}x{number}" for name in "ab" for number in range(5))
    assert set(api.pods) == {pod.name for pod in found.pods()} == before
    assert found.alive() == ""


def test_a_pair_that_does_not_run_is_removed_and_can_be_made_later() -> None:
    api = Api()
    found = deployment(api)
    api.evicting = True
    with pytest.raises(ClusterError, match="the Pod a2 will not run: Ended: Evicted low on memory"):
        found.pair("inter", 1)
    assert set(api.pods) == {"a0", "a1", "b0"}
    assert found.alive() == ""
    api.evicting = False
    assert [pod.name for pod in found.pair("inter", 1)] == ["a2", "b2"]
    assert found.alive() == ""


def restarts(api: Any, monkeypatch: pytest.MonkeyPatch, host: bool, *later: str | None) -> str:
    """What is said of Pods of which one has ended, when their agents say ``later`` which start of
    their node it is; None: they are not back yet.
    """
    monkeypatch.setattr("cnibench.clusters.kubernetes.nodes.restarts._AGAIN", 0.01)
    stat = "1 (systemd) S" + " 0" * 18
    said: list[str | None] = ["boot 1", "boot 1", *later]

    def read_all(gateway: Gateway, paths: Sequence[str]) -> list[str]:
        now = said.pop(0) if len(said) > 1 else said[0]
        if now is None:
            raise ClusterError("the connection is lost")
        boot_id, began = now.split()
        return [f"{boot_id}\n", f"{stat} {began} 0\n"][: len(paths)]

    monkeypatch.setattr(Gateway, "read_all", read_all)
    found = deployment(api, host)
    api.pods["b0"]["status"] = {"phase": "Failed", "reason": "NodeShutdown", "message": "x"}
    first = found.alive()
    assert found.alive() == first
    return first


ENDED = "the Pod b0 runs no more: Ended NodeShutdown x"
RESTARTED = "node b was restarted, and its Pods ended with it"


@pytest.mark.parametrize(
    ("host", "later", "expected"),
    [
        (True, ["boot 1"], ENDED),
        (True, ["other 1"], RESTARTED),
        (True, [None, None, "boot 2"], RESTARTED),  # a container, and its agent comes later
        (False, ["other 2"], RESTARTED),
        (False, ["boot 2"], ENDED),  # of a confined agent's own container
    ],
)
def test_a_node_that_was_restarted_is_named(
    host: bool, later: list[str | None], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert restarts(Api(), monkeypatch, host, *later) == expected


def test_an_agent_that_does_not_come_back_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cnibench.clusters.kubernetes.nodes.restarts._BACK", 0.05)
    assert restarts(Api(), monkeypatch, True, None) == ENDED
