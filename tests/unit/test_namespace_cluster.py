"""Measuring in a namespace that somebody else made: what is refused and left out, what others see
of it, and that nothing but its own Pods and Lease is made, changed or removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cnibench.cli.measurement.checks import possible_cells, working_collectors
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.availability import Availability
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.api.operations import Operations
from cnibench.clusters.kubernetes.nodes.nodes import Facts
from cnibench.clusters.kubernetes.ownership import discovery, lease, safety, state
from cnibench.clusters.kubernetes.rights import roles
from cnibench.clusters.namespace import ownership
from cnibench.clusters.namespace.cluster import Guest, NamespaceCluster
from cnibench.clusters.namespace.deployment import NamespaceDeployment
from cnibench.errors import ClusterError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import CURRENT, builtin
from cnibench.planning.plan import build_plan
from cnibench.registry import provider, providers
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions
from tests.unit._rbac import ask, rules_of
from tests.unit.test_kubernetes_pods import Api, listed  # noqa: F401

CONFIG = "{current-context: lab, contexts: [{name: lab, context: {cluster: lab, user: me}}]}"
OWNER = "calm-otter-0123ab"
SPACE = "/api/v1/namespaces/bench"
LEASE = lease.path("bench")


def cluster(**options: Any) -> NamespaceCluster:
    return NamespaceCluster(Options(cluster=ClusterOptions(**options)))


def cell(workload: str = "tcp-rr", **more: Any) -> Cell:
    return Cell(label="current", profile="current", placement="inter", workload=workload, **more)


def test_it_is_a_kind_of_cluster() -> None:
    assert provider("clusters", "namespace") is NamespaceCluster


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the name of a namespace"),
        ({"namespace": "bench", "allow_install": True}, "does not accept --allow-install"),
        ({"namespace": "bench", "allow_replace": "lab"}, "does not accept --allow-replace"),
        ({"namespace": "bench", "client_selector": "a=b"}, "does not accept --client-selector"),
        ({"namespace": "bench", "max_rate": "1G"}, "does not accept --max-rate"),
    ],
)
def test_options_that_it_cannot_have_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        cluster(**options).missing()


NODES = {"namespace": "bench", "client_node": "x", "server_node": "y"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"namespace": "bench"}, "may not list nodes"),
        ({**NODES, "server_node": "x"}, "may not list nodes"),
        (NODES, "cannot be seen: they would be disturbed"),
    ],
)
def test_what_it_cannot_see_the_user_has_to_say(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        cluster(**options).preview({}, 1.0, 0.0)


def test_what_is_about_to_be_done_is_shown(store: Store) -> None:
    made = cluster(**NODES, allow_load=True)
    made.__dict__["access"] = store
    lines = made.preview({"current": CURRENT}, 60.0, 1e9)
    assert lines[0] == "context lab: clients on node x, servers on node y"
    assert not any("Pods of others" in line for line in lines), "nobody knows"
    assert "throughput and latency, and no more" in lines[-1]


def test_cells_and_collectors_that_look_at_nodes_are_left_out() -> None:
    workloads, made = providers("workloads"), cluster(**NODES)
    lacking = [
        cell("pods"),
        cell("policy-effect"),
        cell("tcp-rr-under-load"),
        cell("rule-path"),
        cell(params={"policy.entries": 2}),
        cell(path="clusterip"),
    ]
    asked = [cell(), cell("tcp-stream"), *lacking]
    possible, refused = possible_cells(made, asked, {"current": CURRENT}, workloads)
    assert [one.workload for one in possible] == ["tcp-rr", "tcp-stream"]
    assert len(refused) >= 5
    every = list(providers("collectors").values())
    plan = build_plan({"cni": ["current"], "windows": ["speed", "cpp"]}, None)
    working, plan, notes = working_collectors(made, every, plan)
    assert plan.windows == ("speed",)
    assert not {"perf", "footprint", "sizes"} & {one.name for one in working}
    assert any("only the Pods of one namespace may be seen" in note for note in notes)


def test_no_cni_is_recognised_or_installed() -> None:
    made = cluster(**NODES)
    (found,) = made.resolve({"current": CURRENT}).values()
    assert found.title.startswith("not recognised: only the Pods of one namespace")
    assert made.check(found) == []
    (problem,) = made.check(builtin()["flannel"])
    assert "--cluster existing" in problem.remedy


def test_rights_are_asked_for_in_that_namespace(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(CONFIG)
    made = cluster(**NODES)
    made.__dict__["access"] = access = Access(path)
    server = ask(access, rules_of(roles.document("namespace", namespace="bench")))
    assert not made.missing_rights([]).needed
    spaces = {one["resourceAttributes"]["namespace"] for one in server.reviewed}
    assert spaces == {"bench"}
    ask(access, [])
    (needed,) = made.missing_rights([]).needed
    assert "get namespaces; create, get, update, delete leases" in needed.lacks
    assert "rbac --level namespace --namespace bench --user jane |" in needed.remedy


def test_to_runs_of_others_its_pods_are_pods_of_others() -> None:
    labels = Guest("bench", "run", "w", "a").labels("client")
    pod = {"metadata": {"name": "p", "namespace": "bench", "labels": labels}, "spec": {}}
    assert safety.foreign([pod]) == [("", "bench/p")]


class Store(Operations):
    """A namespace, its Lease, and what was asked."""

    context = "lab"

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {
            SPACE: {"metadata": {"name": "bench", "uid": "u1"}}
        }
        self.renewing = False
        self.pods: tuple[int, dict[str, Any]] = 200, {"items": [], "metadata": {}}
        self.asked: list[str] = []
        self.api = self
        self.availability = Availability(lambda: "", "the API server")

    def lease(self, holder: str, owner: str = OWNER) -> None:
        made = lease.body("bench", "u1", owner, holder)
        made["spec"]["leaseDurationSeconds"] = 1
        self.objects[LEASE] = made

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> Answer:
        self.asked.append(f"{method} {path}")
        if method == "POST":
            assert body is not None
            made = {**body, "metadata": {**body["metadata"], "uid": "u2"}}
            self.objects[f"{path}/{body['metadata']['name']}"] = made
            return Answer(201, made)
        if path.startswith("/api/v1/namespaces/bench/pods?"):
            return Answer(*self.pods)
        if path not in self.objects:
            return Answer(404)
        if method == "DELETE":
            return Answer(200, self.objects.pop(path))
        if method == "PUT":
            assert body is not None
            self.objects[path] = dict(body)
        elif path == LEASE and self.renewing:
            spec = self.objects[path]["spec"]
            self.objects[path]["spec"] = {**spec, "leaseTransitions": spec["leaseTransitions"] + 1}
        return Answer(200, self.objects[path])

    def refusal(self, answer: Answer, what: str) -> ClusterError:
        return ClusterError(f"{what}: {answer.status}")

    def close(self) -> None:
        """As Access."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(discovery, "_LOOK", 0.01)
    monkeypatch.setattr(state, "owner", lambda: OWNER)
    return Store()


def test_a_run_makes_a_lease_and_deletes_it(store: Any) -> None:
    held = ownership.claimed(store, "bench", "run-1")
    assert store.objects[LEASE]["spec"]["holderIdentity"] == f"{OWNER}_run-1"
    ownership.given_up(store, "bench", held)
    assert LEASE not in store.objects
    assert SPACE in store.objects


def test_a_lease_that_another_took_stays(store: Any) -> None:
    held = ownership.claimed(store, "bench", "run-1")
    store.lease("wise-yew-999999_clean", "wise-yew-999999")
    held.lost = "its holder is another"
    ownership.given_up(store, "bench", held)
    assert LEASE in store.objects


def test_one_run_at_a_time(store: Any) -> None:
    store.lease(f"{OWNER}_other")
    with pytest.raises(UsageError, match="a run of calm-otter-0123ab uses the namespace") as error:
        ownership.claimed(store, "bench", "run-1")
    assert "cnibench clean --cluster namespace -n bench" in error.value.remedy
    made = cluster(**NODES, allow_load=True)
    made.__dict__["access"] = store
    with pytest.raises(UsageError, match="uses the namespace"):
        made.preview({"current": CURRENT}, 60.0, 1e9)


def test_a_namespace_that_is_not_there_or_of_another_kind_is_refused(store: Any) -> None:
    store.objects[SPACE]["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "cnibench"}
    with pytest.raises(UsageError, match="a run of --cluster existing made"):
        ownership.claimed(store, "bench", "run-1")
    del store.objects[SPACE]
    with pytest.raises(UsageError, match="there is no namespace 'bench'"):
        ownership.claimed(store, "bench", "run-1")


def left(store: Any, *owners: str) -> Any:
    (found,) = ownership.leftovers(store, "bench", owners, lambda text: None)
    return found


def labelled(run: str) -> str:
    return f"GET /api/v1/namespaces/bench/pods?labelSelector=cnibench.io%2Frun%3D{run}&limit=500"


def test_what_a_killed_run_left_is_removed_by_the_name_of_that_run(store: Any) -> None:
    assert ownership.leftovers(store, "bench", (), lambda text: None) == []
    store.lease(f"{OWNER}_killed")
    found = left(store)
    assert found.kept == ""
    found.remove()
    assert [one for one in store.asked if "/pods" in one] == [labelled("killed")]
    assert LEASE not in store.objects
    assert SPACE in store.objects


def test_what_a_live_run_and_what_others_have_stays(store: Any) -> None:
    store.lease(f"{OWNER}_alive")
    store.renewing = True
    assert left(store).kept == f"a run of {OWNER} uses them"
    store.renewing = False
    store.lease("wise-yew-999999_x", "wise-yew-999999")
    assert left(store).kept == "they are of wise-yew-999999"
    assert left(store, "wise-yew-999999").kept == ""


class Pods(Api):
    """Where Pods can be made, and nothing changed."""

    def apply(self, *objects: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        raise AssertionError("a Pod of others would be changed")

    def create(self, *objects: Mapping[str, Any], timeout: float) -> Sequence[Mapping[str, Any]]:
        return Api.apply(self, *objects)

    def listed(self, kind: str, namespace: str, *, labels: str = "", **more: Any) -> Any:
        if labels == "cnibench.io/run=run":
            return list(self.pods.values())
        return super().listed(kind, namespace, labels=labels, **more)


def test_its_pods_have_names_of_their_own_and_go(store: Any) -> None:
    api: Any = Pods()
    api.pods["a0"] = {"metadata": {"name": "a0"}, "spec": {"nodeName": "x"}, "status": {}}
    made = cluster(**NODES)
    made.__dict__["access"] = api
    nodes = [made._node("a", "x", "run-1-"), made._node("b", "y", "run-1-")]
    making = Guest("bench", "run", "w:1", "a:1", rights="none", lease="u7")
    found = NamespaceDeployment(
        "current", CURRENT, Options(), api, making, nodes, {}, prefix="run-1-"
    )
    assert sorted(pod.name for pod in found.pods()) == ["a0", "a1", "b0"]
    assert set(api.pods) == {"a0", "run-1-a0", "run-1-a1", "run-1-b0"}
    assert nodes[0].gateway.pod == "run-1-a0"
    assert not nodes[0].host
    assert found.alive() == ""
    spec = api.pods["run-1-b0"]
    assert spec["metadata"]["labels"].keys().isdisjoint({"app.kubernetes.io/managed-by"})
    (owner,) = spec["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Lease", "cnibench", "u7")
    found.remove()
    assert set(api.pods) == {"a0"}


def test_pods_of_a_deployment_that_was_interrupted_go_with_the_run(store: Any) -> None:
    made = cluster(**NODES)
    made.__dict__["access"] = store
    with made:
        made._lease = ownership.claimed(store, "bench", made._run)
    assert [one for one in store.asked if "/pods" in one] == [labelled(made._run)]
    assert LEASE not in store.objects


def test_a_lease_stays_where_pods_do(store: Any) -> None:
    store.pods = 500, {}
    made = cluster(**NODES)
    made.__dict__["access"] = store
    with pytest.raises(ClusterError, match="pods cannot be listed"), made:
        made._lease = ownership.claimed(store, "bench", made._run)
    assert store.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert left(store).kept == ""


def test_a_pod_that_is_gone_is_named(store: Any) -> None:
    api: Any = Pods()
    made = cluster(**NODES)
    made.__dict__["access"] = api
    making = Guest("bench", "run", "w:1", "a:1", rights="none", lease="u7")
    nodes = [made._node(letter, name, "p-") for letter, name in (("a", "x"), ("b", "y"))]
    found = NamespaceDeployment("current", CURRENT, Options(), api, making, nodes, {}, prefix="p-")
    assert isinstance(found.nodes()[0].facts, Facts)
    del api.pods["p-b0"]
    assert found.alive() == "the Pod p-b0 is gone: somebody else has removed it"


def test_pods_of_a_run_that_the_lease_does_not_name_stay(store: Any) -> None:
    store.lease("")
    assert left(store).kept == "its Lease does not name the run whose Pods they are"
    assert "kubectl delete pods,leases -n bench -l cnibench.io/run" in left(store).remedy
