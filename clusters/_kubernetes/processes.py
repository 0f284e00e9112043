"""The CNI's own processes on the measured nodes: those of the Pods that its workloads (DaemonSets, Deployments) have there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnibench.cluster import Node
from cnibench.clusters._kubernetes.access import Access
from cnibench.clusters._kubernetes.places import KubernetesNode
from cnibench.profile import Profile

# Each process whose control group is one of these Pods': its number and name. The UID is in the path, with _ for - under systemd.
_SCRIPT = """
grep -lsE "$1" /proc/[0-9]*/cgroup | while IFS=/ read -r _ _ pid _; do
  read -r name < /proc/$pid/comm && echo "$pid $name"
done 2>/dev/null
"""
_WAITS = ("pause", "sleep", "sh", "bash")  # a Pod's sandbox, and shells that wait


def find(access: Access, profile: Profile, nodes: Sequence[KubernetesNode]) -> dict[str, tuple[Node, int]]:
    """``NAME on NODE`` to its node and number there. Raises ClusterError."""
    if profile.kubernetes is None:
        return {}
    uids: dict[str, list[str]] = {}
    for wait in profile.kubernetes.ready:
        if not wait.rollout:
            continue
        selector = access.get(wait.rollout, "-n", wait.namespace)["spec"]["selector"].get("matchLabels", {})
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        for pod in access.get("pods", "-n", wait.namespace, "-l", labels)["items"]:
            uids.setdefault(str(pod["spec"].get("nodeName")), []).append(str(pod["metadata"]["uid"]))
    found: dict[str, tuple[Node, int]] = {}
    for node in nodes:
        if node.host and node.facts.name in uids:
            pattern = "|".join(uid.replace("-", "[-_]") for uid in uids[node.facts.name])
            said = node.run(["sh", "-c", _SCRIPT, "sh", pattern], timeout=30, check=False).stdout
            found |= _named(said, node)
    return found


def _named(said: str, node: Node) -> dict[str, tuple[Node, int]]:
    found: Mapping[str, tuple[Node, int]] = {}
    for line in said.splitlines():
        pid, _, name = line.partition(" ")
        if name in _WAITS:
            continue
        key = f"{name} on {node.name}"
        number = 2
        while key in found:
            key, number = f"{name} {number} on {node.name}", number + 1
        found = {**found, key: (node, int(pid))}
    return dict(found)
