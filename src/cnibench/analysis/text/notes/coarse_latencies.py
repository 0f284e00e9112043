"""Latency percentiles that are too coarse for what they measure."""

from __future__ import annotations

from collections.abc import Iterable

from cnibench.analysis.comparison.contexts import Context

_STEP = 1e-6  # s: that of netperf's histogram
_COARSE = 0.05  # of a value: a step of that share hides what profiles differ by


def coarse_latencies(contexts: Iterable[Context]) -> list[str]:
    """A note where all percentiles of a workload are whole microseconds, and a microsecond is a
    twentieth of one of them or more.
    """
    values: dict[str, list[float]] = {}
    for one in contexts:
        if one.where["metric"].startswith("latency_p"):
            of_workload = values.setdefault(one.where["workload"], [])
            of_workload += [v for member in one.members.values() for v in member.values.values()]
    return [
        f"{workload}: latency percentiles are whole microseconds, up to"
        f" {min(100.0, 100 * _STEP / min(found)):.0f} % of their values;"
        " --workload tcp-latency has steps of 10 ns"
        for workload, found in values.items()
        if found and 0 < min(found) <= _STEP / _COARSE and all(map(_whole, found))
    ]


def _whole(seconds: float) -> bool:
    steps = seconds / _STEP
    return abs(steps - round(steps)) < 1e-6
