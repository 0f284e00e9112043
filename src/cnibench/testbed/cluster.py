"""A kind of cluster: what it lacks, what it installs, what it removes.

Each kind is one module (or package) in clusters/ whose ``PROVIDER`` is a subclass of Cluster.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cnibench.model.cell import Cell
from cnibench.model.profile import Profile

if TYPE_CHECKING:
    from cnibench.offload.nic import Nic

from cnibench.errors import UnsupportedError
from cnibench.testbed.deployment import Deployment

Wire = Literal["veth", "virtio", "nic", "none"]


@dataclass(frozen=True)
class Problem:
    """Why a profile cannot be measured here: ``lacks`` names it (a kernel option, say), ``remedy``
    mends it.

    ``kind`` is ``kernel`` for what the running kernel lacks and a distribution's stock kernel has:
    a VM mends that.
    """

    profile: str
    lacks: str
    remedy: str
    kind: Literal["", "kernel"] = ""


@dataclass(frozen=True)
class Remark:
    """One thing about the nodes, with what mends it; ``kind``: they differ, it disturbs measuring,
    or it could not be seen.
    """

    kind: Literal["differs", "disturbs", "unseen"]
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Nodes:
    """What nodes told of themselves: name to facts, by their names in what is published (a, b,
    ...), and what follows from that.
    """

    facts: Mapping[str, Mapping[str, Any]]
    remarks: Sequence[Remark]


@dataclass(frozen=True)
class Options:
    """What a run asks of its cluster. ``extra`` holds what only one kind knows (kubeconfig,
    context, ...).
    """

    mtu: int = 1500
    wire_offload: str = ""
    wire_rate: float = 0.0  # bit/s, 0: unlimited
    congestion_control: str = ""  # of TCP connections; '': the cluster's own default
    ip: tuple[int, ...] = (4,)
    pairs: int = 1  # monitored at the same time
    keep: bool = False
    settings: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  # label -> key -> value of --set
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outage:
    """A time in which a cluster did not answer: ``start`` in RFC 3339, its length in ``seconds``,
    and why.
    """

    start: str
    seconds: float
    reason: str


@dataclass(frozen=True)
class Leftover:
    """Something that an earlier run left; ``owner`` made it ('': not known), ``about`` says whom
    its removal concerns.

    ``kept`` says why it stays, '' when ``remove`` may be called; ``refused``: because a check of
    ``run`` forbids it.
    ``remove`` raises CnibenchError.
    """

    what: str
    remove: Callable[[], object]
    owner: str = ""
    about: str = ""
    kept: str = ""
    remedy: str = ""
    refused: bool = False


class Cluster(abc.ABC):
    """A kind of cluster. Used as a context manager: leaving it removes everything that it made."""

    kind: ClassVar[str]
    simultaneous: ClassVar[bool] = (
        False  # can several profiles stand side by side, so that blocks interleave them?
    )
    ours: ClassVar[bool] = True  # are its nodes made by us, of this machine?
    most_pairs: ClassVar[int] = 1000  # monitored pairs that have room here
    paths: ClassVar[tuple[str, ...]] = (
        "pod",
    )  # how a client can reach its server here (Cell.path)
    pod_seconds: ClassVar[float] = 0.05  # s: about what a further Pod takes here, for plans
    conntrack_bypass: ClassVar[bool] = (
        # can packets of established connections be made to meet the policies (policy.conntrack)?
        True
    )
    mtus: ClassVar[
        tuple[int, ...]
    ] = ()  # that the wire can have, the usual one first; (): more than could be listed

    def __init__(self, options: Options) -> None:
        self.options = options
        self.tell: Callable[[str], None] = lambda text: None  # what somebody waits for, in words

    @classmethod
    def carry(cls, main: Callable[[], int]) -> int:
        """Runs the rest of a command where this kind of cluster works (the lab: in a tree of
        namespaces); returns its exit status.
        """
        return main()

    @property
    @abc.abstractmethod
    def testbed(self) -> str:
        """lab, vm, kind or cluster."""

    @property
    @abc.abstractmethod
    def wire(self) -> Wire:
        """What joins the nodes."""

    @property
    def congestion_control(self) -> str:
        """What every measured TCP connection must have; '': whatever the Pods have by default."""
        return self.options.congestion_control

    @abc.abstractmethod
    def missing(self) -> list[Problem]:
        """What this kind lacks on this machine, whatever the profile (Problem.profile is '')."""

    @abc.abstractmethod
    def check(self, profile: Profile) -> list[Problem]:
        """What this profile lacks here; found before anything is made."""

    def seconds(self, profile: Profile) -> float:
        """About how long making, attesting and removing it takes, for plans; 0 where that is
        little.
        """
        return 0.0

    @abc.abstractmethod
    def install(self, label: str, profile: Profile) -> Deployment:
        """Makes the profile. Raises ClusterError; nothing of it stays then."""

    def resolve(self, profiles: Mapping[str, Profile]) -> Mapping[str, Profile]:
        """Labels to profiles, with what only the cluster knows put in (``current``). Raises
        ClusterError, UsageError.
        """
        return profiles

    def why_kernel_hidden(self) -> str:
        """Why the nodes' kernels cannot be looked into here, as far as that can be told beforehand;
        '' when they can.
        """
        return ""

    def refuses(self, profile: Profile, cell: Cell) -> str:
        """Why a cell can never be measured on this kind of cluster, as far as that can be told
        beforehand; '' when it can.
        """
        return ""

    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        """The devices that may reach other nodes (``every``: all), and UDP ports of VXLAN devices.

        Within ``with``. Raises UnsupportedError for a kind of cluster whose NICs cannot be read,
        ClusterError.
        """
        raise UnsupportedError(f"the NICs of a cluster of kind '{self.kind}' cannot be read")

    def compared(self) -> Nodes | None:
        """What of the nodes disturbs measuring or differs between them, looked at from within; None
        where they are this machine.

        Within ``with``. Raises ClusterError, UsageError.
        """
        return None

    def permit(self, cells: Sequence[Cell]) -> None:
        """Raises UsageError when cells would change what was not allowed to be changed."""
        return None

    def preview(
        self, profiles: Mapping[str, Profile], seconds: float, volume: float
    ) -> Sequence[str]:
        """What is about to be done to whom, in lines for the user; ``seconds`` of windows,
        ``volume`` in bytes at most.

        Raises UsageError for what was not allowed.
        """
        return ()

    @abc.abstractmethod
    def environment(self) -> dict[str, Any]:
        """Facts of the nodes for env.json (kernel, CPU model, sysctls and features that matter)."""

    def leftovers(
        self, owners: Sequence[str] = (), tell: Callable[[str], None] = print
    ) -> list[Leftover]:
        """What earlier runs left, those of ``owners`` beside this user's own; nothing is changed.
        Within ``with``.

        ``tell`` is called before something takes its time. A kind that can leave nothing (the lab)
        finds nothing.
        """
        return []

    def outages(self, suspect: bool = False) -> list[Outage]:
        """Times since the last call in which the cluster did not answer; waits, with a limit, for
        the end of one that lasts.

        ``suspect``: something has just failed that an outage would explain. Raises EndedError.
        """
        return []

    def __enter__(self) -> Cluster:
        return self

    @abc.abstractmethod
    def __exit__(self, *error: object) -> None: ...
