"""What a collector is: something read while a workload runs, between the two ends of a window.

Each collector is one file in collectors/ whose ``PROVIDER`` is an instance of a subclass.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from cnibench.errors import UnsupportedError
from cnibench.model.cell import Window
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.testbed.capability import Capability
from cnibench.testbed.cluster import Cluster


@dataclass(frozen=True)
class Turns:
    """When a cell was driven, in ns of CLOCK_MONOTONIC, and the packets and bytes that its client's
    Pod sent in that time.
    """

    windows: Sequence[tuple[int, int]]
    packets: int
    bytes: int


class Collector(abc.ABC):
    """What is read. ``windows`` says in which kind of window it runs (``speed`` windows are free of
    perf).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    tools: ClassVar[
        Mapping[str, str]
    ] = {}  # programs that it needs, and the Debian package that has each
    needs: ClassVar[tuple[type[Capability], ...]] = ()  # that deployments must have for it
    windows: ClassVar[tuple[Window, ...]] = ("speed", "cpp")
    of_pair: ClassVar[bool] = (
        # False: of whole machines, read once where several pairs are measured at the same time
        True
    )
    cycles: ClassVar[bool] = (
        False  # is it what cpp windows are there for? without it there are none
    )

    def missing(self, cluster: Cluster) -> str:
        """Why it cannot work here ('' when it can); the run goes on without it and says so."""
        return ""

    def prepare(self, s: SampleContext) -> AbstractContextManager[None]:
        """Entered before the client starts and left after it ended: what takes time to start, so
        that the window is left whole.
        """
        return nullcontext()

    def rounds(
        self, samples: Sequence[SampleContext], seconds: float
    ) -> AbstractContextManager[Callable[[SampleContext, Turns, Measurements], None]]:
        """Entered around rounds of slices that take about ``seconds``, where ``cycles``. What it
        gives is called after the last round, still inside, for each sample with its turns, and adds
        what it found. Raises UnsupportedError where it reads windows only.
        """
        raise UnsupportedError(f"{self.name} cannot read slices", "use --method windows")

    @abc.abstractmethod
    def observe(self, s: SampleContext, into: Measurements) -> AbstractContextManager[None]:
        """Reads at the block's beginning and end and adds what it found to ``into``. Raises
        MeasureError.
        """
