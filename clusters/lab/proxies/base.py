"""What an implementation of Services is: it writes them on both nodes, all at once or one change at
a time, and reads back what the kernel has of them.

Each is one module of clusters/lab/proxies whose ``PROVIDER`` is a subclass; its ``name`` is what
``--proxy`` takes.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from cnibench.clusters.lab.rules.ruleset import IpSet, Part
from cnibench.clusters.lab.rules.services import Service, default_services
from cnibench.errors import ClusterError
from cnibench.model.conditions import Services
from cnibench.registry import provider
from cnibench.system import memory

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment
    from cnibench.clusters.lab.namespaces.places import LabNode, LabPod

# Where CoreDNS would run: the last addresses of the first node, which no Pod of ours gets.
_DNS = {4: ("10.244.0.253", "10.244.0.254"), 6: ("fd00:10:244::fd", "fd00:10:244::fe")}


class Counted(NamedTuple):
    """What stands for Services in one place: chains or map entries of the Services and endpoints,
    by a digest of their names, and the number of rules or entries.
    """

    rules: int
    digest: str


class Proxy(abc.ABC):
    """The Services of one deployment.

    ``own`` are those that every cluster has, ``services`` all that are there now, by family.
    ``bytes_each`` is the kernel's memory for a Service with an endpoint, on one node;
    ``seconds_each`` what one takes in a cell, written, read back and removed, on two idle cores.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()  # keys of kernel.FEATURES
    programs: ClassVar[Mapping[str, str]] = {}  # what it runs: the Debian package that has it
    families: ClassVar[tuple[int, ...]] = (4, 6)
    bytes_each: ClassVar[int] = 0
    seconds_each: ClassVar[float] = 0.0

    def __init__(self, deployment: LabDeployment) -> None:
        self.deployment = deployment
        self.own: Mapping[int, tuple[Service, ...]] = {
            family: default_services(family, deployment.a.addresses[family], _DNS[family])
            for family in deployment.families
        }
        self.services: dict[int, tuple[Service, ...]] = dict(self.own)

    def part(self, node: LabNode, family: int) -> Part:
        """What it has in a node's tables of iptables, for who loads them whole."""
        return ()

    def sets(self, node: LabNode, family: int) -> Sequence[IpSet]:
        """The IP sets that its part names."""
        return ()

    def build(self, node: LabNode) -> None:  # noqa: B027 - some write nothing before the rules
        """Its part of a node, after the CNI's. Raises ClusterError."""

    def connect(self, pod: LabPod) -> None:  # noqa: B027
        """Its part of a Pod, after the CNI's. Raises ClusterError."""

    def remove(self) -> None:  # noqa: B027
        """Gives up what does not go with the namespaces. May be called twice."""

    def forget(self) -> None:  # noqa: B027
        """Forgets connections that it keeps itself."""

    def replace(self, services: Mapping[int, Sequence[Service]]) -> float:
        """Writes these Services, in addition to the cluster's own, in place of all others; the
        seconds it took. Raises ClusterError.
        """
        start = time.monotonic()
        before = self.services
        self.services = {
            family: (*own, *services.get(family, ())) for family, own in self.own.items()
        }
        for family in self.services:
            self._write_all(family, before[family])
        return time.monotonic() - start

    def follow(self, other: Proxy) -> None:
        """The Services that ``other`` has, for a deployment that is to be like another."""
        if other.services != self.services:
            before, self.services = self.services, dict(other.services)
            for family in self.services:
                self._write_all(family, before[family])

    def change(self, family: int, new: Sequence[Service], gone: Sequence[Service] = ()) -> float:
        """``new`` Services, which take the place of those of ``gone``, as kube-proxy writes a
        change; the seconds it took. Raises ClusterError.
        """
        start = time.monotonic()
        left = [service for service in self.services[family] if service not in gone]
        # in the middle, which is where the random order of kube-proxy's map has one on average
        middle = len(left) // 2
        self.services[family] = (*left[:middle], *new, *left[middle:])
        self._write_change(family, new, gone)
        return time.monotonic() - start

    @abc.abstractmethod
    def _write_all(self, family: int, before: Sequence[Service]) -> None:
        """All of ``self.services``, where ``before`` were. Raises ClusterError."""

    @abc.abstractmethod
    def _write_change(self, family: int, new: Sequence[Service], gone: Sequence[Service]) -> None:
        """One change, which ``self.services`` has already. Raises ClusterError."""

    def _on_nodes(self, job: Callable[[LabNode], object]) -> None:
        """Does it for both nodes at once. Raises what it raises."""
        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(job, node) for node in self.deployment.nodes()]:
                done.result()

    @abc.abstractmethod
    def found(self) -> Mapping[str, Counted]:
        """What both nodes' kernels have, by place. Raises ClusterError."""

    @abc.abstractmethod
    def expected(self, family: int) -> Counted:
        """What ``found`` says in each place of that family when all ``services`` are there."""

    @abc.abstractmethod
    def translated(self, node: LabNode, service: Service) -> bool:
        """Has this node led a connection to that Service to one of its endpoints, by what it knows
        of connections? Raises ClusterError.
        """

    def check(self) -> Mapping[str, Counted]:
        """``found``, which is what there should be. Raises ClusterError otherwise."""
        found = self.found()
        for place, counted in found.items():
            family = int(place[-1])
            if counted != (expected := self.expected(family)):
                count = len(self.services[family])
                raise ClusterError(
                    f"{self.deployment.label}: on {place} the {self.name} implementation of"
                    f" {count} Services is not as written: {counted.rules} rules or entries,"
                    f" {expected.rules} are expected"
                    + ("" if counted.rules != expected.rules else ", and others"),
                    "did something else change the rules? deploy it again",
                )
        return found


def proxy_of(name: str) -> type[Proxy]:
    """The implementation of that name. Raises UsageError."""
    found: type[Proxy] = provider("clusters.lab.proxies", name)
    return found


def bytes_on_node(name: str, services: Services, families: int) -> int:
    """What these Services take of a node's memory by the implementation of that name."""
    return proxy_of(name).bytes_each * services.count * services.endpoints * families


def too_many(name: str, services: Services, families: int, room: int = 0) -> str:
    """Why the memory has no room for these Services, in ``families`` address families on two nodes,
    by the implementation of that name; '' when it has. ``room`` are the bytes that a VM has for
    them; 0: this machine's memory counts.
    """
    needed = 2 * bytes_on_node(name, services, families)
    if needed <= (free := room or memory.available()):
        return ""
    where = f"{free >> 20} MiB are free"
    if room:
        where = f"the VM has {free >> 20} MiB for them (CNIBENCH_VM_MEMORY gives it more)"
    return (
        f"{services.count} Services with {services.endpoints} endpoints each take about"
        f" {needed >> 20} MiB on two nodes by {name}; {where}: ask for fewer"
    )


def place(node: LabNode, family: int) -> str:
    """A node's name and the family, as ``found`` names places."""
    return f"{node.name}, IPv{family}"


def only_new(
    before: Iterable[Service], after: Iterable[Service]
) -> tuple[list[Service], list[Service]]:
    """(those that only ``after`` has, those that only ``before`` has)"""
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    return [one for one in new if one not in old], [one for one in old if one not in new]
