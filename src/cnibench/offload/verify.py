"""What one feature is worth: the same TCP stream through the same tunnel with the feature on and off, in random order in each block."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from cnibench.cluster import Standing
from cnibench.errors import ClusterError, UsageError
from cnibench.offload.change import leased

_BOTH = (True, False)


@dataclass(frozen=True)
class Verified:
    """``on`` and ``off``: throughput in bit/s of each block. ``ratio`` is the median of on / off with its interval, None where too few
    blocks give none. ``verdict``: ``faster`` or ``slower`` with the feature when the interval excludes 1."""

    feature: str
    devices: Mapping[str, str]
    on: list[float]
    off: list[float]
    ratio: float
    ci_low: float | None
    ci_high: float | None
    verdict: Literal["faster", "slower", "no-difference-found", "inconclusive"]


def verify(standing: Standing, feature: str, stream: Callable[[str], float], *, blocks: int, seed: int) -> Verified:
    """``stream`` measures one TCP stream between nodes, named by its argument, in bit/s. The feature is changed on the devices of both
    nodes and restored at the end. Raises ClusterError, MeasureError."""
    devices = dict(standing.underlay())
    if not devices:
        raise ClusterError("the devices between the nodes are not known here", "use a kind of cluster that names them")
    if blocks < 1:
        raise UsageError("at least one block is needed", "give --blocks a number of 6 or more")
    order = random.Random(seed)
    values: dict[bool, list[float]] = {True: [], False: []}
    with ExitStack() as stack:
        leases = [
            stack.enter_context(leased(node, devices[node.name], {feature: True})) for node in standing.nodes() if node.name in devices
        ]
        for block in range(blocks):
            for on in order.sample(_BOTH, 2):
                for lease in leases:
                    lease.set({feature: on})
                values[on].append(stream(f"{block}-{'on' if on else 'off'}"))
    return summary(feature, devices, values[True], values[False])


def summary(feature: str, devices: Mapping[str, str], on: list[float], off: list[float]) -> Verified:
    """The paired comparison of figures by block; those of a block belong together."""
    import numpy as np

    from cnibench.stats import median_interval

    ratios = np.asarray(on, dtype=np.float64) / np.asarray(off, dtype=np.float64)
    interval = median_interval(ratios)
    verdict: Literal["faster", "slower", "no-difference-found", "inconclusive"] = "no-difference-found"
    if interval.low is None or interval.high is None:
        verdict = "inconclusive"
    elif interval.low > 1:
        verdict = "faster"
    elif interval.high < 1:
        verdict = "slower"
    return Verified(feature, devices, on, off, float(np.median(ratios)), interval.low, interval.high, verdict)
