"""Nodes and Pods of a cluster: places where commands run, over a connection that each keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes.nodes import Facts
from cnibench.errors import ClusterError
from cnibench.system.process import Done, Process
from cnibench.testbed.place import Node, Place, Pod

UNSEEN = "agents may not look into their nodes here"
ADMIT = "admit cnibench's agents in its namespace (docs/rights.md)"
_KERNEL = ("/proc/", "/sys/")
_TOGETHER = 16  # nodes: each has a connection of its own
_T = TypeVar("_T")


class KubernetesPlace(Place):
    """Commands run in a container of ours."""

    python = "python3"
    local = False
    of_lab = False

    def __init__(self, name: str, gateway: Gateway) -> None:
        self.name = name
        self.gateway = gateway

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        return self.gateway.spawn(argv, stdout, stderr)

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        return self.gateway.run(argv, timeout=timeout, input=input, check=check)

    def read_text(self, path: str) -> str:
        return self.gateway.read(path)


class KubernetesNode(KubernetesPlace, Node):
    """A node, through our agent there: its network namespace and processes, the agent's programs,
    its files under ``HOST``.

    ``name`` is a, b, ... in all that is published; ``facts`` has its own. ``device`` is that of its
    address. ``host`` is False where the agent may not look into it: then only counters can be read.
    """

    disk = HOST
    settings = f"{HOST}/proc/sys"  # the container's own cannot be written

    def __init__(self, name: str, facts: Facts, gateway: Gateway, host: bool) -> None:
        super().__init__(name, gateway)
        self.facts = facts
        self.host = host
        self.addresses: Mapping[int, str] = facts.addresses
        self.device = ""

    def read_text(self, path: str) -> str:
        """A file of the node. Raises ClusterError where the agent may not read it."""
        if path.startswith(_KERNEL):
            return self.gateway.read(path)
        if not self.host:
            raise ClusterError(f"node {self.name}: its files cannot be read, for {UNSEEN}", ADMIT)
        return self.gateway.read(HOST + path)

    def read_each(self, paths: Sequence[str]) -> list[str | None]:
        """In one request while none is gone, those of the kernel."""
        if paths and all(path.startswith(_KERNEL) for path in paths):
            try:
                return [*self.gateway.read_all(paths)]
            except ClusterError:  # does not tell of which else
                pass
        return super().read_each(paths)


class KubernetesPod(KubernetesPlace, Pod):
    """A Pod of ours; ``pod`` is its name in the cluster."""

    def __init__(
        self,
        pod: str,
        node: KubernetesNode,
        gateway: Gateway,
        addresses: Mapping[int, str],
        host: bool,
    ) -> None:
        super().__init__(pod, gateway)
        self.pod = pod
        self.node: KubernetesNode = node
        self.addresses: Mapping[int, str] = addresses
        self.interface = "" if host else "eth0"


def on_each(nodes: Sequence[KubernetesNode], what: Callable[[KubernetesNode], _T]) -> list[_T]:
    """What it gave for each node, in their order; many nodes at the same time. Raises what it
    raised for the first that failed.
    """
    with ThreadPoolExecutor(max_workers=_TOGETHER) as pool:
        return list(pool.map(what, nodes))
