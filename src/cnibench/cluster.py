"""What a cluster is to everything else: places where commands run, and profiles that are installed, attested and removed.

Each kind of cluster is one module (or package) in clusters/ whose ``PROVIDER`` is a subclass of Cluster.
"""

from __future__ import annotations

import abc
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cnibench.cell import Attestation, Cell, Placement
from cnibench.conditions import Conditions
from cnibench.errors import ClusterError, CnibenchError, Interrupted, UnsupportedError
from cnibench.exec import Done, Process
from cnibench.profile import Profile

if TYPE_CHECKING:
    from cnibench.offload.nic import Nic

Wire = Literal["veth", "virtio", "nic", "none"]
Fidelity = Literal["cni", "datapath-model", "baseline"]
_GONE = tuple(os.strerror(number) for number in (errno.ENOENT, errno.ESRCH))  # of a file; of a process while its file is read


class Place(abc.ABC):
    """Somewhere commands can run: a Pod, or a node's own network namespace."""

    name: str
    python: ClassVar[str] = sys.executable  # an interpreter there
    local: ClassVar[bool] = True  # are programs there descendants of this process?

    @abc.abstractmethod
    def spawn(self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None) -> Process:
        """Starts a program there in the background, its output in files of this machine."""

    @abc.abstractmethod
    def run(self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True) -> Done:
        """Runs a program there to its end. Raises ClusterError when ``check`` and it fails, LimitError after ``timeout`` seconds."""

    @abc.abstractmethod
    def read_text(self, path: str) -> str:
        """A file as seen there, /proc/net/snmp for instance. Raises ClusterError."""

    def read_each(self, paths: Sequence[str]) -> list[str | None]:
        """Files as seen there, None for each that is gone, as those of a process are; in one request where each takes its time.

        Raises ClusterError.
        """
        found: list[str | None] = []
        for path in paths:
            try:
                found.append(self.read_text(path))
            except ClusterError as error:
                if not any(f"{words}: " in error.message for words in _GONE):
                    raise
                found.append(None)
        return found


class Node(Place):
    """A node; commands run in its host network namespace. ``disk`` is where they see the root of its own files."""

    disk: str = ""


class Pod(Place):
    """A Pod; ``addresses`` maps 4 and 6 to its address, ``interface`` is its network device ('' when it uses its node's)."""

    node: Node
    addresses: Mapping[int, str]
    interface: str


@dataclass(frozen=True)
class Problem:
    """Why a profile cannot be measured here: ``lacks`` names it (a kernel option, say), ``remedy`` mends it.

    ``kind`` is ``kernel`` for what the running kernel lacks and a distribution's stock kernel has: a VM mends that.
    """

    profile: str
    lacks: str
    remedy: str
    kind: Literal["", "kernel"] = ""


@dataclass(frozen=True)
class Remark:
    """One thing about the nodes, with what mends it; ``kind``: they differ, it disturbs measuring, or it could not be seen."""

    kind: Literal["differs", "disturbs", "unseen"]
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Nodes:
    """What nodes told of themselves: name to facts, by their names in what is published (a, b, ...), and what follows from that."""

    facts: Mapping[str, Mapping[str, Any]]
    remarks: Sequence[Remark]


@dataclass(frozen=True)
class Options:
    """What a run asks of its cluster. ``extra`` holds what only one kind knows (kubeconfig, context, ...)."""

    mtu: int = 1500
    wire_offload: str = ""
    wire_rate: float = 0.0  # bit/s, 0: unlimited
    ip: tuple[int, ...] = (4,)
    pairs: int = 1  # monitored at the same time
    keep: bool = False
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # label -> key -> value of --set
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outage:
    """A time in which a cluster did not answer: ``start`` in RFC 3339, its length in ``seconds``, and why."""

    start: str
    seconds: float
    reason: str


@dataclass(frozen=True)
class Leftover:
    """Something that an earlier run left; ``owner`` made it ('': not known), ``about`` says whom its removal concerns.

    ``kept`` says why it stays, '' when ``remove`` may be called; ``refused``: because a check of ``run`` forbids it.
    ``remove`` raises CnibenchError.
    """

    what: str
    remove: Callable[[], object]
    owner: str = ""
    about: str = ""
    kept: str = ""
    remedy: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Started:
    """A Pod that was made: its steps (name, seconds); ``ready`` in s since it was asked for, ``network`` the CNI's part of that."""

    pod: Pod
    steps: Sequence[tuple[str, float]]
    ready: float
    network: float


class Standing(abc.ABC):
    """One profile, installed: its Pods, its proof, its removal."""

    label: str
    profile: Profile
    fidelity: Fidelity
    broken: str = ""  # why nothing can be measured here any more

    @contextmanager
    def undone(self, what: str, undo: Callable[[], object]) -> Iterator[None]:
        """``undo`` at the end, whatever happens. Raises ClusterError when that fails: then this standing is not measured on any more."""
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

    @abc.abstractmethod
    def pair(self, placement: Placement, number: int = 0) -> tuple[Pod, Pod]:
        """(client, server) of the monitored pair; both on node a for intra, client on node a and server on node b for inter."""

    def pair_for(self, cell: Cell) -> tuple[Pod, Pod]:
        """(client, server) of a cell: those of its pair, on the nodes' own network where its path says so."""
        return self.pair(cell.placement, cell.pair)

    def pairs_for(self, cells: Sequence[Cell]) -> list[tuple[Pod, Pod]]:
        """The same of cells that are measured at the same time."""
        return [self.pair_for(cell) for cell in cells]

    def address(self, cell: Cell, server: Pod) -> str:
        """What the client connects to: the server's address, or that of a Service before it. Raises UnsupportedError."""
        return server.addresses[cell.ip]

    def port(self, cell: Cell, number: int) -> int:
        """Where a server listens that would listen on ``number`` if its path left the choice to it."""
        return number

    @abc.abstractmethod
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, the client's first."""

    def pods(self) -> Iterable[Pod] | None:
        """All Pods that it has made and that stand; None where they cannot be told."""
        return None

    @abc.abstractmethod
    def add_pods(self, node: Node, count: int) -> list[Pod]:
        """More Pods on a node, through the same steps as the first ones; they go when the profile is removed."""

    def read_texts(self, pods: Sequence[Pod], path: str) -> list[str]:
        """A file as each of many Pods sees it, in few requests where each takes its time. Raises ClusterError."""
        return [pod.read_text(path) for pod in pods]

    def add_pods_on(self, wanted: Sequence[tuple[Node, int]]) -> list[list[Pod]]:
        """So many on each of several nodes (a node may stand there twice), together where that is quicker."""
        return [self.add_pods(node, count) for node, count in wanted]

    @abc.abstractmethod
    def attest(self) -> list[Attestation]:
        """Proves by observation that the datapath is what the profile claims; every check is in the list, passed or not."""

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
        """The tunnel device that a node's Pod packets of one family (4, 6) leave through, '' when there is none."""
        return self.tunnel()

    def settle(self) -> None:
        """Called before each cell, so that nothing carries over from the last one (TCP metrics, conntrack entries, TIME_WAIT)."""
        return None

    def alive(self) -> str:
        """'' while everything that the datapath needs runs, else what died (a user-space daemon, a node)."""
        return ""

    def under(self, asked: Conditions, client: Pod, server: Pod, cell: Cell | None = None) -> AbstractContextManager[list[dict[str, Any]]]:
        """The cell's conditions for the block: made, proven by reading back (one record each is given), removed at its end.

        ``cell`` says which ports are its workload's (an HTTP rule names one); None: those of the first pair, Pod to Pod.
        Raises UnsupportedError for what does not exist here, ClusterError when they do not become what was asked.
        """
        raise UnsupportedError(f"{self.label}: no policies or features can be set as a cell's condition on this kind of cluster")

    def deny(self, port: int | None) -> None:
        """From now on UDP to that port of every Pod is denied; None: no longer. Raises UnsupportedError, ClusterError."""
        raise UnsupportedError(f"{self.label}: no policy can be made on this kind of cluster")

    def denial(self, port: int) -> Callable[[], None]:
        """``deny`` made ready: what is called then does no more than the denial itself takes, and may return before it is in force."""
        return lambda: self.deny(port)

    def start_pods(self, node: Node, count: int, at_once: bool) -> list[Started]:
        """More Pods, timed: all at once, or the next when the one before is ready. They go with ``remove_pods``. Raises ClusterError."""
        raise UnsupportedError(f"{self.label}: the steps of a Pod's start cannot be timed on this kind of cluster")

    def remove_pods(self, pods: Sequence[Pod]) -> None:
        """Removes Pods of ``start_pods``, with all that the CNI made for them. Raises ClusterError."""
        return None

    def processes(self) -> Mapping[str, int | tuple[Node, int]] | None:
        """Name to process number of the CNI's own processes, seen from where we run or from that node; None where they cannot be told."""
        return None


class Cluster(abc.ABC):
    """A kind of cluster. Used as a context manager: leaving it removes everything that it made."""

    kind: ClassVar[str]
    simultaneous: ClassVar[bool] = False  # can several profiles stand side by side, so that blocks interleave them?
    ours: ClassVar[bool] = True  # are its nodes made by us, of this machine?
    most_pairs: ClassVar[int] = 1000  # monitored pairs that have room here
    paths: ClassVar[tuple[str, ...]] = ("pod",)  # how a client can reach its server here (Cell.path)
    pod_seconds: ClassVar[float] = 0.05  # s: about what a further Pod takes here, for plans
    conntrack_bypass: ClassVar[bool] = True  # can packets of established connections be made to meet the policies (policy.conntrack)?
    mtus: ClassVar[tuple[int, ...]] = ()  # that the wire can have, the usual one first; (): more than could be listed

    def __init__(self, options: Options) -> None:
        self.options = options
        self.tell: Callable[[str], None] = lambda text: None  # what somebody waits for, in words

    @classmethod
    def carry(cls, main: Callable[[], int]) -> int:
        """Runs the rest of a command where this kind of cluster works (the lab: in a tree of namespaces); returns its exit status."""
        return main()

    @property
    @abc.abstractmethod
    def testbed(self) -> str:
        """lab, vm, kind or cluster."""

    @property
    @abc.abstractmethod
    def wire(self) -> Wire:
        """What joins the nodes."""

    @abc.abstractmethod
    def missing(self) -> list[Problem]:
        """What this kind lacks on this machine, whatever the profile (Problem.profile is '')."""

    @abc.abstractmethod
    def check(self, profile: Profile) -> list[Problem]:
        """What this profile lacks here; found before anything is made."""

    def seconds(self, profile: Profile) -> float:
        """About how long making, attesting and removing it takes, for plans; 0 where that is little."""
        return 0.0

    @abc.abstractmethod
    def install(self, label: str, profile: Profile) -> Standing:
        """Makes the profile. Raises ClusterError; nothing of it stays then."""

    def resolve(self, profiles: Mapping[str, Profile]) -> Mapping[str, Profile]:
        """Labels to profiles, with what only the cluster knows put in (``current``). Raises ClusterError, UsageError."""
        return profiles

    def blind(self) -> str:
        """Why the nodes' kernels cannot be looked into here, as far as that can be told beforehand; '' when they can."""
        return ""

    def refuses(self, profile: Profile, cell: Cell) -> str:
        """Why a cell can never be measured on this kind of cluster, as far as that can be told beforehand; '' when it can."""
        return ""

    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        """The devices that may reach other nodes (``every``: all), and UDP ports of VXLAN devices. Within ``with``. Raises ClusterError."""
        from cnibench.offload import reading

        return reading.here(), reading.vxlan_ports()

    def compared(self) -> Nodes | None:
        """What of the nodes disturbs measuring or differs between them, looked at from within; None where they are this machine.

        Within ``with``. Raises ClusterError, UsageError.
        """
        return None

    def permit(self, cells: Sequence[Cell]) -> None:
        """Raises UsageError when cells would change what was not allowed to be changed."""
        return None

    def preview(self, profiles: Mapping[str, Profile], seconds: float, volume: float) -> Sequence[str]:
        """What is about to be done to whom, in lines for the user; ``seconds`` of windows, ``volume`` in bytes at most.

        Raises UsageError for what was not allowed.
        """
        return ()

    @abc.abstractmethod
    def environment(self) -> dict[str, Any]:
        """Facts of the nodes for env.json (kernel, CPU model, sysctls and features that matter)."""

    def leftovers(self, owners: Sequence[str] = (), tell: Callable[[str], None] = print) -> list[Leftover]:
        """What earlier runs left, those of ``owners`` beside this user's own; nothing is changed. Within ``with``.

        ``tell`` is called before something takes its time. A kind that can leave nothing (the lab) finds nothing.
        """
        return []

    def outages(self, suspect: bool = False) -> list[Outage]:
        """Times since the last call in which the cluster did not answer; waits, with a limit, for the end of one that lasts.

        ``suspect``: something has just failed that an outage would explain. Raises EndedError.
        """
        return []

    def __enter__(self) -> Cluster:
        return self

    @abc.abstractmethod
    def __exit__(self, *error: object) -> None: ...
