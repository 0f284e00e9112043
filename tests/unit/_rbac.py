"""An API server's authorizer, as far as RBAC goes: the rules of ClusterRoles, and reviews of what
they allow (plugin/pkg/auth/authorizer/rbac of Kubernetes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.client import Answer

Rule = Mapping[str, Any]
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def rules_of(text: str) -> list[Rule]:
    """Of all roles in a text for kubectl apply."""
    return [rule for item in yaml.safe_load_all(text) for rule in item.get("rules", ())]


def allows(rules: Sequence[Rule], spec: Mapping[str, Any]) -> bool:
    """May somebody with these rules do what the spec of a SelfSubjectAccessReview asks for?"""
    return any(_allows(rule, spec) for rule in rules)


def _allows(rule: Rule, spec: Mapping[str, Any]) -> bool:
    if path := spec.get("nonResourceAttributes"):
        return path["verb"] in rule["verbs"] and any(
            path["path"] == one or (one.endswith("*") and path["path"].startswith(one[:-1]))
            for one in rule.get("nonResourceURLs", ())
        )
    asked = spec["resourceAttributes"]
    below = asked.get("subresource")
    resource = f"{asked['resource']}/{below}" if below else asked["resource"]
    return (
        bool({asked["verb"], "*"} & set(rule["verbs"]))
        and bool({asked.get("group", ""), "*"} & set(rule.get("apiGroups", ())))
        and bool({resource, "*"} & set(rule.get("resources", ())))
        and ("resourceNames" not in rule or asked.get("name", "") in rule["resourceNames"])
    )


class Authorizer:
    """The API server of a user with these rules, as far as reviews go."""

    def __init__(self, rules: Sequence[Rule], user: str = "jane") -> None:
        self.rules = rules
        self.user = user
        self.reviewed: list[Mapping[str, Any]] = []

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> Answer:
        if method == "GET":
            return Answer(403, reason="Forbidden", message=f"{path} is forbidden")
        assert body is not None
        if path == RULES:
            return Answer(404)
        if path == WHO:
            status = {"userInfo": {"username": self.user}}
            return Answer(201, {**body, "status": status}) if self.user else Answer(404)
        assert path == REVIEW
        self.reviewed.append(body["spec"])
        return Answer(201, {**body, "status": {"allowed": allows(self.rules, body["spec"])}})


def ask(access: Access, rules: Sequence[Rule], user: str = "jane") -> Authorizer:
    """Has that API server answer."""
    made = access.__dict__["api"] = Authorizer(rules, user)
    return made
