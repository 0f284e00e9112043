"""A collector: how long the machine is up when a window begins, as a record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cnibench.collector import Collector
from cnibench.situation import Findings, Situation


class Uptime(Collector):
    name = "uptime"
    title = "uptime of the machine"

    @contextmanager
    def observe(self, s: Situation, into: Findings) -> Iterator[None]:
        into.records.append(("uptime", {"seconds": float(Path("/proc/uptime").read_text().split()[0])}))
        yield


PROVIDER = Uptime()
