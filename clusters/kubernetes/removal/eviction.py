"""Taking every Pod off the Pod network while its CNI can undo its part, and letting them come
back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, on_each
from cnibench.clusters.kubernetes.removal import node_snapshot

TAINT = "cnibench.io/changing-the-network"  # keeps Pods away while one CNI goes and the next comes
_LISTING = 60.0  # s for all Pods of a cluster, which may be many
_LEAVING = 30.0  # s that Pods are given to leave a network


def evict(access: Access) -> None:
    """Takes every Pod off the Pod network while the CNI can undo its part; controllers make new
    ones once ``admit`` lets them.
    """
    names = [item["metadata"]["name"] for item in access.get("nodes")["items"]]
    access.kubectl("taint", "nodes", *names, f"{TAINT}=:NoSchedule", "--overwrite")
    by_namespace: dict[str, list[str]] = {}
    for pod in access.get("pods", "--all-namespaces", timeout=_LISTING)["items"]:
        meta, spec = pod["metadata"], pod["spec"]
        if not spec.get("hostNetwork") and spec.get("nodeName") and meta.get("ownerReferences"):
            by_namespace.setdefault(meta["namespace"], []).append(meta["name"])
    for namespace, pods in by_namespace.items():
        for force in (
            ["--grace-period=2"],
            ["--grace-period=0", "--force"],
        ):  # without a CNI, no sandbox ever ends properly
            options = ("--ignore-not-found", *force, f"--timeout={_LEAVING:.0f}s")
            done = access.kubectl(
                "delete",
                "pods",
                "-n",
                namespace,
                *pods,
                *options,
                timeout=_LEAVING + 10,
                check=False,
            )
            if not done.returncode:
                break
        else:
            raise access.error(done)


def await_teardown(access: Access, nodes: Sequence[KubernetesNode]) -> None:
    """Waits, not for ever, until the runtime has taken the evicted Pods off the network: the API
    forgets a Pod before that is done.

    The runtime keeps one network namespace for each Pod that is not on its node's network
    (containerd's ``/run/netns/cni-*``).
    """
    deadline = time.monotonic() + _LEAVING
    waiting = [node for node in nodes if node.host]
    while waiting and time.monotonic() < deadline:
        pods = [
            item["spec"]
            for item in access.get("pods", "--all-namespaces", timeout=_LISTING)["items"]
        ]
        staying = [spec.get("nodeName") for spec in pods if not spec.get("hostNetwork")]
        counts = zip(waiting, on_each(waiting, _networks), strict=True)
        waiting = [node for node, count in counts if count > staying.count(node.facts.name)]
        if waiting:
            time.sleep(0.3)


def _networks(node: KubernetesNode) -> int:
    script = f"ls {HOST}/run/netns 2>/dev/null | grep -c ^cni-"
    return int(
        node.run(["sh", "-c", script], timeout=node_snapshot.QUICK, check=False).stdout.strip() or 0
    )


def admit(access: Access) -> None:
    """Takes the taint of ``evict`` away."""
    tainted = [
        item["metadata"]["name"]
        for item in access.get("nodes")["items"]
        if any(taint["key"] == TAINT for taint in item["spec"].get("taints") or ())
    ]
    if tainted:
        access.kubectl("taint", "nodes", *tainted, f"{TAINT}:NoSchedule-")
