"""What one feature is worth: the same TCP stream through the same tunnel with the feature on and
off, in random order in each block.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Literal

from cnibench.errors import ClusterError, UsageError
from cnibench.offload.change import leased
from cnibench.testbed.capabilities.node_devices import NodeDevices
from cnibench.testbed.deployment import Deployment

_BOTH = (True, False)


@dataclass(frozen=True)
class Stream:
    """What one measurement gave: ``throughput`` in bit/s, ``size`` the mean bytes of what the
    sender's wire device counts as a packet.
    """

    throughput: float
    size: float | None


@dataclass(frozen=True)
class Verified:
    """``on`` and ``off``: throughput in bit/s of each block, ``size_on`` and ``size_off`` the
    median sizes, None where they are unknown.
    ``ratio`` is the median of on / off with its interval, None where too few blocks give none.
    ``verdict``: ``faster`` or ``slower`` with the feature when the interval excludes 1."""

    feature: str
    devices: Mapping[str, str]
    on: list[float]
    off: list[float]
    size_on: float | None
    size_off: float | None
    ratio: float
    ci_low: float | None
    ci_high: float | None
    verdict: Literal["faster", "slower", "no-difference-found", "inconclusive"]


def verify(
    deployment: Deployment, feature: str, stream: Callable[[str], Stream], *, blocks: int, seed: int
) -> Verified:
    """``stream`` measures one TCP stream between nodes, named by its argument. The feature is
    changed on the devices of both nodes and restored at the end. Raises ClusterError, MeasureError.
    """
    devices = dict(NodeDevices.of(deployment).underlay())
    if not devices:
        raise ClusterError(
            "the devices between the nodes are not known here",
            "use a kind of cluster that names them",
        )
    if blocks < 1:
        raise UsageError("at least one block is needed", "give --blocks a number of 6 or more")
    order = random.Random(seed)
    values: dict[bool, list[Stream]] = {True: [], False: []}
    with ExitStack() as stack:
        leases = [
            stack.enter_context(leased(node, devices[node.name], {feature: True}))
            for node in deployment.nodes()
            if node.name in devices
        ]
        for block in range(blocks):
            for on in order.sample(_BOTH, 2):
                for lease in leases:
                    lease.set({feature: on})
                values[on].append(stream(f"{block}-{'on' if on else 'off'}"))
    return summary(feature, devices, values[True], values[False])


def summary(
    feature: str, devices: Mapping[str, str], on: Sequence[Stream], off: Sequence[Stream]
) -> Verified:
    """The paired comparison of figures by block; those of a block belong together."""
    import numpy as np

    from cnibench.stats.inference import median_interval

    rates = {
        name: [one.throughput for one in streams] for name, streams in (("on", on), ("off", off))
    }
    ratios = np.asarray(rates["on"], dtype=np.float64) / np.asarray(rates["off"], dtype=np.float64)
    interval = median_interval(ratios)
    verdict: Literal["faster", "slower", "no-difference-found", "inconclusive"] = (
        "no-difference-found"
    )
    if interval.low is None or interval.high is None:
        verdict = "inconclusive"
    elif interval.low > 1:
        verdict = "faster"
    elif interval.high < 1:
        verdict = "slower"
    return Verified(
        feature,
        devices,
        rates["on"],
        rates["off"],
        _size(on),
        _size(off),
        float(np.median(ratios)),
        interval.low,
        interval.high,
        verdict,
    )


def _size(streams: Sequence[Stream]) -> float | None:
    sizes = [one.size for one in streams if one.size is not None]
    return median(sizes) if sizes else None
