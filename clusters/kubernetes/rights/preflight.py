"""Which rights the user of a context lacks, asked of the API server before anything is made
(SelfSubjectAccessReview): all of them at once.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.rights.table import ANY, Level, Right, group_of
from cnibench.errors import CnibenchError
from cnibench.testbed.capabilities.access_rights import Lacking
from cnibench.testbed.cluster import Problem

_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_RULES_REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
_AT_ONCE = 8  # questions


def lacking(
    access: Access,
    level: Level,
    wanted: Sequence[Right],
    *,
    pull_secret: str = "",
    namespace: str = "",
) -> Lacking:
    """All of ``wanted`` that the user of the context lacks, with the command that grants the
    level.
    """
    try:
        found = missing(access, wanted, namespace)
        if not found:
            return Lacking()
        command = remedy(access, level, pull_secret, namespace)
    except CnibenchError as error:
        return Lacking(needed=[Problem("", error.message, error.remedy)])
    whose = f"the user of the context '{access.context}' may not"
    needed = [one for one in found if not one.without]
    losses: dict[str, list[Right]] = {}
    for one in found:
        if one.without:
            losses.setdefault(one.without, []).append(one)
    return Lacking(
        [Problem("", f"{whose}: {said(needed)}", command)] if needed else [],
        [Problem("", f"{whose} {said(own)}: {lost}", command) for lost, own in losses.items()],
    )


def missing(access: Access, wanted: Sequence[Right], namespace: str = "") -> list[Right]:
    """Those of ``wanted`` that this user lacks, each with the verbs and names that are denied; in
    all namespaces, or in the one that is named. Raises ClusterError when the API server cannot be
    asked.
    """
    rules = _rules(access, namespace)
    parts = [
        (one, verb, name)
        for one in wanted
        for verb in one.verbs
        for name in one.names or [""]
        if not any(_grants(rule, one.resource, verb, name) for rule in rules)
    ]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        allowed = list(
            pool.map(lambda part: may(access, part[0].resource, part[1], part[2], namespace), parts)
        )
    denied: dict[Right, list[tuple[str, str]]] = {}
    for (one, verb, name), granted in zip(parts, allowed, strict=True):
        if not granted:
            denied.setdefault(one, []).append((verb, name))
    return [
        replace(
            one,
            verbs=tuple(dict.fromkeys(verb for verb, _ in lacks)),
            names=tuple(dict.fromkeys(name for _, name in lacks if name)),
        )
        for one, lacks in denied.items()
    ]


def _rules(access: Access, namespace: str) -> list[Mapping[str, Any]]:
    """What the API server lists as this user's rights: nothing that is in it has to be asked for by
    itself. In a namespace that does not exist only those apply that hold in all of them.
    """
    spec = {"namespace": namespace or f"cnibench-{secrets.token_hex(8)}"}
    answer = access.call("POST", _RULES, {**_RULES_REVIEW, "spec": spec})
    status = answer.body.get("status") or {} if answer.ok else {}
    return [*(status.get("resourceRules") or ()), *(status.get("nonResourceRules") or ())]


def _grants(rule: Mapping[str, Any], resource: str, verb: str, name: str) -> bool:
    """As RBAC decides (plugin/pkg/auth/authorizer/rbac of Kubernetes)."""

    def has(key: str, wanted: str) -> bool:
        return bool({wanted, "*"} & set(rule.get(key) or ()))

    if not has("verbs", verb):
        return False
    if resource.startswith("/"):
        return any(
            one == resource or (one.endswith("*") and resource.startswith(one[:-1]))
            for one in rule.get("nonResourceURLs") or ()
        )
    group, plural, below = ("*", "*", "") if resource == ANY else group_of(resource)
    names = rule.get("resourceNames")
    return (
        has("apiGroups", group)
        and (has("resources", f"{plural}/{below}" if below else plural))
        and (not names or name in names)
    )


def may(access: Access, resource: str, verb: str, name: str = "", namespace: str = "") -> bool:
    """May this user do that? ``resource`` as in the table of rights; without a namespace: in all
    of them. Raises ClusterError when the API server cannot be asked.
    """
    if resource.startswith("/"):
        asked: dict[str, Any] = {"nonResourceAttributes": {"path": resource, "verb": verb}}
    else:
        group, plural, below = ("*", "*", "") if resource == ANY else group_of(resource)
        about = {
            "verb": verb,
            "group": group,
            "resource": plural,
            "subresource": below,
            "name": name,
            "namespace": namespace,
        }
        asked = {"resourceAttributes": {key: value for key, value in about.items() if value}}
    return access.allowed(asked)


def remedy(access: Access, level: Level, pull_secret: str = "", namespace: str = "") -> str:
    """The command that gives this user the rights of a level."""
    where = ["--namespace", namespace] if namespace else []
    words = ["cnibench", "rbac", "--level", level, *where, *_subject(access)]
    words += ["--pull-secret", pull_secret] if pull_secret else []
    return f"an administrator of the cluster runs: {shlex.join(words)} | kubectl apply -f -"


def said(rights: Sequence[Right]) -> str:
    """These rights in words: ``create, delete namespaces; list nodes``."""
    found: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
    for one in rights:
        found.setdefault((one.resource, one.names), {}).update(dict.fromkeys(one.verbs))
    return "; ".join(
        f"{', '.join(verbs)} {'all kinds of objects' if resource == ANY else resource}"
        + (f" {', '.join(names)}" if names else "")
        for (resource, names), verbs in found.items()
    )


def _subject(access: Access) -> list[str]:
    """The option of ``cnibench rbac`` that names this user, as the API server knows it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = access.call("POST", _WHO, body)
    name = str(answer.body.get("status", {}).get("userInfo", {}).get("username", ""))
    if not answer.ok or not name:  # before Kubernetes 1.28 nobody can ask
        return ["--user", "NAME"]
    first, _, account = name.partition("system:serviceaccount:")
    if not first and account:
        return ["--service-account", account.replace(":", "/")]
    return ["--user", name]
