"""iperf3 over TCP: parallel streams, one way or both at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cnibench.errors import MeasureError, UnsupportedError
from cnibench.model.cell import Cell
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements
from cnibench.run.slices.load import Load
from cnibench.workloads import _iperf3, _slices
from cnibench.workloads._common import Size

_FASTEST = 12.5e9  # bytes/s of a 100 Gbit/s link: a bound for --dry-run


class Params(Strict):
    """``streams`` connections (iperf3 takes 128 at most), ``message`` bytes a send,
    ``bidirectional``: both ways at once.

    ``window``: socket buffer in bytes; 0 leaves it to the kernel's autotuning, which is what
    applications have.
    """

    streams: int = Field(default=1, ge=1, le=128)
    bidirectional: bool = False
    message: Size = 128 << 10
    window: int = Field(default=0, ge=0, le=1 << 29)


class Iperf3Tcp(_iperf3.Iperf3):
    name = "iperf3-tcp"
    title = "iperf3 TCP"
    Params = Params
    slices_noise = 0.02  # docs/adr/0012-shorter-blocks.md
    primary = "throughput"

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        return _FASTEST * duration * (2 if params["bidirectional"] else 1)

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        return [
            "-P",
            str(params["streams"]),
            "-l",
            str(params["message"]),
            *(["-w", str(params["window"])] if params["window"] else []),
            *(["--bidir"] if params["bidirectional"] else []),
        ]

    def load(self, cell: Cell) -> Load:
        params = cell.params
        if params["bidirectional"] or params["window"]:
            raise UnsupportedError(
                "the acknowledged bytes of one direction, with buffers that the kernel tunes, are"
                " what slices count"
            )
        return _slices.Stream(self, params["message"], params["streams"])

    def interpret(self, report: _iperf3.Report, params: Mapping[str, Any]) -> Measurements:
        """``throughput`` of all streams and both directions; of each direction, too, when there are
        two.
        """
        directions = 2 if params["bidirectional"] else 1
        if report.streams != params["streams"] * directions:
            raise MeasureError(
                f"iperf3 ended with {report.streams} streams, {params['streams'] * directions} were"
                " asked for"
            )
        found = Measurements()
        found.add("throughput", report.forward + report.reverse)
        if params["bidirectional"]:
            found.add("throughput", report.forward, direction="forward")
            found.add("throughput", report.reverse, direction="reverse")
        return found


PROVIDER = Iperf3Tcp()
