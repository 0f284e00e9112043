"""A collector: how long the machine is up when a window begins, as a record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements, SampleContext


class Uptime(Collector):
    name = "uptime"
    title = "uptime of the machine"

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        into.records.append(
            ("uptime", {"seconds": float(Path("/proc/uptime").read_text().split()[0])})
        )
        yield


PROVIDER = Uptime()
