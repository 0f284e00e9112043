"""The table of rights as roles and bindings that ``kubectl apply`` takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from cnibench.clusters.kubernetes.rights.table import ANY, Level, Right, group_of, rights
from cnibench.errors import UsageError

_API = "rbac.authorization.k8s.io"
_HEADS: dict[Level, str] = {
    "namespace": "measures with Pods in one namespace that exists, and nothing else",
    "measure": "measures a cluster as it is",
    "install": "installs, measures and removes CNIs; as powerful as cluster-admin",
}
_NAME = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"


@dataclass(frozen=True)
class Subject:
    """Who gets a role: a User, a Group, or a ServiceAccount of ``namespace``."""

    kind: str
    name: str
    namespace: str = ""


def service_account(text: str) -> Subject:
    """NAMESPACE/NAME. Raises UsageError."""
    if not re.fullmatch(f"{_NAME}/{_NAME}", text):
        raise UsageError(
            f"--service-account takes NAMESPACE/NAME, not '{text}'", "write bench/cnibench"
        )
    namespace, _, name = text.partition("/")
    return Subject("ServiceAccount", name, namespace)


def name(level: Level) -> str:
    return f"cnibench-{level}"


def document(
    level: Level, subjects: Sequence[Subject] = (), pull_secret: str = "", namespace: str = ""
) -> str:
    """The ClusterRole of a level (a Role in ``namespace``) with the reasons for each rule, and its
    binding to ``subjects``. Raises UsageError where a namespace is missing, or there is one too
    many.
    """
    if (level == "namespace") is not bool(namespace):
        raise UsageError(
            "--namespace is for --level namespace, which requires it",
            "cnibench rbac --level namespace --namespace NAME",
        )
    if namespace and pull_secret:
        raise UsageError(
            "--pull-secret is for the other levels: --level namespace reads no Secret",
            "leave it out",
        )
    if namespace and not re.fullmatch(_NAME, namespace):
        raise UsageError(f"'{namespace}' is not the name of a namespace", "write bench")
    head = _head("Role", level, namespace)
    lines = [f"# {name(level)}: {_HEADS[level]}.", *_yaml(head), "rules:"]
    for reasons, rule in rules(level, pull_secret):
        lines += [f"  # {why}" for why in reasons]
        first, *more = _yaml(rule)
        lines += [f"  - {first}", *(f"    {line}" for line in more)]
    if subjects:
        lines += ["---", *_yaml(_binding(level, subjects, namespace))]
    return "\n".join(lines) + "\n"


def rules(level: Level, pull_secret: str = "") -> list[tuple[list[str], dict[str, Any]]]:
    """The reasons for each rule, and the rule. What the rule for all kinds has is in no other."""
    wanted = rights(level, pull_secret=pull_secret)
    every = {verb for one in wanted if one.resource == ANY for verb in one.verbs}
    merged: dict[tuple[str, tuple[str, ...]], list[Right]] = {}
    for one in wanted:
        path = one.resource.startswith("/")
        if path or one.resource == ANY or set(one.verbs) - every:
            merged.setdefault((one.why if path else one.resource, one.names), []).append(one)
    found = []
    for own in merged.values():
        verbs = list(dict.fromkeys(verb for one in own for verb in one.verbs))
        if not own[0].resource.startswith("/") and own[0].resource != ANY:
            verbs = [verb for verb in verbs if verb not in every]
        reasons = list(dict.fromkeys(one.why for one in own))
        found.append((reasons, _rule(own, verbs)))
    return found


def _rule(own: Sequence[Right], verbs: list[str]) -> dict[str, Any]:
    first = own[0]
    if first.resource.startswith("/"):
        return {"nonResourceURLs": [one.resource for one in own], "verbs": verbs}
    group, plural, below = group_of(first.resource)
    rule: dict[str, Any] = {
        "apiGroups": [group],
        "resources": [f"{plural}/{below}" if below else plural],
    }
    return rule | ({"resourceNames": list(first.names)} if first.names else {}) | {"verbs": verbs}


def _head(kind: str, level: Level, namespace: str) -> dict[str, Any]:
    """Of the role or binding, of a namespace or of the whole cluster."""
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": f"{_API}/v1",
        "kind": kind if namespace else f"Cluster{kind}",
        "metadata": {"name": name(level), **where},
    }


def _binding(level: Level, subjects: Sequence[Subject], namespace: str) -> dict[str, Any]:
    role = "Role" if namespace else "ClusterRole"
    return {
        **_head("RoleBinding", level, namespace),
        "roleRef": {"apiGroup": _API, "kind": role, "name": name(level)},
        "subjects": [
            {"kind": one.kind, "name": one.name, "namespace": one.namespace}
            if one.namespace
            else {"apiGroup": _API, "kind": one.kind, "name": one.name}
            for one in subjects
        ],
    }


def _yaml(value: dict[str, Any]) -> list[str]:
    text: str = yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=1000)
    return text.splitlines()
