"""netperf beside background load (qi2021, "Scale"): the pair is measured apart from the load, which
is checked at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from pydantic import Field

from cnibench.model.cell import Cell
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.system.process import Process
from cnibench.testbed.capabilities.pods.extra import ExtraPods
from cnibench.workloads import _load, _netperf, tcp_rr, tcp_stream
from cnibench.workloads._common import Rate

_QI2021 = {"intra": 50e6, "inter": 10e6}  # bit/s of one connection


class LoadParams(tcp_rr.Params):
    """``connections`` in the background (0: none), over ``pods`` pairs of Pods (0: as qi2021, up to
    49 intra and 99 inter).

    ``rate`` in bit/s of each (0: as qi2021, 50 Mbit/s intra and 10 Mbit/s inter).
    """

    connections: int = Field(default=10, ge=0, le=20_000)
    pods: int = Field(default=0, ge=0, le=1000)
    rate: Rate = 0.0


class StreamParams(tcp_stream.Params):
    """As LoadParams."""

    connections: int = Field(default=10, ge=0, le=20_000)
    pods: int = Field(default=0, ge=0, le=1000)
    rate: Rate = 0.0


class UnderLoad(Workload):
    """A netperf workload with load beside it."""

    inner: ClassVar[_netperf.Netperf]
    tools = {**_netperf.Netperf.tools, "iperf3": "iperf3"}
    ports = (*_netperf.Netperf.ports, _load.PORT, _load.SHARED_PORT)
    alone = False
    several = False
    needs = (ExtraPods,)

    def __init__(self) -> None:
        self._background: _load.Running | None = None

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        beside = (
            float(params["connections"] * (params["rate"] or max(_QI2021.values()))) / 8 * duration
        )
        return self.inner.bytes(params, duration) + beside

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        with self.inner.serve(s):
            if not s.cell.params["connections"]:
                yield
                return
            with _load.running(s, load(s)) as self._background:
                try:
                    yield
                finally:
                    self._background = None

    def data_port(self, s: SampleContext) -> int:
        return self.inner.data_port(s)

    def warm_up(self, s: SampleContext) -> None:
        self.inner.warm_up(s)

    def start(self, s: SampleContext) -> Process:
        if self._background is not None:
            _load.mark(s, self._background)
        return self.inner.start(s)

    def kept_pods(self, cell: Cell) -> int:
        return 2 * _load.pairs(cell.params["connections"], cell.placement, cell.params["pods"])

    def measurements(self, s: SampleContext) -> Measurements:
        """The pair's figures, and a record of the load: what was asked for and what it truly sent
        (bit/s, all connections).
        """
        found = self.inner.measurements(s)
        if self._background is not None:
            self._background.check()
            asked = self._background.load
            found.records.append(
                (
                    "background",
                    {
                        "connections": asked.connections,
                        "pairs": asked.pairs,
                        "asked": asked.connections * asked.rate,
                        "achieved": _load.achieved(s, self._background),
                    },
                )
            )
        return found


def load(s: SampleContext) -> _load.Load:
    """The load that this cell asks for."""
    params = s.cell.params
    pairs = _load.most_pairs(params["connections"], s.cell.placement, params["pods"])
    return _load.Load(params["connections"], pairs, params["rate"] or _QI2021[s.cell.placement])


class TcpRrUnderLoad(UnderLoad):
    name = "tcp-rr-under-load"
    title = "netperf TCP_RR under background load"
    Params = LoadParams
    primary = tcp_rr.PROVIDER.primary
    inner = tcp_rr.PROVIDER


class TcpStreamUnderLoad(UnderLoad):
    name = "tcp-stream-under-load"
    title = "netperf TCP_STREAM under background load"
    Params = StreamParams
    primary = tcp_stream.PROVIDER.primary
    inner = tcp_stream.PROVIDER


PROVIDER = (TcpRrUnderLoad(), TcpStreamUnderLoad())
