"""HTTP as in qi2021: ab (ApacheBench) fetches one file from nginx.

nginx runs from a configuration of its own in a scratch folder of the server's Pod (memory, where
there is some), one process, no access log, its one file of zeros sent by sendfile(2). ab goes on
after requests that failed (``-r``); when nothing at all arrives for
``timeout`` it ends, and with it the cell.

Request rate and throughput are those of the requests that were answered with the whole file. ab
keeps the latencies of all that it made: where some failed they are in the mean and the percentiles,
too, and ``failed`` of the record ``cdf`` says how many. qi2021 gives HTTP throughput in Gibit/s
(requests/s x 5 MiB: without headers); here it is the same in bit/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from pydantic import Field, model_validator

from cnibench.errors import ClusterError, MeasureError, UnsupportedError
from cnibench.model.cell import Cell
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.slices.load import Load
from cnibench.run.slices.readings.counters import Counted
from cnibench.run.workload import Workload
from cnibench.system.files import write_private
from cnibench.system.process import Process
from cnibench.testbed.place import Place
from cnibench.workloads import _ab, _common
from cnibench.workloads._common import Size

PORT = 8080
_RATE = 10e9  # bit/s: what a plan's time for a fixed number of requests is reckoned with
_SLOWEST = 1e9  # bit/s: with less, ab is ended
_START = 10.0  # s beyond its timeout that a single request may take
_SLICED = 64 << 10  # bytes: in a slice, many requests of this size are made
_LATE = 2  # times as long as its turns should be that ab may be running, on a busy machine

_CONF = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  sendfile on;
  keepalive_requests 1000000000;
  default_type application/octet-stream;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen {listen} backlog=4096; root {folder}; }}
}}
"""

# /run/cnibench is the lab's own memory, which nothing outlives; elsewhere the Pod's.
_SCRATCH = (
    "for d in /run/cnibench /dev/shm /tmp; do [ -d $d ] && [ -w $d ] && exec mktemp -d"
    " $d/cnibench-http.XXXXXX; done; exit 1"
)

# ab writes its percentiles only to a file: it follows the report on standard output.
_AB = (
    't=$(mktemp) || exit 1; trap "rm -f $t" EXIT; "$@" -e $t http://{target}/payload; r=$?; cat $t;'
    " exit $r"
)


class Params(Strict):
    """``payload`` bytes of the response (5 MiB in qi2021), ``concurrency`` requests at once,
    ``keepalive``: connections are reused.

    ``requests``: so many are made, however long it takes (500000 in qi2021); 0: as many as the
    cell's duration allows.
    ``timeout`` in s: ab gives up, and the cell fails, when nothing at all arrives on any of its
    connections for so long. It is no limit of a single request: one that stalls while others go on
    is waited for (``-s``, the limit of ab's poll of its sockets).
    """

    requests: int = Field(default=0, ge=0, le=100_000_000)
    payload: Size = 5 << 20
    concurrency: int = Field(default=1, ge=1, le=20_000)
    keepalive: bool = False
    timeout: int = Field(default=30, ge=1, le=3600)

    @model_validator(mode="after")
    def _enough_requests(self) -> Params:
        """ab refuses more at once than there are in all."""
        if 0 < self.requests < self.concurrency:
            raise ValueError(
                f"expected requests to be at least the concurrency {self.concurrency}, or 0 (by"
                f" time), got {self.requests}"
            )
        return self


class Http(Workload):
    name = "http"
    title = "HTTP (nginx, ab)"
    tools = {"nginx": "nginx-light", "ab": "apache2-utils"}
    ports = (PORT,)
    Params = Params
    primary = "request_rate"
    counts = ("requests",)
    at_least = {"requests": "concurrency"}

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        """A fixed number of requests takes what it takes; this reckons with 10 Gbit/s and 1 ms a
        request.
        """
        return warmup + (_taking(params, _RATE) or duration)

    def longest(self, params: Mapping[str, Any], duration: float) -> float:
        return 1.5 * max(_taking(params, _SLOWEST), duration)

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        return float(params["requests"] * params["payload"]) or 12.5e9 * duration

    def data_port(self, s: SampleContext) -> int:
        return port(s)

    def load(self, cell: Cell) -> Load:
        if cell.params["requests"]:
            raise UnsupportedError(
                "a fixed number of requests is one load from its start to its end"
            )
        if cell.params["keepalive"]:
            raise UnsupportedError("slices count the connections, and one has many requests")
        if cell.params["payload"] > _SLICED:
            raise UnsupportedError(
                f"a slice has too few requests of more than {_SLICED >> 10} KiB to be counted"
            )
        return Requests(self)

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        with _scratch(s.server) as folder:
            conf = _CONF.format(folder=folder, listen=_host(s, s.listen))
            write_private(s.raw / "nginx.conf", conf)
            _made(s.server, ["sh", "-c", f"cat > {folder}/nginx.conf"], conf)
            _made(
                s.server,
                ["sh", "-c", f"head -c {s.cell.params['payload']} /dev/zero > {folder}/payload"],
            )
            with _common.serving(
                s, ["nginx", "-p", folder, "-c", f"{folder}/nginx.conf", "-e", "stderr"], port(s)
            ):
                yield

    def warm_up(self, s: SampleContext) -> None:
        if s.warmup > 0:
            _common.warm(s, self.command(s, s.warmup, 0), end="TERM")

    def start(self, s: SampleContext) -> Process:
        return _common.start(s, self.command(s, s.duration, s.cell.params["requests"]))

    def command(self, s: SampleContext, duration: float, requests: int) -> list[str]:
        """ab for a fixed number of requests, or for so many seconds when that is 0."""
        params, seconds = s.cell.params, _common.whole_seconds(duration)
        by_time = [] if requests else ["-t", str(seconds)]
        ab = _ab.command(params, requests or _ab.most(seconds), *by_time)
        return ["sh", "-c", _AB.format(target=_host(s, s.target)), "sh", *ab]

    def measurements(self, s: SampleContext) -> Measurements:
        params = s.cell.params
        report = _ab.parse(*_common.outputs(s))
        _ab.check(report, params["requests"], _common.whole_seconds(s.duration), params["payload"])
        found = Measurements()
        found.add("request_rate", report.whole_rate)
        found.add("throughput", report.whole_rate * params["payload"] * 8)
        found.add("failed_requests", report.failed)
        found.add("latency_mean", report.mean)
        for percent in (50, 90, 99):
            found.add(f"latency_p{percent}", report.latencies[percent])
        shares = [percent / 100 for percent in range(101)]
        curve = {
            "metric": "latency",
            "unit": "s",
            "shares": shares,
            "values": list(report.latencies),
            "failed": report.failed,
        }
        found.records.append(("cdf", curve))
        values = {
            "complete": report.complete,
            "failed": report.failed,
            "not_ok": report.not_ok,
            "seconds": report.seconds,
            "connect": report.connect,
            "receive": report.receive,
            "length": report.length,
            "exceptions": report.exceptions,
        }
        found.records.append(("tools", {"tool": "ab", "test": "http", "values": values}))
        return found


class Requests(Load):
    """ab with a connection for each request; the connections count."""

    metric = "request_rate"
    per = "cpu_per_transaction"
    ports = Http.ports

    def __init__(self, workload: Http) -> None:
        self._workload = workload

    def serve(self, s: SampleContext) -> AbstractContextManager[None]:
        return self._workload.serve(s)

    def start(self, s: SampleContext) -> Process:
        url = f"http://{_host(s, s.target)}/payload"
        _prove(s, url)
        requests = _ab.most(math.ceil(_LATE * s.turns))
        return _common.start(s, [*_ab.command(s.cell.params, requests), url])

    def data_port(self, s: SampleContext) -> int:
        return port(s)

    def counter(self, s: SampleContext) -> Counted:
        return Counted("opened", (port(s), s.cell.ip))

    def units(self, count: float, s: SampleContext) -> float:
        return count


def _prove(s: SampleContext, url: str) -> None:
    """One request is answered with the file: connections do not tell, and nobody reads the report
    of an ab that is ended. Raises MeasureError.
    """
    params = {**s.cell.params, "concurrency": 1}
    argv = s.on_client([*_ab.command(params, 1), url])
    done = s.client.run(argv, timeout=params["timeout"] + _START, check=False)
    report = _ab.parse(done.stdout, done.stderr)
    if report.failed or report.document != params["payload"]:
        raise MeasureError(
            f"ab got {report.document:.0f} bytes of the file, which has {params['payload']}"
            + (", and no success (2xx)" if report.not_ok else ""),
            "does something between client and server answer in its place?",
        )


def _taking(params: Mapping[str, Any], rate: float) -> float:
    """Seconds for a fixed number of requests at ``rate`` bit/s and 1 ms each, 0 for a run by
    time.
    """
    return float(params["requests"] * (params["payload"] * 8 / rate + 1e-3))


def port(s: SampleContext) -> int:
    """Pairs whose Pods share a node's namespace need ports of their own."""
    return s.port(PORT + s.cell.pair)


def _host(s: SampleContext, address: str) -> str:
    return f"[{address}]:{port(s)}" if s.cell.ip == 6 else f"{address}:{port(s)}"


@contextmanager
def _scratch(place: Place) -> Iterator[str]:
    folder = _made(place, ["sh", "-c", _SCRATCH]).strip()
    try:
        yield folder
    finally:
        place.run(["rm", "-rf", folder], timeout=20, check=False)


def _made(place: Place, argv: list[str], text: str | None = None) -> str:
    try:
        return place.run(argv, timeout=60, input=text).stdout
    except ClusterError as error:
        raise MeasureError(
            f"{place.name}: the HTTP server's files cannot be made: {error.message}",
            "is its memory or disk full?",
        ) from None


PROVIDER = Http()
