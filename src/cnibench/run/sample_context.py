"""What a workload and a collector are given for one cell in one block, and what they hand back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnibench.model.cell import Cell, Reading
from cnibench.testbed.capabilities.cni_processes import CniProcesses
from cnibench.testbed.capabilities.service_paths import ServicePaths
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Pod


@dataclass(frozen=True)
class SampleContext:
    """One cell about to be measured. ``duration`` and ``warmup`` in seconds; ``raw`` is the folder
    for all raw output of this sample.
    """

    cell: Cell
    block: int
    deployment: Deployment
    client: Pod
    server: Pod
    duration: float
    warmup: float
    raw: Path
    client_cpu: int | None  # CPU that the client is pinned to; None: not pinned
    server_cpu: int | None
    congestion_control: str = ""  # that a TCP connection must have; '': any
    turns: float = 0.0  # s of all slices of its load in a block, lead-ins included

    @property
    def ask_for(self) -> str:
        """The congestion control that a program has to ask for; '': it gets the right one by
        itself, as in the lab, where the routes of the Pods name it.
        """
        return "" if self.client.of_lab else self.congestion_control

    @property
    def target(self) -> str:
        """The address that the client connects to."""
        return (
            self.listen
            if self.cell.path == "pod"
            else ServicePaths.of(self.deployment).address(self.cell, self.server)
        )

    @property
    def listen(self) -> str:
        """The address that the server listens on: its own."""
        return self.server.addresses[self.cell.ip]

    def port(self, number: int) -> int:
        """The port that both use on this cell's path, instead of ``number``."""
        if self.cell.path == "pod":
            return number
        return ServicePaths.of(self.deployment).port(self.cell, self.server, number)

    @property
    def daemons(self) -> list[int]:
        """The programs on this machine through which the packets of its datapath pass. Of a cluster
        none: its agents are its own.
        """
        if not isinstance(self.deployment, CniProcesses) or not self.client.of_lab:
            return []
        return [pid for pid in (self.deployment.processes() or {}).values() if isinstance(pid, int)]

    def on_client(self, argv: Sequence[str]) -> list[str]:
        """``argv`` pinned as this cell says."""
        return _pinned(self.client_cpu, argv)

    def on_server(self, argv: Sequence[str]) -> list[str]:
        return _pinned(self.server_cpu, argv)


def _pinned(cpu: int | None, argv: Sequence[str]) -> list[str]:
    return list(argv) if cpu is None else ["taskset", "-c", str(cpu), *argv]


@dataclass
class Measurements:
    """What was found in one window: readings (figures of the closed set of metrics), and records.

    ``records`` are (file, line) pairs: the store appends each line, with the sample's coordinates,
    to FILE.jsonl of the run directory. Known files: cpp (see collectors/perf.py), sizes (histograms
    of packet lengths), cdf (latency distributions), series (values over time), rulepath, pods,
    stalls (what was stopped, see stalls.py).
    """

    readings: list[Reading] = field(default_factory=list)
    records: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, metric: str, value: float, **params: Any) -> None:
        self.readings.append(Reading(metric=metric, value=value, params=params))
