"""A profile, installed: its Pods, its proof, its removal."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from cnibench.errors import ClusterError, CnibenchError, Interrupted, UnsupportedError
from cnibench.model.cell import Attestation, Cell, Placement
from cnibench.model.conditions import Conditions
from cnibench.model.profile import Profile
from cnibench.testbed.place import Node, Pod

Fidelity = Literal["cni", "datapath-model", "baseline"]


@dataclass(frozen=True)
class Started:
    """A Pod that was made: its steps (name, seconds); ``ready`` in s since it was asked for,
    ``network`` the CNI's part of that.
    """

    pod: Pod
    steps: Sequence[tuple[str, float]]
    ready: float
    network: float


class Deployment(abc.ABC):
    """One profile, installed: its Pods, its proof, its removal."""

    label: str
    profile: Profile
    fidelity: Fidelity
    broken: str = ""  # why nothing can be measured here any more

    @contextmanager
    def undone(self, what: str, undo: Callable[[], object]) -> Iterator[None]:
        """``undo`` at the end, whatever happens. Raises ClusterError when that fails: then this
        standing is not measured on any more.
        """
        try:
            yield
        finally:
            try:
                undo()
            except Interrupted:  # the whole standing goes then
                raise
            except CnibenchError as error:
                self.broken = f"{what} of an earlier cell could not be taken back: {error.message}"
                raise ClusterError(f"{self.label}: {self.broken}") from None

    def attestation(
        self, check: str, expected: str, observed: str, passed: bool, ip: int = 4
    ) -> Attestation:
        """The outcome of one check of this deployment."""
        name = self.profile.name
        return Attestation(
            label=self.label,
            profile=name,
            check=check,
            expected=expected,
            observed=observed,
            passed=passed,
            ip=ip,
        )

    @abc.abstractmethod
    def pair(self, placement: Placement, number: int = 0) -> tuple[Pod, Pod]:
        """(client, server) of the monitored pair; both on node a for intra, client on node a and
        server on node b for inter.
        """

    def pair_for(self, cell: Cell) -> tuple[Pod, Pod]:
        """(client, server) of a cell: those of its pair, on the nodes' own network where its path
        says so.
        """
        return self.pair(cell.placement, cell.pair)

    def pairs_for(self, cells: Sequence[Cell]) -> list[tuple[Pod, Pod]]:
        """The same of cells that are measured at the same time."""
        return [self.pair_for(cell) for cell in cells]

    def address(self, cell: Cell, server: Pod) -> str:
        """What the client connects to: the server's address, or that of a Service before it. Raises
        UnsupportedError.
        """
        return server.addresses[cell.ip]

    def port(self, cell: Cell, number: int) -> int:
        """Where a server listens that would listen on ``number`` if its path left the choice to
        it.
        """
        return number

    @abc.abstractmethod
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, the client's first."""

    def pods(self) -> Iterable[Pod] | None:
        """All Pods that it has made and that stand; None where they cannot be told."""
        return None

    @abc.abstractmethod
    def add_pods(self, node: Node, count: int) -> list[Pod]:
        """More Pods on a node, through the same steps as the first ones; they go when the profile
        is removed.
        """

    def read_texts(self, pods: Sequence[Pod], path: str) -> list[str]:
        """A file as each of many Pods sees it, in few requests where each takes its time. Raises
        ClusterError.
        """
        return [pod.read_text(path) for pod in pods]

    def add_pods_on(self, wanted: Sequence[tuple[Node, int]]) -> list[list[Pod]]:
        """So many on each of several nodes (a node may stand there twice), together where that is
        quicker.
        """
        return [self.add_pods(node, count) for node, count in wanted]

    @abc.abstractmethod
    def attest(self) -> list[Attestation]:
        """Proves by observation that the datapath is what the profile claims; every check is in the
        list, passed or not.
        """

    def verify(self) -> list[Attestation]:
        """Compares the datapath with what its profile declares, without traffic and fast enough for
        each block; [] where a kind of cluster cannot. Raises ClusterError.
        """
        return []

    @abc.abstractmethod
    def remove(self) -> None:
        """Removes all of it; may be called twice. Raises ClusterError naming what stayed."""

    def underlay(self) -> Mapping[str, str]:
        """Node name to the name of its device on the wire."""
        return {}

    def tunnel(self) -> str:
        """The name of the tunnel device on the nodes, '' when there is none."""
        return ""

    def tunnel_on(self, node: Node, family: int) -> str:
        """The tunnel device that a node's Pod packets of one family (4, 6) leave through, '' when
        there is none.
        """
        return self.tunnel()

    def reset_state(self) -> None:
        """Called before each cell, so that nothing carries over from the last one (TCP metrics,
        conntrack entries, TIME_WAIT).
        """
        return None

    def alive(self) -> str:
        """'' while everything that the datapath needs runs, else what died (a user-space daemon, a
        node).
        """
        return ""

    def under(
        self, asked: Conditions, client: Pod, server: Pod, cell: Cell | None = None
    ) -> AbstractContextManager[list[dict[str, Any]]]:
        """The cell's conditions for the block: made, proven by reading back (one record each is
        given), removed at its end.

        ``cell`` says which ports are its workload's (an HTTP rule names one); None: those of the
        first pair, Pod to Pod. Raises UnsupportedError for what does not exist here, ClusterError
        when they do not become what was asked.
        """
        raise UnsupportedError(
            f"{self.label}: no policies or features can be set as a cell's condition on this kind"
            " of cluster"
        )

    def deny(self, port: int | None) -> None:
        """From now on UDP to that port of every Pod is denied; None: no longer. Raises
        UnsupportedError, ClusterError.
        """
        raise UnsupportedError(f"{self.label}: no policy can be made on this kind of cluster")

    def denial(self, port: int) -> Callable[[], None]:
        """``deny`` made ready: what is called then does no more than the denial itself takes, and
        may return before it is in force.
        """
        return lambda: self.deny(port)

    def start_pods(self, node: Node, count: int, at_once: bool) -> list[Started]:
        """More Pods, timed: all at once, or the next when the one before is ready. They go with
        ``remove_pods``. Raises ClusterError.
        """
        raise UnsupportedError(
            f"{self.label}: the steps of a Pod's start cannot be timed on this kind of cluster"
        )

    def remove_pods(self, pods: Sequence[Pod]) -> None:
        """Removes Pods of ``start_pods``, with all that the CNI made for them. Raises
        ClusterError.
        """
        return None

    def processes(self) -> Mapping[str, int | tuple[Node, int]] | None:
        """Name to process number of the CNI's own processes, seen from where we run or from that
        node; None where they cannot be told.
        """
        return None
