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

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import Field, model_validator

from cnibench.errors import ClusterError, MeasureError
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.system.process import Process
from cnibench.testbed.place import Place
from cnibench.workloads import _common
from cnibench.workloads._common import Size

PORT = 8080
# Requests that a run by time may make. ab, which has one thread, makes fewer a second than that; it
# keeps 40 bytes for each (struct data of
# support/ab.c), which take memory only once they are used, but are refused when they are more than
# the machine has.
_FASTEST, _LEAST, _MOST = 100_000, 2_000_000, 100_000_000
_RATE = 10e9  # bit/s: what a plan's time for a fixed number of requests is reckoned with
_SLOWEST = 1e9  # bit/s: with less, ab is ended

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


@dataclass(frozen=True)
class Report:
    """ab's report. ``seconds`` of the whole test; ``rate`` of all requests in 1/s, those that
    failed as well; ``latencies`` in s at 0, 1, ... 100 % of them, ``mean`` in s; ``document``: the
    bytes that ab took for a whole response, those of its first one.

    ``connect``, ``receive``, ``length`` and ``exceptions`` are ab's reasons of failure. Its "Failed
    requests" is their sum, in which one request may be several times: a connection that is reset
    within a response is in ``receive`` and in ``length``, and its event may be in
    ``exceptions`` (read_connection, close_connection and test of support/ab.c, httpd 2.4).
    """

    complete: int
    connect: int
    receive: int
    length: int
    exceptions: int
    not_ok: int
    document: float
    seconds: float
    rate: float
    mean: float
    latencies: tuple[float, ...]

    @property
    def failed(self) -> int:
        """Requests among ``complete`` that were not answered with the whole document, each once.

        Each of them is in ``length``, whatever cut it, an answer with an error (``not_ok``) too;
        where no response ever came or the first one was an error, lengths are compared with that
        and the other counts tell. ``connect`` and ``exceptions`` by themselves complete no request:
        ab connects anew. What is cut off in the moment in which ab ends may be counted beyond
        ``complete``.
        """
        return min(self.complete, max(self.length, self.receive, self.not_ok))

    @property
    def whole(self) -> int:
        """Requests that were answered with the whole document."""
        return self.complete - self.failed

    @property
    def whole_rate(self) -> float:
        """``whole`` per second: ab's rate has more digits than its time."""
        return self.rate * self.whole / self.complete if self.complete else 0.0


def parse(text: str, errors: str = "") -> Report:
    """Out of ab's report followed by its percentiles (``-e``). Raises MeasureError with ab's own
    reason when it ended early.
    """
    if "Complete requests:" not in text:
        raise _ended_early(text, errors)
    complete = int(_field(text, r"Complete requests:"))
    connect, receive, length, exceptions = _reasons(text)
    return Report(
        complete=complete,
        connect=connect,
        receive=receive,
        length=length,
        exceptions=exceptions,
        not_ok=int(_field(text, r"Non-2xx responses:", "0")),
        document=_field(text, r"Document Length:"),
        seconds=_field(text, r"Time taken for tests:"),
        rate=_field(text, r"Requests per second:"),
        mean=_field(text, r"Time per request:") * 1e-3,
        latencies=_percentiles(text, complete),
    )


def _ended_early(text: str, errors: str) -> MeasureError:
    """How far ab came, and why it ended: apr_err() of support/ab.c says both, the first only when
    it is not 0.
    """
    total = re.search(r"Total of ([0-9]{1,15}) requests completed", text)
    expired = "timeout specified has expired" in errors + text
    far = (
        f" after {total[1]} requests"
        if total
        else " before the first request was complete"
        if expired
        else ""
    )
    why = "timed out, nothing arrived any more: " if expired else ""
    said = _common.tail(errors) or _common.tail(text) or "no output"
    return MeasureError(
        f"ab ended early{far}: {why}{said}",
        (
            "the parameter timeout of http is how long it waits while nothing arrives"
            if expired
            else ""
        ),
    )


def _reasons(text: str) -> tuple[int, int, int, int]:
    """Connect, Receive, Length, Exceptions, which ab writes when there are any."""
    if _field(text, r"Failed requests:") == 0:
        return 0, 0, 0, 0
    match = re.search(
        r"^\s+\(Connect: (\d{1,15}), Receive: (\d{1,15}), Length: (\d{1,15}), Exceptions:"
        r" (\d{1,15})\)",
        text,
        re.M | re.A,
    )
    if match is None:
        raise MeasureError("ab's report does not say why requests failed")
    return int(match[1]), int(match[2]), int(match[3]), int(match[4])


def _field(text: str, title: str, default: str | None = None) -> float:
    match = re.search(rf"^{title}\s+(\S+)", text, re.MULTILINE)
    if match is None and default is None:
        raise MeasureError(f"ab's report has no '{title}'")
    return _common.figure(match[1] if match else default, f"ab's {title}")


def _percentiles(text: str, complete: int) -> tuple[float, ...]:
    """ab takes the request number 0.5 + complete x share, which for few requests is beyond its last
    one: that is the last one then.
    """
    _, head, table = text.partition("Percentage served,Time in ms\n")
    if not head:
        return ()
    try:
        rows = [row for row in csv.reader(io.StringIO(table)) if row]
    except csv.Error as error:
        raise MeasureError(f"ab's percentiles cannot be read: {error}") from None
    if (
        any(len(row) != 2 for row in rows)
        or [row[0] for row in rows] != [str(share) for share in range(len(rows))]
        or len(rows) > 101
    ):
        raise MeasureError("ab's percentiles are not those of 0, 1, ... 100 %")
    values = [_common.figure(row[1], "a percentile of ab") * 1e-3 for row in rows]
    values = [
        values[-1] if int(0.5 + complete * share / 100) >= complete else value
        for share, value in enumerate(values)
    ]
    if values != sorted(values):
        raise MeasureError("ab's percentiles do not rise")
    return tuple(values)


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

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        with _scratch(s.server) as folder:
            conf = _CONF.format(folder=folder, listen=_host(s, s.listen))
            (s.raw / "nginx.conf").write_text(conf, encoding="utf-8")
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
            _common.warm(s, self.command(s, s.warmup, 0))

    def start(self, s: SampleContext) -> Process:
        return _common.start(s, self.command(s, s.duration, s.cell.params["requests"]))

    def command(self, s: SampleContext, duration: float, requests: int) -> list[str]:
        """ab for a fixed number of requests, or for so many seconds when that is 0."""
        params, seconds = s.cell.params, _common.whole_seconds(duration)
        amount = (
            ["-n", str(requests)] if requests else ["-t", str(seconds), "-n", str(_most(seconds))]
        )
        return [
            "sh",
            "-c",
            _AB.format(target=_host(s, s.target)),
            "sh",
            "ab",
            "-q",
            "-r",
            "-s",
            str(params["timeout"]),
            *amount,
            "-c",
            str(params["concurrency"]),
            *(["-k"] if params["keepalive"] else []),
        ]

    def findings(self, s: SampleContext) -> Measurements:
        params = s.cell.params
        report = parse(*_common.outputs(s))
        _complete(report, params["requests"], _common.whole_seconds(s.duration), params["payload"])
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


def _most(seconds: int) -> int:
    """Requests for which ab has room in a run of so many seconds; when they are made it ends."""
    return min(_MOST, max(_LEAST, _FASTEST * seconds))


def _taking(params: Mapping[str, Any], rate: float) -> float:
    """Seconds for a fixed number of requests at ``rate`` bit/s and 1 ms each, 0 for a run by
    time.
    """
    return float(params["requests"] * (params["payload"] * 8 / rate + 1e-3))


def _complete(report: Report, requests: int, seconds: int, payload: int) -> None:
    """Raises MeasureError when ab did less than it was asked for, or when most of its requests
    failed.
    """
    if 2 * report.failed >= report.complete:
        raise MeasureError(
            f"of {report.complete} requests {report.failed} failed; ab counted Connect"
            f" {report.connect}, Receive {report.receive}, Length {report.length}, Exceptions"
            f" {report.exceptions}, Non-2xx {report.not_ok}"
        )
    if report.document != payload:  # then its count of wrong lengths means nothing
        raise MeasureError(
            f"ab's first response had {report.document:.0f} bytes, the file has {payload}"
        )
    if requests and report.complete < requests:
        raise MeasureError(f"ab ended early: {report.complete} of {requests} requests")
    if not requests and report.seconds < 0.9 * seconds:
        full = f", the most that fit in {seconds} s" if report.complete >= _most(seconds) else ""
        raise MeasureError(
            f"ab ended early: after {report.seconds:.2f} s of {seconds} s and {report.complete}"
            f" requests{full}"
        )
    if len(report.latencies) != 101:
        raise MeasureError(f"ab gave {len(report.latencies)} percentiles, expected 101")


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
