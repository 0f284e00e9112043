"""Packets: TCP segments or UDP datagrams of the client's Pod, and packets of its device.

N_packet of qi2021 is "packets sent". Here it is what the client's Pod sent: the data from client to
server, which is the direction that all stream workloads drive; a request/response workload sends
about as many the other way, and those are reported as received.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cnibench.collectors import _counters
from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements, SampleContext


class Packets(Collector):
    name = "packets"
    title = (
        "TCP segments or UDP datagrams of the client's Pod, and packets of its device, in the"
        " window"
    )

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        """Adds ``packets`` (direction sent|received: counted by the transport; device: by the Pod's
        device, fragments each).
        """
        kind = _counters.transport(s)
        before = _counters.traffic(s.client, kind, s.cell.ip)
        device = _counters.devices(s.client.read_text("/proc/net/dev")).get(s.client.interface)
        yield
        after = _counters.traffic(s.client, kind, s.cell.ip)
        for direction in ("sent", "received"):
            into.add(
                "packets",
                _counters.grown(before, after, direction, s.client.name),
                direction=direction,
            )
        if device is not None:
            now = _counters.devices(s.client.read_text("/proc/net/dev")).get(s.client.interface, {})
            count = _counters.grown(
                device, now, "tx_packets", f"{s.client.interface} of {s.client.name}"
            )
            into.add("packets", count, direction="sent", device=s.client.interface)


PROVIDER = Packets()
