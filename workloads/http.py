"""HTTP as in qi2021: ab (ApacheBench) fetches one file from nginx.

nginx runs from a configuration of its own in a scratch folder of the server's Pod (memory, where there is some), one process, no
access log, its one file of zeros sent by sendfile(2). ab counts a request as failed when its connection, its length or its status was
wrong (``-r``: it goes on then); one that times out ends ab, and with it the cell. qi2021 gives HTTP throughput in Gibit/s
(requests/s x 5 MiB); here everything is in bit/s.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cnibench.cluster import Place
from cnibench.errors import ClusterError, MeasureError
from cnibench.exec import Process
from cnibench.profile import Strict
from cnibench.situation import Findings, Situation
from cnibench.workload import Workload
from cnibench.workloads import _common
from cnibench.workloads._common import Size

PORT = 8080
_MOST = 2_000_000  # requests that a run by time may make: ab keeps 40 bytes for each
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
_SCRATCH = "for d in /run/cnibench /dev/shm /tmp; do [ -d $d ] && [ -w $d ] && exec mktemp -d $d/cnibench-http.XXXXXX; done; exit 1"

# ab writes its percentiles only to a file: it follows the report on standard output.
_AB = 't=$(mktemp) || exit 1; trap "rm -f $t" EXIT; "$@" -e $t http://{target}/payload; r=$?; cat $t; exit $r'


class Params(Strict):
    """``payload`` bytes of the response (5 MiB in qi2021), ``concurrency`` requests at once, ``keepalive``: connections are reused.

    ``requests``: so many are made, however long it takes (500000 in qi2021); 0: as many as the cell's duration allows.
    ``timeout`` in s: how long ab waits for a response.
    """

    requests: int = Field(default=0, ge=0, le=100_000_000)
    payload: Size = 5 << 20
    concurrency: int = Field(default=1, ge=1, le=20_000)
    keepalive: bool = False
    timeout: int = Field(default=30, ge=1, le=3600)


@dataclass(frozen=True)
class Report:
    """ab's report. ``seconds`` of the whole test; ``latencies`` in s at 0, 1, ... 100 % of the requests; ``received`` bytes."""

    complete: int
    failed: int
    not_ok: int
    seconds: float
    rate: float
    mean: float
    received: float
    latencies: tuple[float, ...]


def parse(text: str, errors: str = "") -> Report:
    """Out of ab's report followed by its percentiles (``-e``). Raises MeasureError with ab's own reason when it ended early."""
    if "Complete requests:" not in text:
        said = _common.tail(errors) or _common.tail(text) or "no output"
        reason = "a request timed out: " if "timeout specified has expired" in errors + text else ""
        raise MeasureError(f"ab ended early: {reason}{said}")
    complete = int(_field(text, r"Complete requests:"))
    return Report(
        complete=complete,
        failed=min(complete, int(_field(text, r"Failed requests:"))),  # ab adds up reasons, of which a request may have two
        not_ok=int(_field(text, r"Non-2xx responses:", "0")),
        seconds=_field(text, r"Time taken for tests:"),
        rate=_field(text, r"Requests per second:"),
        mean=_field(text, r"Time per request:") * 1e-3,
        received=_field(text, r"Total transferred:"),
        latencies=_percentiles(text, complete),
    )


def _field(text: str, title: str, default: str | None = None) -> float:
    match = re.search(rf"^{title}\s+(\S+)", text, re.MULTILINE)
    if match is None and default is None:
        raise MeasureError(f"ab's report has no '{title}'")
    return _common.figure(match[1] if match else default, f"ab's {title}")


def _percentiles(text: str, complete: int) -> tuple[float, ...]:
    """ab takes the request number 0.5 + complete x share, which for few requests is beyond its last one: that is the last one then."""
    _, head, table = text.partition("Percentage served,Time in ms\n")
    if not head:
        return ()
    try:
        rows = [row for row in csv.reader(io.StringIO(table)) if row]
    except csv.Error as error:
        raise MeasureError(f"ab's percentiles cannot be read: {error}") from None
    if any(len(row) != 2 for row in rows) or [row[0] for row in rows] != [str(share) for share in range(len(rows))] or len(rows) > 101:
        raise MeasureError("ab's percentiles are not those of 0, 1, ... 100 %")
    values = [_common.figure(row[1], "a percentile of ab") * 1e-3 for row in rows]
    values = [values[-1] if int(0.5 + complete * share / 100) >= complete else value for share, value in enumerate(values)]
    if values != sorted(values):
        raise MeasureError("ab's percentiles do not rise")
    return tuple(values)


class Http(Workload):
    name = "http"
    title = "HTTP (nginx, ab)"
    tools = ("nginx", "ab")
    Params = Params
    primary = "request_rate"
    counts = ("requests",)

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        """A fixed number of requests takes what it takes; this reckons with 10 Gbit/s and 1 ms a request."""
        return warmup + (_taking(params, _RATE) or duration)

    def longest(self, params: Mapping[str, Any], duration: float) -> float:
        return 1.5 * max(_taking(params, _SLOWEST), duration)

    def bytes(self, params: Mapping[str, Any], duration: float) -> float:
        return float(params["requests"] * params["payload"]) or 12.5e9 * duration

    @contextmanager
    def serve(self, s: Situation) -> Iterator[None]:
        with _scratch(s.server) as folder:
            conf = _CONF.format(folder=folder, listen=_host(s, s.listen))
            (s.raw / "nginx.conf").write_text(conf, encoding="utf-8")
            _made(s.server, ["sh", "-c", f"cat > {folder}/nginx.conf"], conf)
            _made(s.server, ["sh", "-c", f"head -c {s.cell.params['payload']} /dev/zero > {folder}/payload"])
            with _common.serving(s, ["nginx", "-p", folder, "-c", f"{folder}/nginx.conf", "-e", "stderr"], port(s)):
                yield

    def warm_up(self, s: Situation) -> None:
        if s.warmup > 0:
            _common.warm(s, self.command(s, s.warmup, 0))

    def start(self, s: Situation) -> Process:
        return _common.start(s, self.command(s, s.duration, s.cell.params["requests"]))

    def command(self, s: Situation, duration: float, requests: int) -> list[str]:
        """ab for a fixed number of requests, or for so many seconds when that is 0."""
        params = s.cell.params
        amount = ["-n", str(requests)] if requests else ["-t", str(_common.whole_seconds(duration)), "-n", str(_MOST)]
        return [
            "sh", "-c", _AB.format(target=_host(s, s.target)), "sh", "ab", "-q", "-r", "-s", str(params["timeout"]), *amount,
            "-c", str(min(params["concurrency"], requests or _MOST)), *(["-k"] if params["keepalive"] else []),
        ]  # fmt: skip

    def findings(self, s: Situation) -> Findings:
        report = parse(*_common.outputs(s))
        _complete(report, s.cell.params["requests"], _common.whole_seconds(s.duration))
        found = Findings()
        found.add("request_rate", report.rate)
        found.add("throughput", report.received * 8 / report.seconds)
        found.add("failed_requests", report.failed + report.not_ok)
        found.add("latency_mean", report.mean)
        for percent in (50, 90, 99):
            found.add(f"latency_p{percent}", report.latencies[percent])
        shares = [percent / 100 for percent in range(101)]
        found.records.append(("cdf", {"metric": "latency", "unit": "s", "shares": shares, "values": list(report.latencies)}))
        values = {"complete": report.complete, "failed": report.failed, "not_ok": report.not_ok, "seconds": report.seconds}
        found.records.append(("tools", {"tool": "ab", "test": "http", "values": values}))
        return found


def _taking(params: Mapping[str, Any], rate: float) -> float:
    """Seconds for a fixed number of requests at ``rate`` bit/s and 1 ms each, 0 for a run by time."""
    return float(params["requests"] * (params["payload"] * 8 / rate + 1e-3))


def _complete(report: Report, requests: int, seconds: float) -> None:
    """Raises MeasureError when ab did less than it was asked for."""
    if report.complete == 0 or report.seconds == 0 or report.failed + report.not_ok >= report.complete:
        raise MeasureError(f"of {report.complete} requests {report.failed} failed and {report.not_ok} were answered with an error")
    if requests and report.complete < requests:
        raise MeasureError(f"ab ended early: {report.complete} of {requests} requests")
    if not requests and report.seconds < 0.9 * seconds:
        raise MeasureError(f"ab ended early: after {report.seconds:.2f} s of {seconds} s")
    if len(report.latencies) != 101:
        raise MeasureError(f"ab gave {len(report.latencies)} percentiles, expected 101")


def port(s: Situation) -> int:
    """Pairs whose Pods share a node's namespace need ports of their own."""
    return s.port(PORT + s.cell.pair)


def _host(s: Situation, address: str) -> str:
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
            f"{place.name}: the HTTP server's files cannot be made: {error.message}", "is its memory or disk full?"
        ) from None


PROVIDER = Http()
