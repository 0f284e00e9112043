"""NetworkPolicies of others that select our Pods: an administrator's default-deny, say, which keeps
measured Pods from each other.

Policies of other kinds (a CNI's own, those of a whole cluster) are not looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import OURS
from cnibench.errors import CnibenchError


def named(access: Access, namespace: str, pods: Sequence[str]) -> str:
    """Their names as the end of a sentence, '' where there are none or they may not be listed.
    ``pods`` are names of ours.
    """
    try:
        labels = [
            pod["metadata"].get("labels") or {}
            for pod in access.listed("pods", namespace)
            if pod["metadata"]["name"] in pods
        ]
        policies = access.listed("networkpolicies.networking.k8s.io", namespace)
    except CnibenchError:
        return ""
    found = sorted(
        policy["metadata"]["name"]
        for policy in policies
        if OURS not in (policy["metadata"].get("labels") or {})
        and any(selects(policy["spec"].get("podSelector") or {}, one) for one in labels)
    )
    if not found:
        return ""
    policies_are = "the NetworkPolicy" if len(found) == 1 else "the NetworkPolicies"
    select = "selects" if len(found) == 1 else "select"
    return (
        f"{policies_are} {', '.join(found)} in the namespace {namespace} {select} these Pods;"
        " they need ingress and egress among themselves"
    )


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Does a LabelSelector select a Pod with these labels? An empty one selects all
    (LabelSelectorAsSelector, apimachinery's meta/v1/helpers.go).
    """
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(one["key"], one["operator"], one.get("values") or (), labels) for one in expressions
    )


def _holds(key: str, operator: str, values: Sequence[str], labels: Mapping[str, str]) -> bool:
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
