"""Taking Pods off the Pod network while its CNI can undo its part, and letting those that
controllers made come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import HOST, NAME, OURS, RUN
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, on_each
from cnibench.clusters.kubernetes.removal import node_snapshot
from cnibench.errors import ClusterError, LimitError

Taint = dict[str, Any]
TAINT = "cnibench.io/changing-the-network"  # keeps Pods away while one CNI goes and the next comes
_LISTING = 60.0  # s for all Pods of a cluster, which may be many
_TRIES = 20  # kubelets write to Node objects, too
_LOOK = 0.3  # s
_LEAVING = 30.0  # s that Pods are given to leave a network


def evict(access: Access, runs: bool = False) -> None:
    """Takes Pods off the Pod network while the CNI can undo its part: those of controllers, which
    make new ones once ``admit`` lets them, and, for good, those of ``runs`` of cnibench, of which
    nobody may use the CNI any more. Other bare Pods stay.
    """
    _taint(access, lambda taints: [*taints, {"key": TAINT, "effect": "NoSchedule"}])
    rest = Rest(access)
    leaving = {
        f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}": str(meta["uid"])
        for pod in access.listed("pods", timeout=_LISTING)
        if ((meta := pod["metadata"]).get("ownerReferences") or (runs and _ours(meta)))
        and pod["spec"].get("nodeName")
        and not pod["spec"].get("hostNetwork")
    }
    for grace in (2, 0):  # without a CNI, no sandbox ever ends properly
        for path, uid in leaving.items():
            rest.delete(path, uid, grace=grace)
        deadline = time.monotonic() + _LEAVING
        while leaving and time.monotonic() < deadline:
            there = {item["metadata"]["uid"] for item in access.listed("pods", timeout=_LISTING)}
            leaving = {path: uid for path, uid in leaving.items() if uid in there}
            if leaving:
                time.sleep(_LOOK)
    if leaving:
        raise LimitError(
            f"{len(leaving)} Pods did not leave their network, the first is {next(iter(leaving))}",
            "kubectl describe pod says more",
        )


def _ours(meta: Mapping[str, Any]) -> bool:
    labels = meta.get("labels") or {}
    return labels.get(OURS) == NAME and RUN in labels


def await_teardown(access: Access, nodes: Sequence[KubernetesNode]) -> None:
    """Waits, not for ever, until the runtime has taken the evicted Pods off the network: the API
    forgets a Pod before that is done.

    The runtime keeps one network namespace for each Pod that is not on its node's network
    (containerd's ``/run/netns/cni-*``).
    """
    deadline = time.monotonic() + _LEAVING
    waiting = [node for node in nodes if node.host]
    while waiting and time.monotonic() < deadline:
        pods = [item["spec"] for item in access.listed("pods", timeout=_LISTING)]
        staying = [spec.get("nodeName") for spec in pods if not spec.get("hostNetwork")]
        counts = zip(waiting, on_each(waiting, _networks), strict=True)
        waiting = [node for node, count in counts if count > staying.count(node.facts.name)]
        if waiting:
            time.sleep(_LOOK)


def _networks(node: KubernetesNode) -> int:
    script = f"ls {HOST}/run/netns 2>/dev/null | grep -c ^cni-"
    return int(
        node.run(["sh", "-c", script], timeout=node_snapshot.QUICK, check=False).stdout.strip() or 0
    )


def admit(access: Access) -> None:
    """Takes the taint of ``evict`` away."""
    _taint(access, list)


def _taint(access: Access, change: Callable[[list[Taint]], list[Taint]]) -> None:
    """Gives each node the taints that ``change`` makes of those of others."""
    rest = Rest(access)
    for _ in range(_TRIES):
        refused = False
        for node in access.listed("nodes"):
            meta, before = node["metadata"], node["spec"].get("taints") or []
            wanted = change([one for one in before if one["key"] != TAINT])
            if wanted != before:
                known = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
                patch = {"metadata": known, "spec": {"taints": wanted}}
                refused |= not rest.patch(f"/api/v1/nodes/{meta['name']}", patch)
        if not refused:
            return
    raise ClusterError(
        "the Node objects keep changing: their taints stay", "kubectl describe nodes"
    )
