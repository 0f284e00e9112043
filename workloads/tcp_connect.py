"""TCP connections opened one after the other and closed at once: the time from a SYN to the answer
to it, which is the way of a connection's first packet, there and back.

What a packet filter or an implementation of Services does for each connection is in it; programs
and data are not. netperf's TCP_CRR measures both together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import Field

from cnibench.errors import MeasureError
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.system.process import Process
from cnibench.workloads import _common

PORT = 5411
_PER_PAIR = 2
_SLOWEST = 5.0  # s for one connection

# The client closes by RST, and the server waits for it: no port stays in TIME_WAIT.
_SERVE = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family, backlog=1024)
while True:
    try:
        with listener.accept()[0] as one:
            one.settimeout(5)
            one.recv(1)
    except OSError:
        pass
"""
_CONNECT = """
import json, socket, struct, sys, time
target, port, count, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
family = socket.AF_INET6 if ":" in target else socket.AF_INET
linger, clock, found = struct.pack("ii", 1, 0), time.perf_counter_ns, []
for _ in range(count):
    one = socket.socket(family, socket.SOCK_STREAM)
    one.settimeout(limit)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    began = clock()
    one.connect((target, port))
    found.append(clock() - began)
    one.close()
print(json.dumps(found))
"""


class Params(Strict):
    """``connections`` are opened one after the other."""

    connections: int = Field(default=1000, ge=20, le=20_000)


class TcpConnect(Workload):
    """A client and a server of our own."""

    name = "tcp-connect"
    title = "time from a SYN to the answer to it"
    tools = {}
    ports = (PORT,)
    Params = Params
    primary = "latency_p50"
    cpp = False
    counts = ("connections",)
    noise = 0.05  # of windows with so few connections; nobody published repeats of it

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        return 0.0005 * int(params["connections"]) + 0.3

    def longest(self, params: Mapping[str, Any], duration: float) -> float:
        return 30.0 + 0.01 * int(params["connections"])

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        port = _port(s)
        argv = [s.server.python, "-I", "-S", "-c", _SERVE, s.listen, str(port)]
        with _common.serving(s, argv, port):
            yield

    def warm_up(self, s: SampleContext) -> None:
        if s.warmup > 0:
            _common.warm(s, _client(s, 20))

    def start(self, s: SampleContext) -> Process:
        return _common.start(s, _client(s, int(s.cell.params["connections"])))

    def measurements(self, s: SampleContext) -> Measurements:
        return parse(*_common.outputs(s), int(s.cell.params["connections"]))


def parse(text: str, errors: str, count: int) -> Measurements:
    """The client's times in ns as metrics. Raises MeasureError."""
    try:
        values = sorted(float(value) for value in json.loads(text))
    except (ValueError, TypeError):
        said = _common.tail(errors) or _common.tail(text) or "no output"
        raise MeasureError(f"the client's connections failed: {said}") from None
    if len(values) != count or not 0 < values[0] <= values[-1] <= _SLOWEST * 2e9:
        raise MeasureError(f"the client reported {len(values)} of {count} connections")
    found = Measurements()
    found.add("latency_mean", sum(values) / count * 1e-9)
    for percent in (50, 90, 99):
        found.add(f"latency_p{percent}", values[(count - 1) * percent // 100] * 1e-9)
    return found


def _port(s: SampleContext) -> int:
    return s.port(PORT + _PER_PAIR * s.cell.pair)


def _client(s: SampleContext, count: int) -> list[str]:
    argv = [s.client.python, "-I", "-S", "-c", _CONNECT]
    return [*argv, s.target, str(_port(s)), str(count), str(_SLOWEST)]


PROVIDER = TcpConnect()
