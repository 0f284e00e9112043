"""netperf: the machinery that its tests share, and the parser of its omni output.

netperf runs with the omni output selectors in keyword form (``-k``: one NAME=value a line; netperf
manual, "The Omni Tests"), its latencies (``-j``) in microseconds, the percentiles from a histogram
with buckets of 1 us and more. The data port is explicit (``-P 0,PORT``), so that policies can name
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from cnibench.errors import MeasureError
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.system.process import Process
from cnibench.workloads import _common

# netserver's registered port; the data port is the next one, and further pairs take the ports after
# it
CONTROL_PORT = 12865
_PER_PAIR = 2

LATENCIES = ("MEAN_LATENCY", "P50_LATENCY", "P90_LATENCY", "P99_LATENCY")
_SOCKETS = ("LSS_SIZE_END", "LSR_SIZE_END", "RSS_SIZE_END", "RSR_SIZE_END", "TRANSPORT_MSS")
_ALWAYS = ("THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME", *_SOCKETS)
_UNKNOWN_ALLOWED = frozenset(
    {*_SOCKETS, "LOCAL_TRANSPORT_RETRANS", "REMOTE_TRANSPORT_RETRANS"}
)  # netperf says -1: does not apply
_WORDS = frozenset({"THROUGHPUT_UNITS", "LOCAL_CONG_CONTROL"})

_REASONS = (
    ("are you sure there is a netserver", "no netserver answered (gone, or its port is denied)"),
    ("establish_control", "the control connection could not be made"),
    ("recv_response: partial response", "netserver went away during the test"),
    ("Cannot assign requested address", "the client ran out of local ports"),
    ("Connection refused", "the data connection was refused"),
    ("Message too long", "the message is larger than this socket takes"),
    ("remote error", "netserver reported an error"),
)


def parse(text: str, errors: str, wanted: Sequence[str], seconds: float) -> dict[str, float | str]:
    """netperf's keyword output as values by name; those in ``wanted`` are there, finite, not
    negative.

    ``errors`` is its standard error, ``seconds`` the time that it was to run for. Raises
    MeasureError with the reason.
    """
    found: dict[str, float | str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.isupper():
            found[name] = value.strip()
    missing = [name for name in wanted if name not in found]
    if missing:
        said = _common.tail(errors) or _common.tail(
            "\n".join(line for line in text.splitlines() if not line.startswith("MIGRATED"))
        )
        reason = next((reason for sign, reason in _REASONS if sign in errors or sign in text), "")
        if reason:
            raise MeasureError(f"netperf: {reason}: {said}")
        raise MeasureError(
            f"netperf printed no {missing[0]}:"
            f" {said or 'no output (it was ended before its result)'}"
        )
    for name in wanted:
        if name not in _WORDS:
            found[name] = _common.figure(
                found[name], f"netperf's {name}", negative=name in _UNKNOWN_ALLOWED
            )
    lasted = found.get("ELAPSED_TIME", seconds)
    if isinstance(lasted, float) and lasted < 0.9 * seconds:
        raise MeasureError(f"netperf ended after {lasted:.2f} s of {seconds:.0f} s")
    return found


def megabits(values: Mapping[str, float | str], name: str) -> float:
    """A rate that netperf gives in 10^6 bit/s, in bit/s. Raises MeasureError when its unit is
    another.
    """
    if values.get("THROUGHPUT_UNITS") != "10^6bits/s":
        raise MeasureError(
            f"netperf gave its throughput in {values.get('THROUGHPUT_UNITS')!r}, expected"
            " 10^6bits/s"
        )
    return float(values[name]) * 1e6


def transactions(values: Mapping[str, float | str]) -> Measurements:
    """Rate and latencies of a request/response test."""
    found = Measurements()
    if float(values["TRANSACTION_RATE"]) == 0:
        raise MeasureError("netperf completed no transaction")
    found.add("transaction_rate", float(values["TRANSACTION_RATE"]))
    for name in LATENCIES:
        found.add(f"latency_{name.removesuffix('_LATENCY').lower()}", float(values[name]) * 1e-6)
    return found


class Netperf(Workload):
    """One netperf test: subclasses say which, with which arguments, and what its values mean."""

    tools = {"netserver": "netperf", "netperf": "netperf"}
    ports = (CONTROL_PORT,)
    test: ClassVar[str]
    selectors: ClassVar[tuple[str, ...]]
    # What ends a test before its time, as netperf's own timer does at its time; '': netserver would
    # wait for connections that do not come.
    end: ClassVar[str] = "ALRM"

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        whole = _common.whole_seconds(warmup) if warmup and not self.end else warmup
        return duration + whole

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        """The test's own arguments (after ``--``)."""
        return []

    def data_port(self, s: SampleContext) -> int:
        return control_port(s) + 1 if self.transport == "tcp" else 0

    def interpret(self, values: Mapping[str, float | str]) -> Measurements:
        """Metrics out of checked values."""
        raise NotImplementedError

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        with serving(s):
            yield

    def warm_up(self, s: SampleContext) -> None:
        if s.warmup > 0:
            _common.warm(s, self.command(s, s.warmup), end=self.end)

    def start(self, s: SampleContext) -> Process:
        return _common.start(s, self.command(s, s.duration))

    def command(self, s: SampleContext, duration: float) -> list[str]:
        """The client's command line for so many seconds."""
        port = control_port(s)
        keys = ",".join((*_ALWAYS, *self.selectors))
        return [
            *client(s, self.test, _common.whole_seconds(duration)),
            *(["-j"] if LATENCIES[0] in self.selectors else []),
            "--",
            "-P",
            f"0,{port + 1}",
            *(["-K", f"{s.ask_for},{s.ask_for}"] if s.ask_for and self.data_port(s) else []),
            *self.arguments(s.cell.params),
            "-k",
            keys,
        ]

    def measurements(self, s: SampleContext) -> Measurements:
        out, err = _common.outputs(s)
        values = parse(out, err, (*_ALWAYS, *self.selectors), _common.whole_seconds(s.duration))
        found = self.interpret(values)
        found.records.append(("tools", {"tool": "netperf", "test": self.test, "values": values}))
        return found


def client(s: SampleContext, test: str, length: int) -> list[str]:
    """The beginning of a client's command line: ``length`` in s, below 0: in transactions."""
    return [
        "netperf",
        f"-{s.cell.ip}",
        "-H",
        s.target,
        "-p",
        str(control_port(s)),
        "-t",
        test,
        "-l",
        str(length),
    ]


@contextmanager
def serving(s: SampleContext) -> Iterator[None]:
    """netserver in the server's Pod, listening."""
    port = control_port(s)
    listen = ["-L", f"{s.listen},{s.cell.ip}", "-p", str(port)]
    with _common.serving(s, ["netserver", "-D", f"-{s.cell.ip}", *listen], port):
        yield


def control_port(s: SampleContext) -> int:
    """Pairs whose Pods share a node's namespace need ports of their own."""
    return s.port(CONTROL_PORT + _PER_PAIR * s.cell.pair)
