"""The loads of rounds of slices: netperf's request/response tests and UDP stream, iperf3 for TCP
streams, and ab.

These go on unharmed after they were stopped and continued. netperf TCP_STREAM does not: its send()
returns a short count then, which it takes for the end of the test (docs/adr/0009-slices.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from cnibench.run.sample_context import SampleContext
from cnibench.run.slices.load import Load
from cnibench.run.slices.readings.counters import Counted
from cnibench.system.process import Process
from cnibench.workloads import _common, _iperf3, _netperf

_LARGEST = 1 << 20  # bytes: iperf3's MAX_BLOCKSIZE


class _OfNetperf(Load):
    ports = _netperf.Netperf.ports

    def __init__(self, workload: _netperf.Netperf) -> None:
        self._workload = workload

    def serve(self, s: SampleContext) -> AbstractContextManager[None]:
        return self._workload.serve(s)

    def start(self, s: SampleContext) -> Process:
        return self._workload.start(s)

    def data_port(self, s: SampleContext) -> int:
        return self._workload.data_port(s)


class Transactions(_OfNetperf):
    """A netperf test whose client receives each response on one connection."""

    metric = "transaction_rate"
    per = "cpu_per_transaction"

    def counter(self, s: SampleContext) -> Counted:
        return Counted("connections", (_netperf.control_port(s) + 1, s.cell.ip, "received", 1))

    def units(self, count: float, s: SampleContext) -> float:
        return count / int(s.cell.params["response"])


class NewConnections(Transactions):
    """A netperf test that makes a connection for each transaction."""

    def counter(self, s: SampleContext) -> Counted:
        return Counted("opened", (_netperf.control_port(s) + 1, s.cell.ip))

    def units(self, count: float, s: SampleContext) -> float:
        return count


class Datagrams(_OfNetperf):
    """A netperf test that sends datagrams; those that the server's program has received count."""

    at_server = True
    metric = "throughput"
    per = "cpu_per_byte"

    def counter(self, s: SampleContext) -> Counted:
        return Counted("namespace", ("Udp", "InDatagrams", s.cell.ip))

    def units(self, count: float, s: SampleContext) -> float:
        return count * int(s.cell.params["message"])


class Stream(Load):
    """iperf3's TCP streams from client to server; what the server's kernel has acknowledged counts.

    ``message`` is the most that one write has; iperf3 takes up to 1 MiB.
    """

    metric = "throughput"
    per = "cpu_per_byte"
    ports = _iperf3.Iperf3.ports

    def __init__(self, workload: _iperf3.Iperf3, message: int, streams: int = 1) -> None:
        self._workload, self._streams = workload, streams
        self._asked, self._message = message, min(message, _LARGEST)

    def serve(self, s: SampleContext) -> AbstractContextManager[None]:
        return self._workload.serve(s)

    def start(self, s: SampleContext) -> Process:
        argv = [
            *_iperf3.client(s, s.duration, _iperf3.port(s)),
            "-i",
            "0",
            *(["-C", s.ask_for] if s.ask_for else []),
            "-P",
            str(self._streams),
            "-l",
            str(self._message),
        ]
        return _common.start(s, argv)

    def data_port(self, s: SampleContext) -> int:
        return _iperf3.port(s)

    def counter(self, s: SampleContext) -> Counted:
        """The control connection goes to the same port; it sends nothing meanwhile."""
        return Counted("connections", (_iperf3.port(s), s.cell.ip, "acked", 1 + self._streams, 1))

    def units(self, count: float, s: SampleContext) -> float:
        return count

    def params(self) -> dict[str, Any]:
        return {} if self._message == self._asked else {"message": self._message}

    def window(self, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return "iperf3-tcp", {"streams": self._streams, "message": self._message}
