"""A long TCP stream sampled over time: does its throughput hold, drift, or jump?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cnibench.errors import MeasureError
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements
from cnibench.workloads import _iperf3


class Params(Strict):
    """``interval`` between two points in s; iperf3 takes 0.1 to 60."""

    interval: float = Field(default=1.0, ge=0.1, le=60, allow_inf_nan=False)


class TcpStreamSeries(_iperf3.Iperf3):
    name = "tcp-stream-series"
    title = "TCP stream over time (iperf3)"
    Params = Params
    primary = "throughput"

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        return 12.5e9 * duration  # a 100 Gbit/s link

    def intervals(self, params: Mapping[str, Any]) -> str:
        return f"{params['interval']:g}"

    def interpret(self, report: _iperf3.Report, params: Mapping[str, Any]) -> Measurements:
        """``throughput`` over the whole time; the points as one record of series.jsonl (times in s
        after the start, values in bit/s).
        """
        if not report.times:
            raise MeasureError("iperf3 reported no intervals")
        found = Measurements()
        found.add("throughput", report.forward)
        found.records.append(
            (
                "series",
                {
                    "metric": "throughput",
                    "unit": "bit/s",
                    "times": list(report.times),
                    "values": list(report.rates),
                },
            )
        )
        return found


PROVIDER = TcpStreamSeries()
