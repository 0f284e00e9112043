"""Pods that are entered from their nodes, over the one connection that each agent keeps: those of
the background load, of which there are hundreds, and those whose load generators are controlled
on their node (controlled.py).

A connection for each would take more memory and CPU time than the load that runs in it. Where
agents may not look into their nodes each Pod has a connection of its own, and they are made at the
same time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod
from cnibench.errors import ClusterError
from cnibench.system.process import Done, Process

_LIMIT = 30.0  # s
_TOGETHER = 8  # connections that are made at the same time

# UID of a Pod to the number of the process that waits in its container. The UID is in the path of
# its control group, with _ for - under
# systemd; its sandbox (pause) has the network namespace as well, but not the programs.
FIND = """
import json, os, re, sys
wanted, found = json.loads(sys.stdin.read()), {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open("/proc/%s/comm" % pid) as file:
            if file.read().strip() != "sleep":
                continue
        with open("/proc/%s/cgroup" % pid) as file:
            path = file.read().replace("_", "-")
    except OSError:
        continue
    for uid in re.findall("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", path):
        if uid in wanted:
            found[uid] = int(pid)
print(json.dumps(found))
"""


class EnteredPod(KubernetesPod):
    """A Pod whose namespaces its node's agent enters; ``pid`` is that of its container's first
    process on the node.
    """

    def __init__(self, pod: KubernetesPod, pid: int) -> None:
        gateway = Gateway(
            pod.gateway.access, pod.gateway.namespace, pod.pod, pod.gateway.what
        )  # never opened
        super().__init__(pod.pod, pod.node, gateway, pod.addresses, not pod.interface)
        self.pid = pid
        self.programs: list[Process] = []  # that were started there

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        process = self.node.spawn(self._entering(argv), stdout=stdout, stderr=stderr)
        self.programs.append(process)
        return process

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        return self.node.run(self._entering(argv), timeout=timeout, input=input, check=check)

    def read_text(self, path: str) -> str:
        """A file as the Pod sees it. Raises ClusterError, also when the Pod is gone."""
        try:
            return (
                self.node.gateway.read(self.inside(path))
                if _of_network(path)
                else self.run(["cat", path], timeout=_LIMIT).stdout
            )
        except ClusterError as error:
            raise self.dead(error) from None

    def inside(self, path: str) -> str:
        """A file of the Pod's network, as its node sees it."""
        return f"/proc/{self.pid}/net/{path.removeprefix('/proc/net/')}"

    def dead(self, error: ClusterError) -> ClusterError:
        """What is said when its files cannot be read."""
        return ClusterError(f"the Pod {self.name} cannot be entered, has it died? {error.message}")

    def _entering(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", "-t", str(self.pid), "-m", "-n", "--", *argv]


def _of_network(path: str) -> bool:
    return path.startswith("/proc/net/")


def read(pods: Sequence[KubernetesPod], path: str) -> list[str]:
    """A file of all of these Pods: one request to each node for those that are entered, the others
    together. Raises ClusterError.
    """
    found: dict[str, str] = {}
    entered = [pod for pod in pods if isinstance(pod, EnteredPod) and _of_network(path)]
    for node in dict.fromkeys(pod.node for pod in entered):
        there = [pod for pod in entered if pod.node is node]
        try:
            texts = node.gateway.read_all([pod.inside(path) for pod in there])
        except ClusterError as error:
            dead = next((pod for pod in there if f"/{pod.pid}/" in error.message), None)
            raise (dead.dead(error) if dead else error) from None
        found |= dict(zip((pod.name for pod in there), texts, strict=True))
    others = [pod for pod in pods if pod.name not in found]
    with ThreadPoolExecutor(max_workers=_TOGETHER) as pool:
        found |= dict(
            zip(
                (pod.name for pod in others),
                pool.map(lambda pod: pod.read_text(path), others),
                strict=True,
            )
        )
    return [found[pod.name] for pod in pods]


def enter(access: Access, namespace: str, pods: Sequence[KubernetesPod]) -> list[KubernetesPod]:
    """The same Pods, ready for commands. Raises ClusterError."""
    if not all(pod.node.host for pod in pods):
        connect(pods)
        return list(pods)
    if not pods:
        return []
    names = {pod.pod for pod in pods}
    uids = uids_of(access, namespace, names)
    found: dict[str, int] = {}
    for node in dict.fromkeys(pod.node for pod in pods):
        found |= _processes(
            node, [uids[pod.pod] for pod in pods if pod.node is node and pod.pod in uids]
        )
    if absent := sorted(name for name in names if uids.get(name) not in found):
        raise ClusterError(
            f"the Pods {', '.join(absent[:3])} have no process on their node",
            "have they ended? kubectl get pods",
        )
    return [EnteredPod(pod, found[uids[pod.pod]]) for pod in pods]


def connect(pods: Iterable[KubernetesPod]) -> None:
    """Makes their connections at the same time: each takes its program some time to start. Raises
    ClusterError.
    """
    with ThreadPoolExecutor(max_workers=_TOGETHER) as pool:
        list(pool.map(lambda pod: pod.gateway.open(), pods))


def uids_of(access: Access, namespace: str, names: Collection[str]) -> dict[str, str]:
    """Name to UID of those Pods that are there. Raises ClusterError."""
    items = access.listed("pods", namespace, timeout=_LIMIT)
    return {
        item["metadata"]["name"]: str(item["metadata"]["uid"])
        for item in items
        if item["metadata"]["name"] in names
    }


def _processes(node: KubernetesNode, uids: Sequence[str]) -> dict[str, int]:
    done = node.run([node.python, "-I", "-S", "-c", FIND], timeout=_LIMIT, input=json.dumps(uids))
    return {str(uid): int(pid) for uid, pid in json.loads(done.stdout).items()}
