"""What a workload says about being measured in slices: how its load is started for a whole block,
and what of the kernel's counters is its work.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from cnibench.run.sample_context import SampleContext
from cnibench.run.slices.readings.counters import Counted
from cnibench.system.process import Process
from cnibench.testbed.place import Pod

FOR_EVER = 86_400.0  # s: what a load generator is given, which is ended long before


class Load(abc.ABC):
    """A load that goes on by itself until it is paused."""

    metric: ClassVar[str]  # what its rate is: transaction_rate, throughput
    ports: ClassVar[tuple[int, ...]]  # that its server listens on, for the first pair
    per: ClassVar[str]  # the metric of its CPU time: cpu_per_transaction, cpu_per_byte

    at_server: ClassVar[bool] = False  # does only the server's kernel know what was delivered?

    @abc.abstractmethod
    def serve(self, s: SampleContext) -> AbstractContextManager[None]:
        """The server, listening when the block is entered. Raises MeasureError."""

    @abc.abstractmethod
    def start(self, s: SampleContext) -> Process:
        """The client, as the leader of a process group of its own; a stop of the group must do it
        no harm.
        """

    @abc.abstractmethod
    def counter(self, s: SampleContext) -> Counted:
        """It is made in the namespace of the Pod that ``counted`` names, before the client
        starts.
        """

    @abc.abstractmethod
    def data_port(self, s: SampleContext) -> int:
        """As Workload.data_port."""

    def counted(self, s: SampleContext) -> Pod:
        """The Pod whose kernel counts."""
        return s.server if self.at_server else s.client

    @abc.abstractmethod
    def units(self, count: float, s: SampleContext) -> float:
        """Transactions or bytes that a count stands for."""

    def params(self) -> dict[str, Any]:
        """Parameters of the cell that are other than asked for in slices: its cell has these."""
        return {}

    def window(self, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The workload that runs this load's program in one window, '' for the cell's own, and its
        parameters where ``params`` are the cell's.
        """
        return "", dict(params)

    def rate(self, units: float) -> float:
        """``units`` in a second as ``metric`` has it."""
        return units * 8 if self.metric == "throughput" else units
