"""netperf UDP_STREAM: datagrams as fast as the client can send them; what counts is what
arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cnibench.errors import MeasureError
from cnibench.model.cell import Cell
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements
from cnibench.run.slices.load import Load
from cnibench.workloads import _netperf, _slices
from cnibench.workloads._common import Size

_FASTEST = 12.5e9  # bytes/s of a 100 Gbit/s link: a bound for --dry-run


class Params(Strict):
    """``message``: bytes of one datagram.

    1024 by default: the same datagram in every profile, which no tunnel's overhead makes the stack
    fragment, on IPv6's smallest link (1280) neither. A datagram of the profile's own MTU would
    compare unequal work.
    """

    message: Size = Field(default=1024, le=65507)


class UdpStream(_netperf.Netperf):
    name = "udp-stream"
    title = "netperf UDP_STREAM"
    Params = Params
    primary = "throughput"
    transport = "udp"
    noise = 0.04  # single UDP streams in the same published repeats: 1.4 to 3.8 %
    test = "UDP_STREAM"
    selectors = (
        "LOCAL_SEND_SIZE",
        "LOCAL_SEND_THROUGHPUT",
        "REMOTE_RECV_THROUGHPUT",
        "LOCAL_SEND_CALLS",
        "REMOTE_RECV_CALLS",
    )

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        """``-R 1``: without it netperf sets SO_DONTROUTE, and no datagram leaves the Pod's own
        link.
        """
        return ["-m", str(params["message"]), "-R", "1"]

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        return _FASTEST * duration

    def load(self, cell: Cell) -> Load:
        return _slices.Datagrams(self)

    def interpret(self, values: Mapping[str, float | str]) -> Measurements:
        """``loss`` is the share of the sent datagrams that the server never received: nothing
        limits the sender.
        """
        sent, received = float(values["LOCAL_SEND_CALLS"]), float(values["REMOTE_RECV_CALLS"])
        if sent == 0 or received == 0:
            raise MeasureError(f"of {sent:.0f} datagrams {received:.0f} arrived")
        found = Measurements()
        found.add("throughput", _netperf.megabits(values, "REMOTE_RECV_THROUGHPUT"))
        found.add("loss", max(0.0, 1 - received / sent))
        return found


PROVIDER = UdpStream()
