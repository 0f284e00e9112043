"""Retransmitted TCP segments of the client's Pod."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cnibench.collectors import _counters
from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements, SampleContext


class Retransmits(Collector):
    name = "retransmits"
    title = "retransmitted TCP segments of the client's Pod (RetransSegs of /proc/net/snmp)"
    windows = ("speed",)

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        """Adds ``retransmits``; nothing for workloads without TCP."""
        if _counters.transport(s) != "tcp":
            yield
            return
        before = _counters.traffic(s.client, "tcp", s.cell.ip)
        yield
        after = _counters.traffic(s.client, "tcp", s.cell.ip)
        into.add("retransmits", _counters.grown(before, after, "retransmitted", s.client.name))


PROVIDER = Retransmits()
