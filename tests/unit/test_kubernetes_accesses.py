"""Each operation on objects in the code that measures is allowed by the role for measuring: read
from the source, so that a new call without a right in the table fails here, and not on a cluster.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnibench.clusters.kubernetes.rights import roles
from cnibench.clusters.kubernetes.rights.table import group_of
from tests.unit._rbac import Rule, allows, rules_of

ROOT = Path(__file__).parents[2] / "clusters"
# What only level install does. Its role has all kinds of objects.
INSTALLING = (
    "kubernetes/install.py",
    "kubernetes/removal/",
    "kubernetes/cni/plugins.py",
    "kubernetes/cni/subnets.py",
    "kubernetes/cni/wait.py",
)
GROUPS = {
    "ciliumendpoints": ".cilium.io",
    "daemonsets": ".apps",
    "deployments": ".apps",
    "endpointslices": ".discovery.k8s.io",
}
VARIABLE = "?"  # what is no literal
# Their kinds are those of profiles, which test_kubernetes_rights holds against the table, or of
# policies.
BY_NAME = {
    "kubernetes/api/operations.py",
    "kubernetes/cni/image_digests.py",
    "kubernetes/cni/observe.py",
    "kubernetes/nodes/processes.py",
    "kubernetes/pods/policies.py",
}
MEASURE = rules_of(roles.document("measure"))
NAMESPACE = rules_of(roles.document("namespace", namespace="bench"))


# Methods of Operations to the verbs that each of them uses.
VERBS = {"find": ("get",), "get": ("get",), "listed": ("list",), "delete": ("list", "delete")}


def calls(*folders: str) -> Iterator[tuple[str, int, list[str]]]:
    """(file, line, method and arguments) of each operation; arguments that are no literals are
    VARIABLE.
    """
    for path in sorted(path for one in folders for path in (ROOT / one).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value).rpartition(".")[2] not in ("access", "_access"):
                continue
            if node.func.attr in (*VERBS, "start", "look_up"):
                words = [
                    str(one.value) if isinstance(one, ast.Constant) else VARIABLE
                    for one in node.args
                ]
                yield name, node.lineno, [node.func.attr, *words]


def accesses(words: list[str]) -> Iterator[tuple[str, str]]:
    """(verb, kind) that an operation asks the API server for."""
    method, *rest = words
    if method == "start":
        yield from (("get", "pods/exec"), ("create", "pods/exec"))
    elif method == "look_up":
        yield "get", VARIABLE
    else:
        for verb in VERBS[method]:
            yield verb, _plural(rest[0])


def _plural(word: str) -> str:
    name = word if word.endswith("s") or "." in word else f"{word}s"
    return VARIABLE if word == VARIABLE else name + GROUPS.get(name, "")


def lacking(words: list[str], rules: list[Rule]) -> list[tuple[str, str]]:
    """Those of its accesses that a role does not allow."""
    found = []
    for verb, kind in accesses(words):
        group, plural, below = group_of(kind)
        asked = {"verb": verb, "group": group, "resource": plural, "subresource": below}
        named = words[2:3] if words[0] in ("find", "get") else []
        literal = [word for word in named if word != VARIABLE]
        names = literal or [name for rule in rules for name in rule.get("resourceNames", ())]
        if not any(
            allows(rules, {"resourceAttributes": {**asked, "name": name}}) for name in names or [""]
        ):
            found.append((verb, kind))
    return found


def test_the_role_for_measuring_allows_every_operation_of_the_code_that_measures() -> None:
    seen, denied = set[str](), list[str]()
    for name, line, words in calls("kubernetes", "existing"):
        if name.startswith(INSTALLING):
            continue
        kinds = {kind for _, kind in accesses(words)}
        if VARIABLE in kinds:
            assert name in BY_NAME, f"{name}:{line}: the kind is no literal: {words}"
            continue
        seen |= kinds
        denied += [f"{name}:{line}: {verb} {kind}" for verb, kind in lacking(words, MEASURE)]
    assert denied == []
    assert {"nodes", "pods", "pods/exec", "daemonsets.apps", "secrets"} <= seen


@pytest.mark.parametrize(
    ("words", "denied"),
    [
        (["get", "configmaps", "kubeadm-config", "kube-system"], [("get", "configmaps")]),
        (["get", "configmaps", "cilium-config", VARIABLE], []),
        (["listed", "secrets"], [("list", "secrets")]),
        (
            ["delete", "endpoints", VARIABLE, VARIABLE],
            [("list", "endpoints"), ("delete", "endpoints")],
        ),
        (["find", "ciliumendpoints.cilium.io", VARIABLE, VARIABLE], []),
    ],
)
def test_a_right_that_is_not_in_the_table_is_found(
    words: list[str], denied: list[tuple[str, str]]
) -> None:
    assert lacking(words, MEASURE) == denied


def test_the_role_for_a_namespace_allows_every_operation_of_the_code_for_it() -> None:
    found = list(calls("namespace"))
    assert {words[0] for _, _, words in found} == {"listed", "delete"}
    assert [words for _, _, words in found if lacking(words, NAMESPACE)] == []
