"""iperf3 over UDP at a fixed rate: the share of the datagrams that is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cnibench.errors import MeasureError
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements
from cnibench.workloads import _iperf3
from cnibench.workloads._common import Rate, Size


class Params(Strict):
    """``rate`` in bit/s of payload (0: as fast as it can), ``message`` bytes a datagram: 1024 fits
    every tunnel, as in udp-stream.
    """

    rate: Rate = 100e6
    message: Size = Field(default=1024, ge=16, le=65507)


class Iperf3Udp(_iperf3.Iperf3):
    name = "iperf3-udp"
    title = "iperf3 UDP at a fixed rate"
    Params = Params
    primary = (  # received: a loss is 0 on most paths, and no ratio of zeros can be tested
        "throughput"
    )
    transport = "udp"
    noise = 0.04  # as of udp-stream

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        return (params["rate"] or 100e9) / 8 * duration

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        return [
            "-u",
            "--udp-counters-64bit",
            "-b",
            f"{params['rate']:.0f}",
            "-l",
            str(params["message"]),
        ]

    def interpret(self, report: _iperf3.Report, params: Mapping[str, Any]) -> Measurements:
        """``throughput`` is what was received. A sender that never came near its rate would make
        any path look free of loss: refused.
        """
        if report.datagrams == 0 or report.lost > report.datagrams:
            raise MeasureError(f"iperf3 lost {report.lost} of {report.datagrams} datagrams")
        sent = report.datagrams * params["message"] * 8 / report.seconds
        if params["rate"] and sent < 0.9 * params["rate"]:
            raise MeasureError(
                f"iperf3 sent {sent:.3g} bit/s of {params['rate']:.3g}",
                "ask for a lower rate, or free the client's CPU",
            )
        found = Measurements()
        found.add("throughput", report.forward)
        found.add("loss", report.lost / report.datagrams)
        return found


PROVIDER = Iperf3Udp()
