"""Round trips of one byte on one TCP connection, each timed: latency percentiles in steps of 10 ns.

netperf's percentiles are whole microseconds, 5 % of a round trip of 20 us. The client and the
server here are Python programs, which add about 1 us to each round trip; the rate is therefore not
reported, tcp-rr measures it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

from pydantic import Field

from cnibench.errors import MeasureError
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.system.process import Process
from cnibench.workloads import _common
from cnibench.workloads._common import Size

PORT = 5461
_STEP = 10  # ns
_LONGEST = 1 << 40  # ns: no round trip within a window takes longer
_FEWEST = 100  # round trips that a 99th percentile needs

_TALK = """
import socket, sys
def prepare(one):
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if control:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
address, port, size, control = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
"""
_SERVE = (
    _TALK
    + """
answer = bytes(size)
listener = socket.create_server((address, port), family=family)
while True:
    with listener.accept()[0] as one:
        prepare(one)
        try:
            while one.recv(size, socket.MSG_WAITALL):
                one.sendall(answer)
        except OSError:
            pass
"""
)
# The times are counted in steps: a list of all of them would grow with the window.
_CLIENT = (
    _TALK
    + """
import json, time
seconds, step, clock = float(sys.argv[5]), int(sys.argv[6]), time.perf_counter_ns
counts, request, whole = {}, bytes(size), socket.MSG_WAITALL
with socket.socket(family) as one:
    prepare(one)
    one.settimeout(10)
    one.connect((address, port))
    one.settimeout(None)
    send, recv, get = one.send, one.recv, counts.get
    end = clock() + int(seconds * 1e9)
    total, now = 0, 0
    while now < end:
        began = clock()
        send(request)
        answer = recv(size, whole)
        now = clock()
        if len(answer) != size:
            sys.exit("the server closed the connection")
        total += now - began
        bucket = (now - began) // step
        counts[bucket] = get(bucket, 0) + 1
print(json.dumps({"total": total, "counts": sorted(counts.items())}))
"""
)


class Params(Strict):
    """``size``: bytes of a request, and of a response."""

    size: Size = Field(default=1, le=1 << 20)


class TcpLatency(Workload):
    """A client and a server of our own."""

    name = "tcp-latency"
    title = "round trips of one TCP connection, each timed"
    tools = {}
    ports = (PORT,)
    Params = Params
    primary = "latency_p50"
    cpp = False  # the Python programs' cycles would be in it

    def data_port(self, s: SampleContext) -> int:
        return _port(s)

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        argv = [s.server.python, "-I", "-S", "-c", _SERVE, s.listen, *_same(s)]
        with _common.serving(s, argv, _port(s)):
            yield

    def warm_up(self, s: SampleContext) -> None:
        if s.warmup > 0:
            _common.warm(s, _client(s, s.warmup))

    def start(self, s: SampleContext) -> Process:
        return _common.start(s, _client(s, s.duration))

    def measurements(self, s: SampleContext) -> Measurements:
        return parse(*_common.outputs(s))


def parse(text: str, errors: str) -> Measurements:
    """The client's counts of round trips by their time, as metrics and a curve. Raises
    MeasureError.
    """
    try:
        document = json.loads(text)
        rows = [(int(bucket), int(count)) for bucket, count in document["counts"]]
        total = _common.figure(document["total"], "the time of all round trips")
    except (ValueError, TypeError, KeyError):
        said = _common.tail(errors) or _common.tail(text) or "no output"
        raise MeasureError(f"the client of tcp-latency failed: {said}") from None
    buckets, numbers = [row[0] for row in rows], [row[1] for row in rows]
    trips = sum(numbers)
    if trips < _FEWEST:
        raise MeasureError(
            f"the client made {trips} round trips, too few for percentiles",
            "measure for longer with --duration",
        )
    rising = all(a < b for a, b in pairwise(buckets))
    if not rising or min(numbers) < 1 or buckets[0] < 0 or buckets[-1] > _LONGEST // _STEP:
        raise MeasureError("the client's times of round trips are not possible")
    below = list(accumulate(numbers))
    shares = [percent / 100 for percent in range(101)]
    values = [_at(share * (trips - 1), buckets, below) for share in shares]
    found = Measurements()
    found.add("latency_mean", total / trips * 1e-9)
    for percent in (50, 90, 99):
        found.add(f"latency_p{percent}", values[percent])
    curve = {"metric": "latency", "unit": "s", "shares": shares, "values": values}
    found.records.append(("cdf", {**curve, "failed": 0}))
    return found


def _at(rank: float, buckets: list[int], below: list[int]) -> float:
    """The time in s of the round trip of that rank, the middle of its step."""
    which = next(number for number, count in enumerate(below) if count > int(rank))
    return (buckets[which] + 0.5) * _STEP * 1e-9


def _port(s: SampleContext) -> int:
    return s.port(PORT + s.cell.pair)


def _same(s: SampleContext) -> list[str]:
    """Arguments that both ends have."""
    params: Mapping[str, Any] = s.cell.params
    return [str(_port(s)), str(params["size"]), s.ask_for]


def _client(s: SampleContext, seconds: float) -> list[str]:
    argv = [s.client.python, "-I", "-S", "-c", _CLIENT, s.target, *_same(s)]
    return [*argv, str(seconds), str(_STEP)]


PROVIDER = TcpLatency()
