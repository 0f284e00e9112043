"""iperf3: the machinery that its workloads share, and the parser of its JSON output (``-J``, iperf3
3.x).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cnibench.errors import MeasureError
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.system.process import Process
from cnibench.workloads import _common

PORT = (
    5201  # iperf3's own; the warm-up's server takes the next one, further pairs the ports after it
)
_PER_PAIR = 2


@dataclass(frozen=True)
class Report:
    """What one iperf3 test found: ``forward`` and ``reverse`` (0 unless bidirectional) in bit/s as
    received; ``seconds`` it lasted.

    ``retransmits`` are segments that the senders sent again. ``lost`` and ``datagrams`` count UDP
    datagrams.
    ``times`` are the middles of the reporting intervals in s, ``rates`` the bit/s sent in each.
    """

    forward: float
    reverse: float
    seconds: float
    streams: int
    retransmits: int
    lost: int
    datagrams: int
    times: tuple[float, ...]
    rates: tuple[float, ...]


def client(s: SampleContext, duration: float, to: int) -> list[str]:
    """The beginning of a client's command line: for so many seconds to the server on that port."""
    return [
        "iperf3",
        f"-{s.cell.ip}",
        "-J",
        "-c",
        s.target,
        "-p",
        str(to),
        "-t",
        str(_common.whole_seconds(duration)),
    ]


def parse(text: str, errors: str = "") -> Report:
    """The report in iperf3's JSON. Raises MeasureError with iperf3's own reason, or saying what is
    missing.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        said = (
            _common.tail(errors)
            or _common.tail(text)
            or "no output (it was ended before its result)"
        )
        raise MeasureError(f"iperf3 printed no JSON: {said}") from None
    if not isinstance(data, dict):
        raise MeasureError("iperf3 printed JSON that is no report")
    if data.get("error"):
        raise MeasureError(f"iperf3: {str(data['error'])[:300]}")
    end = _mapping(data, "end")
    received = _mapping(end, "sum_received" if "sum_received" in end else "sum")
    back = end.get("sum_received_bidir_reverse")
    times, rates = _intervals(data.get("intervals"))
    return Report(
        forward=_number(received, "bits_per_second"),
        reverse=_number(back, "bits_per_second") if isinstance(back, dict) else 0.0,
        seconds=_number(received, "seconds"),
        streams=len(end["streams"]) if isinstance(end.get("streams"), list) else 0,
        retransmits=sum(
            _whole(end.get(name), "retransmits") for name in ("sum_sent", "sum_sent_bidir_reverse")
        ),
        lost=_whole(end.get("sum"), "lost_packets"),
        datagrams=_whole(end.get("sum"), "packets"),
        times=times,
        rates=rates,
    )


def _mapping(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    if not isinstance(found, dict):
        raise MeasureError(f"iperf3's report has no {name}")
    return found


def _number(data: Mapping[str, Any], name: str) -> float:
    if name not in data:
        raise MeasureError(f"iperf3's report has no {name}")
    return _common.figure(data[name], f"iperf3's {name}")


def _optional(data: object, name: str) -> float:
    return _number(data, name) if isinstance(data, dict) and name in data else 0.0


def _whole(data: object, name: str) -> int:
    return int(_optional(data, name))


def _intervals(found: object) -> tuple[tuple[float, ...], tuple[float, ...]]:
    times, rates = [], []
    for interval in found if isinstance(found, list) else []:
        total = _mapping(interval if isinstance(interval, dict) else {}, "sum")
        times.append((_number(total, "start") + _number(total, "end")) / 2)
        rates.append(_number(total, "bits_per_second"))
    return tuple(times), tuple(rates)


class Iperf3(Workload):
    """One iperf3 test: subclasses say with which arguments, and what its report means."""

    tools = {"iperf3": "iperf3"}
    ports = (PORT,)

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        """Arguments of the measured client and of the warm-up."""
        return []

    def intervals(self, params: Mapping[str, Any]) -> str:
        """Seconds between two intervals of the report; 0: none."""
        return "0"

    def data_port(self, s: SampleContext) -> int:
        return port(s) if self.transport == "tcp" else 0

    def interpret(self, report: Report, params: Mapping[str, Any]) -> Measurements:
        """Metrics out of a checked report."""
        raise NotImplementedError

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        with _common.serving(s, server(s, port(s)), port(s)):
            yield

    def warm_up(self, s: SampleContext) -> None:
        """With a server of its own: one that has just served refuses the next client for a
        moment.
        """
        if s.warmup > 0:
            with _common.serving(s, server(s, port(s) + 1), port(s) + 1, "warmup-server"):
                _common.warm(s, self.command(s, s.warmup, port(s) + 1), end="INT")

    def start(self, s: SampleContext) -> Process:
        return _common.start(s, self.command(s, s.duration, port(s)))

    def command(self, s: SampleContext, duration: float, to: int) -> list[str]:
        """The client's command line for so many seconds to the server on that port."""
        return [
            *client(s, duration, to),
            "-i",
            self.intervals(s.cell.params),
            *(["-C", s.ask_for] if s.ask_for and self.data_port(s) else []),
            *self.arguments(s.cell.params),
        ]

    def measurements(self, s: SampleContext) -> Measurements:
        out, err = _common.outputs(s)
        report = parse(out, err)
        asked = _common.whole_seconds(s.duration)
        if report.seconds < 0.9 * asked:
            raise MeasureError(f"iperf3 ended after {report.seconds:.2f} s of {asked} s")
        if report.forward == 0:
            raise MeasureError("iperf3's server received nothing")
        found = self.interpret(report, s.cell.params)
        found.records.append(
            (
                "tools",
                {
                    "tool": "iperf3",
                    "test": self.name,
                    "values": {"streams": report.streams, "retransmits": report.retransmits},
                },
            )
        )
        return found


def server(s: SampleContext, on: int) -> Sequence[str]:
    """A server for one client, on its own address only."""
    return ["iperf3", f"-{s.cell.ip}", "-s", "-1", "-B", s.listen, "-p", str(on)]


def port(s: SampleContext) -> int:
    """Pairs whose Pods share a node's namespace need ports of their own."""
    return s.port(PORT + _PER_PAIR * s.cell.pair)
