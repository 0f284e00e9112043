"""Rights on a cluster: the roles allow what the table says and no more, and all that are missing
are named at once, before anything is made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnibench.cli.commands.environment import doctor
from cnibench.cli.measurement import request
from cnibench.clusters.existing import granted
from cnibench.clusters.existing.cluster import ExistingCluster
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.cni.recognise import Found
from cnibench.clusters.kubernetes.ownership.safety import Allowed
from cnibench.clusters.kubernetes.rights import preflight, roles, table
from cnibench.clusters.kubernetes.rights.table import LEVELS, TABLE, Level, rights
from cnibench.errors import ClusterError, MissingError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.planning.plan import build_plan
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions
from tests.unit._rbac import RULES, Authorizer, allows, ask, rules_of

CONFIG = "{current-context: lab, contexts: [{name: lab, context: {cluster: lab, user: me}}]}"
SECRET = "team/registry"
AUDIT = Path(__file__).parents[1] / "golden" / "kubernetes_audit" / "requests.json"
MEASURE = rules_of(roles.document("measure"))
EVERYBODYS = [
    rule
    for rule in MEASURE
    if "nonResourceURLs" in rule or rule["resources"][0].startswith("selfsubject")
]
NOTHING: list[Any] = []


@pytest.fixture
def access(tmp_path: Path) -> Access:
    path = tmp_path / "kubeconfig"
    path.write_text(CONFIG)
    return Access(path)


def resource(verb: str, kind: str, **more: str) -> dict[str, Any]:
    group, plural, below = table.group_of(kind)
    return {
        "resourceAttributes": {
            "verb": verb,
            "group": group,
            "resource": plural,
            "subresource": below,
            **more,
        }
    }


def cell(workload: str = "tcp-rr", **more: Any) -> Cell:
    return Cell(label="flannel", profile="flannel", placement="inter", workload=workload, **more)


@pytest.mark.parametrize(
    ("level", "secret"), [*((one, "") for one in LEVELS), ("measure", SECRET), ("install", SECRET)]
)
def test_a_role_has_every_right_of_its_level(access: Access, level: Level, secret: str) -> None:
    where = "bench" if level == "namespace" else ""
    server = ask(access, rules_of(roles.document(level, pull_secret=secret, namespace=where)))
    wanted = rights(level, pull_secret=secret)
    assert preflight.missing(access, wanted) == []
    assert len(server.reviewed) == sum(len(one.verbs) * len(one.names or "x") for one in wanted)


@pytest.mark.parametrize("level", LEVELS)
def test_a_role_allows_what_a_real_api_server_was_asked(level: Level) -> None:
    """Of Kubernetes 1.34 with Cilium, when it was installed, measured, and measured in a namespace
    (tests/e2e/test_kind_rights.py). What everybody may ask is not in a role of a namespace.
    """
    if level == "namespace":
        rules = rules_of(roles.document(level, namespace="bench")) + EVERYBODYS
    else:
        rules = rules_of(roles.document(level, pull_secret=SECRET))
    asked = [one.split() for one in json.loads(AUDIT.read_text())[level]]
    assert len(asked) > 10
    for verb, kind, *names in asked:
        spec = (
            {"nonResourceAttributes": {"path": kind, "verb": verb}}
            if kind.startswith("/")
            else resource(verb, kind, name=names[0] if names else "")
        )
        assert allows(rules, spec), (verb, kind, names)


def test_installing_includes_measuring(access: Access) -> None:
    ask(access, rules_of(roles.document("install")))
    assert preflight.missing(access, rights("measure")) == []
    ask(access, MEASURE)
    lacks = preflight.missing(access, rights("install"))
    assert {one.level for one in lacks} == {"install"}


@pytest.mark.parametrize(
    "spec",
    [
        resource("get", "secrets", name="a-token"),
        resource("list", "secrets"),
        resource("create", "secrets"),
        resource("get", "configmaps", name="somebodys"),
        resource("list", "configmaps"),
        resource("patch", "nodes"),
        resource("delete", "daemonsets.apps"),
        resource("create", "clusterroles.rbac.authorization.k8s.io"),
        resource("deletecollection", "pods"),
        {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
    ],
    ids=str,
)
def test_measuring_takes_no_more(spec: dict[str, Any]) -> None:
    assert not allows(MEASURE, spec)


def test_of_secrets_only_the_one_that_is_named_may_be_read() -> None:
    own = rules_of(roles.document("measure", pull_secret=SECRET))
    for name, allowed in (("registry", True), ("weave-passwd", True), ("other", False)):
        assert allows(own, resource("get", "secrets", name=name)) is allowed


def test_what_recognition_reads_may_be_read() -> None:
    facts = [
        fact.object
        for profile in builtin().values()
        if profile.kubernetes
        for fact in profile.kubernetes.recognise
        if "/" in fact.object
    ]
    assert len(set(facts)) > 10
    for kind, *where in (name.split("/") for name in facts):
        plural, dot, group = kind.partition(".")
        group = {"daemonset": ".apps"}.get(plural, dot + group)
        verb = "list" if "*" in where[0] else "get"
        assert allows(MEASURE, resource(verb, f"{plural}s{group}", name=where[-1])), (kind, where)


def test_the_output_is_a_role_and_its_binding() -> None:
    subjects = [
        roles.Subject("User", "jane"),
        roles.Subject("Group", "net"),
        roles.service_account("bench/cnibench"),
    ]
    role, binding = yaml.safe_load_all(roles.document("measure", subjects))
    assert (role["kind"], role["metadata"]["name"]) == ("ClusterRole", "cnibench-measure")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    group = "rbac.authorization.k8s.io"
    assert binding["subjects"] == [
        {"apiGroup": group, "kind": "User", "name": "jane"},
        {"apiGroup": group, "kind": "Group", "name": "net"},
        {"kind": "ServiceAccount", "name": "cnibench", "namespace": "bench"},
    ]
    assert len(list(yaml.safe_load_all(roles.document("install")))) == 1


def test_in_a_namespace_it_is_a_role_there_and_its_binding() -> None:
    user = roles.Subject("User", "jane")
    role, binding = yaml.safe_load_all(roles.document("namespace", [user], namespace="bench"))
    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding")
    assert role["metadata"] == binding["metadata"]
    assert role["metadata"] == {"name": "cnibench-namespace", "namespace": "bench"}
    assert binding["roleRef"]["kind"] == "Role"
    kinds = {name for rule in role["rules"] for name in rule["resources"]}
    assert kinds == {"namespaces", "leases", "pods", "pods/exec", "events", "networkpolicies"}


@pytest.mark.parametrize(
    ("level", "namespace"), [("namespace", ""), ("measure", "bench"), ("namespace", "Bench\n")]
)
def test_a_namespace_is_named_for_its_level_alone(level: Level, namespace: str) -> None:
    with pytest.raises(UsageError):
        roles.document(level, namespace=namespace)
    with pytest.raises(UsageError, match="reads no Secret"):
        roles.document("namespace", pull_secret=SECRET, namespace="bench")


def test_each_rule_says_why() -> None:
    text = roles.document("measure")
    for one in rights("measure"):
        assert f"  # {one.why}\n" in text


@pytest.mark.parametrize("text", ["cnibench", "a/b/c", "/x", "Bench/x", "a/", "a/b\n- {}"])
def test_a_service_account_has_a_namespace(text: str) -> None:
    with pytest.raises(UsageError, match="takes NAMESPACE/NAME"):
        roles.service_account(text)


def test_everything_that_is_missing_is_named_at_once(access: Access) -> None:
    gone = {"nodes", "pods/exec", "events"}
    held = [rule for rule in MEASURE if not gone & {*rule.get("resources", ())}]
    ask(access, held)
    found = granted.lacking(access, "measure", [], "")
    (needed,) = found.needed
    assert needed.lacks == (
        "the user of the context 'lab' may not: get, list nodes; create, get pods/exec"
    )
    assert needed.remedy == (
        "an administrator of the cluster runs: cnibench rbac --level measure --user jane |"
        " kubectl apply -f -"
    )
    assert [one.lacks for one in found.useful] == [
        "the user of the context 'lab' may not list events: messages about a Pod that does not"
        " start say less"
    ]


def test_with_all_rights_nobody_is_asked_who_they_are(access: Access) -> None:
    ask(access, MEASURE, user="")
    assert granted.lacking(access, "measure", [cell(path="clusterip")], "") == granted.Lacking()


@pytest.mark.parametrize(
    ("user", "option"),
    [
        ("system:serviceaccount:bench:cnibench", "--service-account bench/cnibench"),
        ("Jane Doe; rm -r", "--user 'Jane Doe; rm -r'"),
        ("", "--user NAME"),
    ],
)
def test_the_remedy_names_who_it_is(access: Access, user: str, option: str) -> None:
    ask(access, NOTHING, user)
    assert f"cnibench rbac --level install {option} --pull-secret {SECRET} |" in preflight.remedy(
        access, "install", SECRET
    )


def test_only_what_the_cells_do_is_required() -> None:
    assert granted.uses([cell()]) == set()
    assert granted.uses([cell(path="clusterip")]) == {"service"}
    assert granted.uses([cell("policy-effect")]) == {"policy"}
    assert granted.uses([cell("service-change")]) == {"changed-service"}
    assert granted.uses([cell(params={"services.count": 10})]) == {"changed-service"}
    assert granted.uses([cell(params={"policy.entries": 10})]) == {"policy"}
    assert granted.uses([cell("http", params={"policy.entries": 1, "policy.layer": "L7"})]) == {
        "policy",
        "cni-policy",
    }
    assert granted.uses([], SECRET) == {"pull-secret"}
    used = {one.use for one in TABLE if one.use}
    assert used == {"service", "changed-service", "policy", "cni-policy", "pull-secret"}


def test_installing_takes_its_own_level() -> None:
    assert granted.level(Allowed()) == "measure"
    assert granted.level(Allowed(install=True)) == "install"
    assert granted.level(Allowed(replace="lab")) == "install"


def test_rights_that_cannot_be_asked_are_not_taken_for_granted(access: Access) -> None:
    class Closed(Authorizer):
        def call(self, method: str, path: str, *_: Any, **__: Any) -> Answer:
            return Answer(403, reason="Forbidden", message=f"{path} is forbidden")

    access.__dict__["api"] = Closed(NOTHING)
    (problem,) = granted.lacking(access, "measure", [], "").needed
    assert problem.lacks.startswith("which rights this user has cannot be asked: ")
    with pytest.raises(ClusterError):
        preflight.may(access, "pods", "list")


def test_a_run_is_refused_before_the_cluster_is_looked_at(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Existing(ExistingCluster):
        def missing(self) -> list[Any]:
            return []

        @property
        def present(self) -> Any:  # type: ignore[override]
            raise AssertionError("the cluster may not be looked at")

    monkeypatch.setattr(Existing, "access", access)
    monkeypatch.setattr(request, "provider", lambda package, name: Existing)
    ask(access, NOTHING)
    plan = build_plan({"cni": ["current"], "cluster": "existing", "path": ["nodeport"]}, None)
    with pytest.raises(MissingError) as error:
        request.prepare(plan, request.cluster_of(plan, ClusterOptions(pull_secret=SECRET)))
    wanted = rights("measure", {"service", "pull-secret"}, SECRET)
    said = preflight.said([one for one in wanted if not one.without])
    assert error.value.message == f"the user of the context 'lab' may not: {said}"
    assert "services" in said
    assert "networkpolicies" not in said
    assert f"--pull-secret {SECRET} |" in error.value.remedy


def test_what_is_done_without_is_named_before_a_run(access: Access) -> None:
    held = [rule for rule in MEASURE if "events" not in rule.get("resources", ())]
    ask(access, held)
    made = ExistingCluster(Options())
    made.__dict__.update(access=access, chosen=[], _strangers=[])
    assert made.missing_rights([]).needed == []
    assert "may not list events" in made._lacking.useful[0].lacks


def test_doctor_names_what_is_missing_and_what_is_done_without(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Existing(ExistingCluster):
        present = Found("", "this user may not read x", denied=True)  # type: ignore[assignment]

        def missing(self) -> list[Any]:
            return []

    monkeypatch.setattr(Existing, "access", access)
    monkeypatch.setattr("cnibench.registry.provider", lambda package, name: Existing)
    gone = {"events", "pods/exec"}
    ask(access, [rule for rule in MEASURE if not gone & {*rule.get("resources", ())}])
    found = doctor.examine(("existing",), ("flannel-k3s",))
    assert [one["lacks"] for one in found["missing"]] == [
        "the user of the context 'lab' may not: create, get pods/exec",
        "which CNI runs is not known: this user may not read x",
    ]
    assert {one["remedy"].partition(":")[0] for one in found["optional"] if one["remedy"]} == {
        "an administrator of the cluster runs"
    }
    assert found["nodes"] == {}


def test_what_the_api_server_lists_is_not_asked_for_one_by_one(access: Access) -> None:
    class Listing(Authorizer):
        """Lists what this user may, as SelfSubjectRulesReview does."""

        def call(self, method: str, path: str, *given: Any, **more: Any) -> Answer:
            if path != RULES:
                return super().call(method, path, *given, **more)
            self.spaces.append(given[0]["spec"]["namespace"])
            listed = [one for one in self.rules if "resources" in one]
            others = [one for one in self.rules if "nonResourceURLs" in one]
            return Answer(201, {"status": {"resourceRules": listed, "nonResourceRules": others}})

        spaces: list[str]

    server = access.__dict__["api"] = Listing(MEASURE)
    server.spaces = []
    assert preflight.missing(access, rights("measure")) == []
    assert server.reviewed == []
    (space,) = server.spaces
    assert space.startswith("cnibench-"), "one that does not exist: only rights in all count"
    server.rules = [one for one in MEASURE if "nodes" not in one.get("resources", ())]
    (lacks,) = preflight.missing(access, rights("measure"))
    assert (lacks.resource, lacks.verbs) == ("nodes", ("get", "list"))
    assert len(server.reviewed) == 2
