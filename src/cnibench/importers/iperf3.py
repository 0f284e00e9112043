"""The JSON report of iperf3 3.x (``iperf3 -J``): one file is one measurement."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import (
    Batch,
    Figure,
    Given,
    Result,
    figure,
    files,
    json_of,
    label_of,
    mapping,
    number,
    placement_of,
    text_of,
    whole,
)


def parse(text: str, file: Path, label: str, placement: str) -> tuple[Result, str]:
    """(the measurement, the kernel that the client ran on or ''). Raises InputError for what is no
    report of iperf3.
    """
    data = mapping(json_of(text, file))
    start, end = mapping(data.get("start")), mapping(data.get("end"))
    test = mapping(start.get("test_start"))
    if "start" not in data or "end" not in data:
        raise InputError(
            f"{file}: no report of iperf3: it has no 'start' and 'end'", "make it with: iperf3 -J"
        )
    if test.get("protocol") not in ("TCP", "UDP"):
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
    figures = [] if data.get("error") else _figures(end, udp)
    reason = str(data.get("error") or "")[:300]
    if figures and not figures[0].value:
        figures, reason = [], figures[0].reason or "nothing arrived"
    lasted = number(mapping(end.get("sum_received") or end.get("sum")).get("seconds"))
    result = Result(
        label=label,
        placement=placement,
        workload="iperf3-udp" if udp else "iperf3-tcp",
        params=_params(test, end, start, udp),
        figures=tuple(figures),
        file=file,
        reason=reason,
        ip=6 if any(":" in host for host in hosts) else 4 if any(hosts) else 0,
        start=began,
        end=None if began is None or lasted is None else began + lasted,
    )
    kernel = re.match(r"Linux \S+ (\S+)", str(start.get("system_info", "")))
    return result, kernel[1] if kernel else ""


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
    """Reads one report, or all .json files of a folder."""

    name = "iperf3"
    title = "the JSON of 'iperf3 -J': a file, or a folder of them (PROFILE/*.json)"

    def read(self, path: Path, given: Given) -> Batch:
        placement = placement_of(given, "iperf3")
        batch = Batch(path, facts={"source": "iperf3"})
        for file in files(path, (".json",)):
            result, kernel = parse(
                text_of(file, path), file, label_of(file, path, given), placement
            )
            batch.add([result])
            if kernel:
                batch.facts.setdefault("kernel", kernel)
                if kernel != batch.facts["kernel"]:
                    batch.facts["kernel"] = "several"
        return batch


PROVIDER = Iperf3()
