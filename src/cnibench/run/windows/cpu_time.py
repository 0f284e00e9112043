"""CPU time per transaction or byte of a window: what its client, its server and the daemons of its
datapath use while the collectors read, by the scheduler's clock, as in slices.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from cnibench.errors import UnsupportedError
from cnibench.model.cell import Reading
from cnibench.model.metrics import cost_of
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.slices.readings.clocks import Clocks, below, children, descendants
from cnibench.run.task import Task
from cnibench.run.workload import Workload
from cnibench.system.process import Process


class CpuTime:
    """Of one pair. Nothing is read where its programs are not processes of this machine, or run
    beside others that the workload starts.
    """

    def __init__(self, s: SampleContext, workload: Workload) -> None:
        self._s = s
        self._rate = workload.primary
        self._wanted = (
            bool(cost_of(self._rate))
            and workload.collected
            and workload.alone
            and s.cell.window == "speed"
            and s.client.local
            and s.server.local
        )
        self._servers: set[int] = set()
        self._used = 0.0  # CPUs, over the window

    @contextmanager
    def starting(self) -> Iterator[None]:
        """What starts meanwhile is the server."""
        before = descendants(os.getpid()) if self._wanted else set()
        yield
        if self._wanted:
            self._servers = descendants(os.getpid()) - before

    def clocks(self, client: Process, children: Mapping[int, Sequence[int]]) -> Clocks | None:
        """Of client and server, and what they have started, and of the datapath's daemons; None
        where they are not read.
        """
        if not self._wanted or isinstance(client, Task) or not self._servers:
            return None
        programs = {client.pid, *self._servers}
        try:
            return Clocks(sorted(programs | below(programs, children) | set(self._s.daemons)))
        except UnsupportedError:  # the kernel has no such clock
            return None

    def used(self, cpus: float) -> None:
        """So many were busy with it during the window."""
        self._used = cpus

    def readings(self, driven: Measurements) -> list[Reading]:
        """By the rate that the workload's program reports."""
        rate = next(
            (one.value for one in driven.readings if one.metric == self._rate and not one.params),
            0.0,
        )
        if self._used <= 0 or rate <= 0:
            return []
        units = rate / 8 if self._rate == "throughput" else rate
        return [Reading(metric=cost_of(self._rate), value=self._used / units, params={})]


@contextmanager
def reading(pairs: Sequence[CpuTime], clients: Sequence[Process]) -> Iterator[None]:
    """The window of all ``pairs``. Raises MeasureError."""
    with ExitStack() as opened:
        every = children()
        known = []
        for pair, client in zip(pairs, clients, strict=True):
            if (clocks := pair.clocks(client, every)) is not None:
                opened.callback(clocks.close)
                known.append((pair, client, clocks, clocks.read()[0], time.monotonic_ns()))
        yield
        for pair, client, clocks, before, began in known:
            used, taken = clocks.read()[0] - before, time.monotonic_ns() - began
            if client.poll() is None:  # of one that has ended the clock is gone
                pair.used(used / taken)
