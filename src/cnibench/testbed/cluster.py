"""A kind of cluster: what it lacks, what it installs, what it removes.

Each kind is one module (or package) in clusters/ whose ``PROVIDER`` is a subclass of Cluster. What
only some kinds offer is a capability (``testbed.capabilities``).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from cnibench.errors import UsageError
from cnibench.model.profile import Profile
from cnibench.testbed.cluster_options import ClusterOptions, spelled
from cnibench.testbed.deployment import Deployment

Wire = Literal["veth", "virtio", "nic", "none"]


@dataclass(frozen=True)
class Problem:
    """Why a profile cannot be measured here: ``lacks`` names it (a kernel option, say), ``remedy``
    says what to do.

    ``kind`` is ``kernel`` for what the running kernel lacks and a distribution's stock kernel has:
    a VM has it.
    """

    profile: str
    lacks: str
    remedy: str
    kind: Literal["", "kernel"] = ""


def lacking_family(profile: Profile, family: int) -> Problem:
    """A profile whose mode has no IPv4, or no IPv6."""
    return Problem(
        profile.name, f"IPv{family} in this mode", f"leave it out, or --ip {profile.features.ip[0]}"
    )


@dataclass(frozen=True)
class Options:
    """What a run asks of its cluster; ``cluster`` has the options of this kind of cluster alone."""

    mtu: int = 1500
    wire_offload: str = ""
    wire_rate: float = 0.0  # bit/s, 0: unlimited
    congestion_control: str = ""  # of TCP connections; '': the cluster's own default
    ip: tuple[int, ...] = (4,)
    pairs: int = 1  # measured at the same time
    keep: bool = False
    settings: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  # label -> key -> value of --set
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    in_vm: bool = False  # the run was carried into a VM
    room: int = 0  # bytes that the VM will have for it, where it is to be carried into one


class Cluster(abc.ABC):
    """Used as a context manager: leaving it removes everything that it made."""

    kind: ClassVar[str]
    tools: ClassVar[Mapping[str, str]] = {}  # programs that it needs here, and Debian's package
    deploys: ClassVar[type] = Deployment  # the class of what ``install`` returns
    simultaneous: ClassVar[bool] = (
        False  # can several profiles be installed at once, so that blocks interleave them?
    )
    # may several threads install and attest profiles at the same time? Programs of a deployment end
    # with the thread that installed it
    concurrent: ClassVar[bool] = False
    # '': load generators cannot be stopped and counted in microseconds; else its profiles are
    # installed together for that, if there is room for them, or in turn
    slices: ClassVar[Literal["", "together", "in turn"]] = ""
    cycles_in_slices: ClassVar[bool] = True  # do rounds of slices have perf, for those cells?
    takes: ClassVar[frozenset[str]] = (
        frozenset()
    )  # names of ClusterOptions, and keep: any other that was given is refused
    manages_nodes: ClassVar[bool] = True  # are its nodes made by us, of this machine?
    most_pairs: ClassVar[int] = 1000  # measured pairs that have room here
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
    testbed: str  # lab, vm, kind or cluster
    wire: Wire  # what joins the nodes

    def __init__(self, options: Options) -> None:
        """Raises UsageError for an option that this kind of cluster does not take."""
        given = [*options.cluster.given(), *(["keep"] if options.keep else [])]
        if ignored := [name for name in given if name not in self.takes]:
            raise UsageError(
                f"--cluster {self.kind} does not accept {spelled(ignored[0])}",
                "leave it out; the help lists the options by kind of cluster",
            )
        self.options = options
        # what every measured TCP connection must have; '': whatever the Pods have by default
        self.congestion_control = options.congestion_control
        self.notify: Callable[[str], None] = lambda text: None  # what somebody waits for, in words

    @classmethod
    def carry(cls, main: Callable[[], int]) -> int:
        """Runs the rest of a command where this kind of cluster works (the lab: in a tree of
        namespaces); returns its exit status.
        """
        return main()

    @abc.abstractmethod
    def missing(self) -> list[Problem]:
        """What this kind lacks on this machine, whatever the profile (Problem.profile is '')."""

    @abc.abstractmethod
    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        """What this profile lacks here; found before anything is made. ``options`` are those of the
        profile alone, the cluster's own if not given.
        """

    def require_room(self, profiles: int) -> None:  # noqa: B027 (most kinds need none)
        """Raises NoSlicesError when so many profiles cannot be installed at once."""

    def seconds(self, profile: Profile) -> float:
        """About how long making, attesting and removing it takes, for plans; 0 where that is
        little.
        """
        return 0.0

    @abc.abstractmethod
    def install(self, label: str, profile: Profile) -> Deployment:
        """Makes the profile. Raises ClusterError; nothing of it stays then."""

    @abc.abstractmethod
    def environment(self) -> dict[str, Any]:
        """Facts of the nodes for env.json (kernel, CPU model, sysctls and features that matter)."""

    def __enter__(self) -> Cluster:
        return self

    @abc.abstractmethod
    def __exit__(self, *error: object) -> None: ...
