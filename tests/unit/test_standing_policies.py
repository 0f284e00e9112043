"""Which NetworkPolicies select a Pod, as the API server reads a LabelSelector."""

from __future__ import annotations

from typing import Any

import pytest

from cnibench.clusters.kubernetes.pods.standing_policies import named, selects
from cnibench.errors import ClusterError

LABELS = {"app": "cnibench", "role": "client"}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"matchLabels": {"app": "cnibench"}}, True),
        ({"matchLabels": {"app": "cnibench", "role": "server"}}, False),
        ({"matchLabels": {"tier": ""}}, False),
        ({"matchExpressions": [{"key": "role", "operator": "In", "values": ["client"]}]}, True),
        ({"matchExpressions": [{"key": "role", "operator": "In", "values": ["server"]}]}, False),
        ({"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["server"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Unheard"}]}, False),
        (
            {
                "matchLabels": {"app": "cnibench"},
                "matchExpressions": [{"key": "tier", "operator": "Exists"}],
            },
            False,
        ),
    ],
)
def test_a_selector_selects_a_pod(selector: dict[str, Any], selected: bool) -> None:
    assert selects(selector, LABELS) is selected


class Namespace:
    """An API server's answers."""

    def __init__(self, **policies: dict[str, Any]) -> None:
        self.lists = {
            "pods": [
                {"metadata": {"name": "a0", "labels": LABELS}},
                {"metadata": {"name": "other", "labels": {"app": "shop"}}},
            ],
            "networkpolicies.networking.k8s.io": [
                {"metadata": {"name": name, **more.get("metadata", {})}, "spec": more["spec"]}
                for name, more in policies.items()
            ],
        }

    def listed(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        if kind not in self.lists:
            raise ClusterError("may not list")
        return self.lists[kind]


def name(there: Namespace) -> str:
    return named(there, "team", ["a0"])  # type: ignore[arg-type]


def test_those_that_select_our_pods_are_named() -> None:
    deny = {"spec": {"podSelector": {}}}
    shop = {"spec": {"podSelector": {"matchLabels": {"app": "shop"}}}}
    own = {**deny, "metadata": {"labels": {"app.kubernetes.io/managed-by": "cnibench"}}}
    assert name(Namespace(deny=deny, shop=shop, own=own)) == (
        "the NetworkPolicy deny in the namespace team selects these Pods; they need ingress and"
        " egress among themselves"
    )
    assert "NetworkPolicies b, deny in" in name(Namespace(deny=deny, b=deny))
    assert name(Namespace(shop=shop, own=own)) == ""


def test_policies_that_may_not_be_listed_are_not_named() -> None:
    there = Namespace(deny={"spec": {"podSelector": {}}})
    del there.lists["networkpolicies.networking.k8s.io"]
    assert name(there) == ""
