"""The CNI's own processes on the measured nodes: those of the Pods that its workloads (DaemonSets,
Deployments) have there; kube-proxy's beside them where a mode of it was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.errors import ClusterError
from cnibench.model.profile import Profile
from cnibench.testbed.capabilities.cni_processes import PROXY
from cnibench.testbed.place import Node

# Each process whose control group is one of these Pods' ($1): its number, when it began
# (proc_pid_stat(5), field 22) and its name. The UID
# is in the path, with _ for - under systemd.
_SCRIPT = """
grep -lsE "$1" "$2"/[0-9]*/cgroup | while read -r file; do
  place=${file%/cgroup}
  read -r stat < "$place/stat" && read -r name < "$place/comm" || continue
  set -- ${stat##*)}
  shift 19
  echo "${place##*/} $1 $name"
done 2>/dev/null
"""
_PROC = "/proc"
_WAITS = ("pause", "sleep", "sh", "bash")  # a Pod's sandbox, and shells that wait
# s: what has ended after that was a program of a probe, or of a daemon that has others do its work
_STAYS = 1.0


@dataclass
class Processes:
    """Those of one profile. ``found``: ``NAME on NODE`` to its node and number there."""

    access: Access
    profile: Profile
    nodes: Sequence[KubernetesNode]
    found: dict[str, tuple[Node, int]] = field(default_factory=dict)
    _began: dict[str, str] = field(default_factory=dict)
    _whole: bool = False  # has each of the CNI's Pods there been seen at work?

    def look(self) -> None:
        """Finds them again: those that stay. Raises ClusterError.

        While a Pod of the CNI is not Ready, those that were known and are gone are kept, so that
        what is read of them says so.
        """
        uids, ready = self._uids()
        lines = {
            node: self._there(node, uids[node.facts.name])
            for node in self.nodes
            if node.host and node.facts.name in uids
        }
        if lines:
            time.sleep(_STAYS)
        found: dict[str, tuple[Node, int]] = {}
        began: dict[str, str] = {}
        for node, said in lines.items():
            for name, (pid, start) in _named(
                said, node.name, self._still(node, [(pid, start) for pid, start, _ in said])
            ).items():
                found[name], began[name] = (node, pid), start
        if not ready:
            found = {
                **{name: process for name, process in self.found.items() if name not in found},
                **found,
            }
            began = {**self._began, **began}
        self.found, self._began, self._whole = found, began, ready

    def reset_state(self) -> None:
        """Looks again when one of them is gone, which takes one request to each node to see. Raises
        ClusterError.
        """
        if not self._whole or not self._all_there():
            self.look()

    def _all_there(self) -> bool:
        for node in self.nodes:
            known = [
                (pid, self._began[name])
                for name, (place, pid) in self.found.items()
                if place is node
            ]
            if known and len(self._still(node, known)) < len(known):
                return False
        return True

    def _uids(self) -> tuple[dict[str, list[str]], bool]:
        """Node's name to the UIDs of the Pods there, and whether all those on the measured nodes
        are Ready.
        """
        uids: dict[str, list[str]] = {}
        measured = {node.facts.name for node in self.nodes}
        ready = True
        for pod in self._pods():
            where = str(pod["spec"].get("nodeName"))
            uids.setdefault(where, []).append(str(pod["metadata"]["uid"]))
            ready = ready and (where not in measured or pods.is_ready(pod))
        return uids, ready

    def _pods(self) -> Iterator[Mapping[str, Any]]:
        """The CNI's, and kube-proxy's where a mode of it was asked for."""
        for wait in self.profile.kubernetes.ready if self.profile.kubernetes else ():
            if not wait.rollout:
                continue
            workload = self.access.look_up(wait.rollout, wait.namespace)
            if workload is None:
                raise ClusterError(f"there is no {wait.rollout} in {wait.namespace}")
            yield from pods.of_workload(self.access, workload)
        if self.profile.proxy not in ("", "ebpf") and (
            workload := self.access.look_up(f"daemonset/{PROXY}", "kube-system")
        ):
            yield from pods.of_workload(self.access, workload)

    def _there(self, node: KubernetesNode, uids: Sequence[str]) -> list[tuple[int, str, str]]:
        """(number, when it began, name) of each, the oldest first."""
        pattern = "|".join(uid.replace("-", "[-_]") for uid in uids)
        said = node.run(["sh", "-c", _SCRIPT, "sh", pattern, _PROC], timeout=30, check=False).stdout
        parts = [line.split(" ", 2) for line in said.splitlines()]
        found = [(int(part[0]), part[1], part[2]) for part in parts if len(part) == 3]
        return sorted(found, key=lambda one: (int(one[1]), one[0]))

    def _still(self, node: KubernetesNode, known: Sequence[tuple[int, str]]) -> set[int]:
        """Those that have not ended: another process may have the number of one that has."""
        texts = node.read_each([f"{_PROC}/{pid}/stat" for pid, _ in known])
        return {
            pid
            for (pid, start), text in zip(known, texts, strict=True)
            if text and _lives(text, start)
        }


def _lives(stat: str, start: str) -> bool:
    fields = stat.rpartition(")")[2].split()
    return fields[0] not in "ZX" and fields[19] == start


def _named(
    said: Sequence[tuple[int, str, str]], node: str, still: set[int]
) -> Mapping[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    for pid, start, name in said:
        if name in _WAITS or pid not in still:
            continue
        key, number = f"{name} on {node}", 2
        while key in found:
            key, number = f"{name} {number} on {node}", number + 1
        found[key] = (pid, start)
    return found
