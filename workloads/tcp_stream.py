"""netperf TCP_STREAM: bulk data from client to server over one connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnibench.model.cell import Cell
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements
from cnibench.run.slices.load import Load
from cnibench.workloads import _iperf3, _netperf, _slices
from cnibench.workloads._common import Size

_FASTEST = 12.5e9  # bytes/s of a 100 Gbit/s link: a bound for --dry-run


class Params(Strict):
    """``message``: bytes of one send; 4 MiB is what qi2021 used."""

    message: Size = 4 << 20


class TcpStream(_netperf.Netperf):
    name = "tcp-stream"
    title = "netperf TCP_STREAM"
    Params = Params
    slices_noise = 0.02  # docs/adr/0012-shorter-blocks.md
    primary = "throughput"
    test = "TCP_STREAM"
    selectors = (
        "LOCAL_SEND_SIZE",
        "REMOTE_RECV_THROUGHPUT",
        "LOCAL_TRANSPORT_RETRANS",
        "LOCAL_CONG_CONTROL",
    )

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        return ["-m", str(params["message"])]

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        return _FASTEST * duration

    def load(self, cell: Cell) -> Load:
        """iperf3's: netperf takes the short send() after a stop for the end of its test."""
        return _slices.Stream(_iperf3.Iperf3(), int(cell.params["message"]))

    def interpret(self, values: Mapping[str, float | str]) -> Measurements:
        """Throughput is what the server received, as netperf's own figure is."""
        found = Measurements()
        found.add("throughput", _netperf.megabits(values, "REMOTE_RECV_THROUGHPUT"))
        return found


PROVIDER = TcpStream()
