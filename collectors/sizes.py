"""Mean sizes of super-packets on the path: at the Pod's device, the tunnel and the wire, from the
devices' counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cnibench.collectors import _counters
from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.testbed.capabilities.node_devices import NodeDevices
from cnibench.testbed.place import Place


class Sizes(Collector):
    name = "sizes"
    needs = (NodeDevices,)
    title = (
        "mean size of the packets that each device of the path carries (super-packets count as one)"
    )

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        """Adds one ``sizes`` record a device and direction: {device, node, at, direction, packets,
        bytes, mean}; with link headers.
        """
        points = path(s)
        before = [
            _counters.devices(place.read_text("/proc/net/dev")).get(device)
            for _, place, device in points
        ]
        yield
        for (at, place, device), then in zip(points, before, strict=True):
            now = _counters.devices(place.read_text("/proc/net/dev")).get(device)
            if then is None or now is None:
                continue
            for direction, key in (("sent", "tx"), ("received", "rx")):
                into.records.append(
                    ("sizes", _mean(then, now, key, at, device, place.name, direction))
                )


def _mean(
    then: dict[str, int],
    now: dict[str, int],
    key: str,
    at: str,
    device: str,
    node: str,
    direction: str,
) -> dict[str, Any]:
    packets = _counters.grown(then, now, f"{key}_packets", f"{device} of {node}")
    size = _counters.grown(then, now, f"{key}_bytes", f"{device} of {node}")
    mean = size / packets if packets else None
    return {
        "device": device,
        "node": node,
        "at": at,
        "direction": direction,
        "packets": packets,
        "bytes": size,
        "mean": mean,
    }


def path(s: SampleContext) -> list[tuple[str, Place, str]]:
    """(what it is, where, device) on the client's side: the Pod's device, and between nodes the
    tunnel and the wire.
    """
    found: list[tuple[str, Place, str]] = []
    if s.client.interface:
        found.append(("pod", s.client, s.client.interface))
    if s.cell.placement == "inter":
        node = s.client.node
        devices = NodeDevices.of(s.deployment)
        if tunnel := devices.tunnel_on(node, s.cell.ip):
            found.append(("tunnel", node, tunnel))
        if wire := devices.underlay().get(node.name):
            found.append(("wire", node, wire))
    return found


PROVIDER = Sizes()
