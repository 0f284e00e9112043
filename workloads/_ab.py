"""ab (ApacheBench): its command line and its report."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cnibench.errors import MeasureError
from cnibench.workloads import _common

# Requests that a run by time may make. ab, which has one thread, makes fewer a second than that; it
# keeps 32 bytes for each (struct data of support/ab.c), which take memory only once they are used,
# but are refused when they are more than the machine has.
_FASTEST, _LEAST, _MOST = 100_000, 2_000_000, 100_000_000


def command(params: Mapping[str, Any], requests: int, *words: str) -> list[str]:
    """Without the address. ``-t`` sets a number of requests, too: ``-n`` has to come after it."""
    ab = ["ab", "-q", "-r", "-s", str(params["timeout"]), *words, "-n", str(requests)]
    return [*ab, "-c", str(params["concurrency"]), *(["-k"] if params["keepalive"] else [])]


def most(seconds: int) -> int:
    """Requests for which ab has room in a run of so many seconds; when they are made it ends."""
    return min(_MOST, max(_LEAST, _FASTEST * seconds))


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
        ab connects again. What is cut off in the moment in which ab ends may be counted beyond
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


def check(report: Report, requests: int, seconds: int, payload: int) -> None:
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
        full = f", the most that fit in {seconds} s" if report.complete >= most(seconds) else ""
        raise MeasureError(
            f"ab ended early: after {report.seconds:.2f} s of {seconds} s and {report.complete}"
            f" requests{full}"
        )
    if len(report.latencies) != 101:
        raise MeasureError(f"ab gave {len(report.latencies)} percentiles, expected 101")
