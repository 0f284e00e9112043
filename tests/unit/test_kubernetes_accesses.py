"""Each kubectl in the code that measures is allowed by the role for measuring: read from the
source, so that a new call without a right in the table fails here, and not on somebody's cluster.
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
    "kubernetes/cni/image_digests.py",
    "kubernetes/cni/observe.py",
    "kubernetes/nodes/processes.py",
    "kubernetes/pods/policies.py",
}
MEASURE = rules_of(roles.document("measure"))
NAMESPACE = rules_of(roles.document("namespace", namespace="bench"))


def calls(*folders: str) -> Iterator[tuple[str, int, list[str]]]:
    """(file, line, words) of each kubectl in the code; words that are no literals are VARIABLE."""
    for path in sorted(path for one in folders for path in (ROOT / one).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value).rpartition(".")[2] not in ("access", "_access"):
                continue
            words = [
                str(one.value) if isinstance(one, ast.Constant) else VARIABLE for one in node.args
            ]
            if node.func.attr == "get":
                yield name, node.lineno, ["get", *words]
            elif node.func.attr in ("kubectl", "command"):
                yield name, node.lineno, words


def accesses(words: list[str]) -> Iterator[tuple[str, str]]:
    """(verb, kind) that a kubectl asks the API server for, as far as the words say."""
    verb, *rest = words
    named = [word for word in rest if not word.startswith("-")]
    kind = _plural(named[0]) if named else VARIABLE
    if verb == "get" and "--raw" not in words:
        one = len(rest) > 1 and not rest[1].startswith("-")
        yield ("get" if one else "list"), kind
    elif verb == "delete":
        yield "delete", kind
        if "--wait=false" not in words and "-l" not in words:
            yield "watch", kind
        if "-l" in words:
            yield "list", kind
    elif verb == "exec":
        yield "get", "pods"
        yield "create", "pods/exec"
    elif verb == "logs":
        yield "get", "pods/log"
    elif verb in ("annotate", "taint", "label", "patch"):
        yield "patch", kind


def _plural(word: str) -> str:
    name = word if word.endswith("s") else f"{word}s"
    return VARIABLE if word == VARIABLE else name + GROUPS.get(name, "")


def lacking(words: list[str], rules: list[Rule]) -> list[tuple[str, str]]:
    """Those of its accesses that a role does not allow."""
    found = []
    for verb, kind in accesses(words):
        group, plural, below = group_of(kind)
        asked = {"verb": verb, "group": group, "resource": plural, "subresource": below}
        literal = [word for word in words[2:3] if not word.startswith("-") and word != VARIABLE]
        names = literal or [name for rule in rules for name in rule.get("resourceNames", ())]
        if not any(
            allows(rules, {"resourceAttributes": {**asked, "name": name}}) for name in names or [""]
        ):
            found.append((verb, kind))
    return found


def test_the_role_for_measuring_allows_every_kubectl_of_the_code_that_measures() -> None:
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
    assert {"nodes", "pods", "pods/exec", "daemonsets.apps", "services", "secrets"} <= seen


@pytest.mark.parametrize(
    ("words", "denied"),
    [
        (["get", "configmap", "kubeadm-config", "-n", "kube-system"], [("get", "configmaps")]),
        (["get", "configmap", "cilium-config", "-n", VARIABLE], []),
        (["get", "secrets", "-A"], [("list", "secrets")]),
        (["delete", "service", "-n", VARIABLE, VARIABLE], [("watch", "services")]),
        (["taint", "nodes", VARIABLE], [("patch", "nodes")]),
        (["logs", "-n", VARIABLE, VARIABLE], [("get", "pods/log")]),
    ],
)
def test_a_right_that_is_not_in_the_table_is_found(
    words: list[str], denied: list[tuple[str, str]]
) -> None:
    assert lacking(words, MEASURE) == denied


def test_the_role_for_a_namespace_allows_every_kubectl_of_the_code_for_it() -> None:
    found = list(calls("namespace"))
    assert {words[0] for _, _, words in found} == {"get", "delete", "create"}
    assert [words for _, _, words in found if lacking(words, NAMESPACE)] == []
