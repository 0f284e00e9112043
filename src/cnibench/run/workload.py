"""What a workload is: a server, a client, and a pure parser of the client's raw output.

Each workload is one file in workloads/ whose ``PROVIDER`` is an instance of a subclass (or a tuple
of them, one per name).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from cnibench.errors import UnsupportedError
from cnibench.model.cell import Cell
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.slices.load import Load
from cnibench.system.process import Process
from cnibench.testbed.capability import Capability


class Workload(abc.ABC):
    """What is driven through the network."""

    name: ClassVar[str]
    title: ClassVar[str]
    tools: ClassVar[
        Mapping[str, str]
    ]  # programs that must be there, in the Pods, and the Debian package that has each
    ports: ClassVar[
        tuple[int, ...]
    ] = ()  # that its server listens on; further pairs take the ones after them
    Params: ClassVar[type[Strict]]  # parameters with their defaults; unknown ones are refused
    primary: ClassVar[
        str
    ]  # the metric that decides: planning, stopping, ranking, gate and reports take this one
    cpp: ClassVar[bool] = True  # does cycles per packet make sense for it?
    needs: ClassVar[tuple[type[Capability], ...]] = ()  # that deployments must have for it
    transport: ClassVar[str] = "tcp"  # what the packets collector counts: tcp or udp
    looks: ClassVar[bool] = False  # does it run programs on the nodes that look into their kernels?
    collected: ClassVar[bool] = (
        True  # do collectors read while it runs? not where it has no window of a steady load
    )
    alone: ClassVar[bool] = (
        # do only its client and its server run? their CPU time is that of what they transfer
        True
    )
    several: ClassVar[bool] = (
        # can several pairs run it at the same time? not where it remembers what it made, or counts
        # for all
        True
    )
    counts: ClassVar[
        tuple[str, ...]
    ] = ()  # parameters that say how often something is done: what --scale shrinks beside durations
    at_least: ClassVar[
        Mapping[str, str]
    ] = {}  # a count -> the parameter that it may not become smaller than

    # What --blocks auto assumes while no calibration of this machine is at hand: the standard
    # deviation of the log of the primary metric
    # from block to block; 0: it is counted, not measured. Single TCP streams in the repeats that
    # were published as
    # benchmark-k8s-cni-2024-01 (bare metal, 40 Gbit/s) have 2.1 to 2.7 %.
    noise: ClassVar[float] = 0.03
    # The same of a block in slices; 0: ``noise``, nobody measured it.
    slices_noise: ClassVar[float] = 0.0

    def params(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """``given`` over the defaults, checked. Raises pydantic.ValidationError."""
        return self.Params.model_validate(dict(given)).model_dump(mode="json")

    def runs_concurrently(self, cell: Cell) -> bool:
        """Is the cell measured while that of the first pair is? With perf it is not: no kernel
        attributes cycles to pairs.
        """
        return bool(cell.pair) and self.several and cell.window == "speed"

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        """The expected time of one sample in seconds, for plans and progress."""
        return duration + warmup

    def longest(self, params: Mapping[str, Any], duration: float) -> float:
        """Seconds of the measured client after which it hangs: what is given to it before it is
        ended and counts as failed.
        """
        return 1.5 * max(self.seconds(params, duration, 0.0), duration)

    def pods(self, cell: Cell) -> int:
        """Pods that each sample makes beside the monitored ones, which takes time of its own
        (Cluster.pod_seconds).
        """
        return 0

    def kept_pods(self, cell: Cell) -> int:
        """Pods that the first such sample of a deployment makes and later ones use again."""
        return 0

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        """A rough upper bound of the bytes that one sample sends, for --dry-run; 0 when it is
        little.
        """
        return 0.0

    def data_port(self, s: SampleContext) -> int:
        """The port of the measured TCP connections at one of their ends; 0: there are none."""
        return 0

    def load(self, cell: Cell) -> Load:
        """How it is driven in slices. Raises UnsupportedError with the reason why it is not: then
        it is measured in windows.
        """
        raise UnsupportedError("it has no load that goes on unharmed after it was stopped")

    @abc.abstractmethod
    def serve(self, s: SampleContext) -> AbstractContextManager[None]:
        """The server in the server's Pod, listening when the block is entered, gone when it is
        left. Raises MeasureError.
        """

    @abc.abstractmethod
    def warm_up(self, s: SampleContext) -> None:
        """Traffic for ``s.warmup`` seconds that is never counted."""

    @abc.abstractmethod
    def start(self, s: SampleContext) -> Process:
        """Starts the measured client; its output goes to files in ``s.raw``."""

    @abc.abstractmethod
    def measurements(self, s: SampleContext) -> Measurements:
        """Reads ``s.raw`` after the client's end through pure parsers. Raises MeasureError with the
        reason when it cannot be parsed.
        """
