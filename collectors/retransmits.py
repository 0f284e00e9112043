"""Retransmitted TCP segments of the client's Pod."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cnibench.collector import Collector
from cnibench.collectors import _counters
from cnibench.situation import Findings, Situation


class Retransmits(Collector):
    name = "retransmits"
    title = "retransmitted TCP segments of the client's Pod (RetransSegs of /proc/net/snmp)"
    windows = ("speed",)

    @contextmanager
    def observe(self, s: Situation, into: Findings) -> Iterator[None]:
        """Adds ``retransmits``; nothing for workloads without TCP."""
        if _counters.transport(s) != "tcp":
            yield
            return
        before = _counters.traffic(s.client, "tcp", s.cell.ip)
        yield
        after = _counters.traffic(s.client, "tcp", s.cell.ip)
        into.add("retransmits", _counters.grown(before, after, "retransmitted", s.client.name))


PROVIDER = Retransmits()
