"""The JSON report of iperf3 3.x (``iperf3 -J``), or its events (``--json-stream``, since 3.17):
one object ``{"event": NAME, "data": ...}`` a line, of which start, error and end are the report's
parts (iperf 3.21, src/iperf_api.c, JSONStream_Output). A file may hold several measurements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Figure, Given, Result, placement_of
from cnibench.importers.files import texts
from cnibench.importers.values import figure, json_values, mapping, number, whole


def reports(text: str, file: Path) -> list[Mapping[str, Any]]:
    """The reports in a text, those that came as events put together. Raises InputError."""
    found: list[Mapping[str, Any]] = []
    events: dict[str, Any] | None = None  # the report whose events come now
    for value in json_values(text, file):
        one = mapping(value)
        event = one.get("event")
        if not isinstance(event, str):
            if events is None or "end" not in events:
                found.append(one)  # else --json-stream-full-output: the same report once more
            events = None
            continue
        if events is None or "end" in events or (event == "start" and "start" in events):
            events = {}
            found.append(events)
        if event in ("start", "error", "end"):
            events[event] = one.get("data")
    if not found:
        raise InputError(f"{file}: no report of iperf3: it is empty", "make it with: iperf3 -J")
    return found


def parse(text: str, file: Path, label: str, placement: str) -> list[tuple[Result, str]]:
    """As ``result``, for each report in the text."""
    return [result(one, file, label, placement) for one in reports(text, file)]


def result(data: Mapping[str, Any], file: Path, label: str, placement: str) -> tuple[Result, str]:
    """(the measurement, the kernel that the client ran on or ''). Raises InputError for what is no
    report of iperf3.
    """
    start, end = mapping(data.get("start")), mapping(data.get("end"))
    test = mapping(start.get("test_start"))
    if not {"start", "end"} & data.keys():
        raise InputError(
            f"{file}: no report of iperf3: it has no 'start' and 'end'", "make it with: iperf3 -J"
        )
    if test.get("protocol") not in ("TCP", "UDP", "SCTP"):
        said = f" ({str(data['error'])[:120]})" if data.get("error") else ""
        raise InputError(f"{file}: iperf3 never began to measure{said}", "leave this file out")
    udp = test["protocol"] == "UDP"
    connected = start.get("connected")
    hosts = (
        [str(mapping(one).get("remote_host", "")) for one in connected]
        if isinstance(connected, list)
        else []
    )
    began = number(mapping(start.get("timestamp")).get("timesecs"))
    reason = str(data.get("error") or "" if "end" in data else "it broke off: there is no 'end'")
    figures = [] if reason else _figures(end, udp)
    if figures and not figures[0].value:
        figures, reason = [], figures[0].reason or "nothing arrived"
    lasted = number(mapping(end.get("sum_received") or end.get("sum")).get("seconds"))
    found = Result(
        label=label,
        placement=placement,
        workload=f"iperf3-{str(test['protocol']).lower()}",
        params=_params(test, end, start, udp),
        figures=tuple(figures),
        file=file,
        reason=reason[:300],
        ip=6 if any(":" in host for host in hosts) else 4 if any(hosts) else 0,
        start=began,
        end=None if began is None or lasted is None else began + lasted,
        duration=number(test.get("duration")) or 0.0,
    )
    kernel = re.match(r"Linux \S+ (\S+)", str(start.get("system_info", "")))
    return found, kernel[1] if kernel else ""


def _params(test: Any, end: Any, start: Any, udp: bool) -> dict[str, Any]:
    """Named as the parameters of our own workloads, so that they can be compared."""
    found: dict[str, Any] = {"message": whole(test.get("blksize"))}
    streams = whole(test.get("num_streams")) or 1
    if udp:
        found["rate"] = float(number(test.get("target_bitrate")) or 0)
        if streams > 1:
            found["streams"] = streams
    else:
        both = "sum_received_bidir_reverse" in end
        found |= {
            "streams": streams,
            "bidirectional": both,
            "window": whole(start.get("sock_bufsize")),
        }
    if number(test.get("reverse")):
        found["reverse"] = True
    return found


def _figures(end: Any, udp: bool) -> list[Figure]:
    received = mapping(end.get("sum_received") or end.get("sum"))
    speed = figure(
        "throughput", received.get("bits_per_second"), "bits_per_second of what was received"
    )
    back = number(mapping(end.get("sum_received_bidir_reverse")).get("bits_per_second"))
    if back is not None and speed.value is not None:
        speed = Figure("throughput", speed.value + back)
    if udp:
        total = mapping(end.get("sum"))
        lost, packets = number(total.get("lost_packets")), number(total.get("packets"))
        share = None if lost is None or not packets else min(1.0, lost / packets)
        return [
            speed,
            Figure(
                "loss", share, {}, "" if share is not None else "lost_packets or packets is missing"
            ),
        ]
    sent = mapping(end.get("sum_sent"))
    if "retransmits" not in sent:  # only Linux' TCP tells them
        return [speed]
    return [speed, figure("retransmits", sent["retransmits"], "retransmits")]


class Iperf3:
    """Reads one file of reports, or all .json files of a folder."""

    name = "iperf3"
    title = "the JSON of 'iperf3 -J' or '--json-stream': a file, or a folder (PROFILE/*.json)"

    def read(self, path: Path, given: Given) -> Batch:
        placement = placement_of(given, "iperf3")
        batch = Batch(path, given, facts={"source": "iperf3"})
        for file, label, text in texts(path, given, (".json", ".jsonl")):
            for one, kernel in parse(text, file, label, placement):
                batch.add([one])
                batch.fact("kernel", kernel)
        return batch


PROVIDER = Iperf3()
