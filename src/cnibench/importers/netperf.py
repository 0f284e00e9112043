"""netperf's output: keywords (``-k``), CSV (``-o``) and the classic tables; one file may hold
several measurements.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from cnibench.errors import InputError
from cnibench.importers.batch import (
    Batch,
    Figure,
    Given,
    Result,
    figure,
    files,
    label_of,
    number,
    placement_of,
    text_of,
    whole,
)

_ENDINGS = (".txt", ".out", ".log", ".stdout", ".csv", ".netperf")
_BANNER = re.compile(r"(?:MIGRATED )?(.+?) TEST from \S.*\bAF_INET(6?)\b")
_WORKLOADS = {
    "TCP STREAM": "tcp-stream",
    "TCP MAERTS": "tcp-maerts",
    "TCP REQUEST/RESPONSE": "tcp-rr",
    "TCP CONNECT/REQUEST/RESPONSE": "tcp-crr",
    "UDP STREAM": "udp-stream",
    "UDP REQUEST/RESPONSE": "udp-rr",
}
_BITS = {"10^3bits": 1e3, "10^6bits": 1e6, "10^9bits": 1e9}

# The headings of netperf's CSV are the descriptions of its output selectors (netperf 2.7,
# src/nettest_omni.c).
_HEADINGS = {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Elapsed Time (sec)": "ELAPSED_TIME",
    "Transaction Rate Tran/s": "TRANSACTION_RATE",
    "Mean Latency Microseconds": "MEAN_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY",
    "Request Size Bytes": "REQUEST_SIZE",
    "Response Size Bytes": "RESPONSE_SIZE",
    "Local Send Size": "LOCAL_SEND_SIZE",
    "Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS",
}
_LATENCIES = (
    ("MEAN", "latency_mean"),
    ("P50", "latency_p50"),
    ("P90", "latency_p90"),
    ("P99", "latency_p99"),
)


@dataclass
class _Block:
    """The lines of one measurement, from its banner on."""

    test: str
    ip: int
    line: int
    text: list[str] = field(default_factory=list)


def parse(text: str, file: Path, label: str, placement: str) -> list[Result]:
    """Every measurement in the text. One that has no result failed. Raises InputError where there
    is no measurement at all.
    """
    blocks: list[_Block] = []
    for at, line in enumerate(text.split("\n"), 1):
        if match := _BANNER.match(line.strip()):
            blocks.append(_Block(match[1].upper(), 6 if match[2] else 4, at))
        elif blocks and line.strip():
            blocks[-1].text.append(line.strip())
    if not blocks:
        raise InputError(
            f"{file}, line 1: no line says which test it is ('... TEST from ...')",
            "run netperf without -P 0",
        )
    return [_result(block, file, label, placement) for block in blocks]


def _result(block: _Block, file: Path, label: str, placement: str) -> Result:
    workload = _WORKLOADS.get(block.test, "")
    if not workload:
        raise InputError(
            f"{file}, line {block.line}: the test '{block.test[:60]}' is unknown",
            f"known: {', '.join(_WORKLOADS)}",
        )
    values = _keywords(block.text) or _table(block.text) or _classic(block, workload)
    figures, reason = _figures(values, workload)
    if not figures:
        tail = "" if values else "; ".join(block.text)[-200:]
        reason = f"{reason} (line {block.line}{': ' + tail if tail else ''})"
    return Result(
        label=label,
        placement=placement,
        workload=workload,
        params=_params(values, workload),
        figures=figures,
        file=file,
        reason=reason,
        ip=block.ip,
    )


def _keywords(text: list[str]) -> dict[str, str]:
    found = {}
    for line in text:
        name, equals, value = line.partition("=")
        if equals and re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            found[name] = value.strip()
    return found


def _table(text: list[str]) -> dict[str, str]:
    """The first heading line of CSV and the line below it."""
    for heading, row in pairwise(text):
        names = [name.strip() for name in heading.split(",")]
        if "Throughput" in names:
            try:
                values = next(csv.reader([row]), [])
            except csv.Error:  # no row of CSV: a lone carriage return in it, say
                return {}
            return {
                _HEADINGS[name]: value.strip()
                for name, value in zip(names, values, strict=False)
                if name in _HEADINGS
            }
    return {}


def _classic(block: _Block, workload: str) -> dict[str, str]:
    """The classic tables: a row of figures below headings."""
    rows = [line.split() for line in block.text if re.fullmatch(r"[-\d.\s]+", line)]
    heads = " ".join(line for line in block.text if not re.fullmatch(r"[-\d.\s]+", line))
    unit = next((name for name in _BITS if name in heads), "")
    if not rows:
        return {}
    first = rows[0]
    if workload.endswith("rr"):
        if len(first) < 6:
            return {}
        return {
            "TRANSACTION_RATE": first[5],
            "REQUEST_SIZE": first[2],
            "RESPONSE_SIZE": first[3],
            "ELAPSED_TIME": first[4],
        }
    if workload == "udp-stream":
        if len(first) < 6 or len(rows) < 2 or len(rows[1]) < 4:
            return {}
        return {
            "LOCAL_SEND_SIZE": first[1],
            "ELAPSED_TIME": first[2],
            "LOCAL_SEND_CALLS": first[3],
            "REMOTE_RECV_CALLS": rows[1][2],
            "THROUGHPUT": rows[1][3],
            "THROUGHPUT_UNITS": unit,
        }
    if len(first) < 5:
        return {}
    return {
        "LOCAL_SEND_SIZE": first[2],
        "ELAPSED_TIME": first[3],
        "THROUGHPUT": first[4],
        "THROUGHPUT_UNITS": unit,
    }


def _figures(values: dict[str, str], workload: str) -> tuple[tuple[Figure, ...], str]:
    """(figures, '') or (none, why there is no result)."""
    if not values:
        return (), "netperf printed no result"
    if workload.endswith("rr"):
        rate = figure(
            "transaction_rate",
            values.get("TRANSACTION_RATE", values.get("THROUGHPUT")),
            "the transaction rate",
        )
        if not rate.value:
            return (), rate.reason or "no transaction was completed"
        latencies = (
            figure(metric, values[f"{name}_LATENCY"], f"{name}_LATENCY", 1e-6)
            for name, metric in _LATENCIES
            if f"{name}_LATENCY" in values
        )
        return (rate, *latencies, *_retransmits(values)), ""
    scale = _BITS.get(values.get("THROUGHPUT_UNITS", "").partition("/")[0])
    if scale is None:
        return (
            (),
            (
                f"the unit of the throughput is '{values.get('THROUGHPUT_UNITS', '')[:30]}',"
                " expected 10^6bits/s"
            ),
        )
    measured = values.get("REMOTE_RECV_THROUGHPUT", values.get("THROUGHPUT"))
    speed = figure("throughput", measured, "the throughput", scale)
    if not speed.value:
        return (), speed.reason or "nothing arrived"
    if workload == "udp-stream":
        sent, received = (
            number(values.get("LOCAL_SEND_CALLS")),
            number(values.get("REMOTE_RECV_CALLS")),
        )
        if sent and received is not None:
            return (speed, Figure("loss", max(0.0, 1 - received / sent))), ""
        return (speed,), ""
    return (speed, *_retransmits(values)), ""


def _retransmits(values: dict[str, str]) -> tuple[Figure, ...]:
    """netperf says -1 where the kernel does not tell."""
    count = number(values.get("LOCAL_TRANSPORT_RETRANS"))
    return () if count is None else (Figure("retransmits", count),)


def _params(values: dict[str, str], workload: str) -> dict[str, int]:
    """Named as the parameters of our own workloads, so that they can be compared; what the output
    does not tell is left out.
    """
    names = (
        (("REQUEST_SIZE", "request"), ("RESPONSE_SIZE", "response"))
        if workload.endswith("rr")
        else (("LOCAL_SEND_SIZE", "message"),)
    )
    return {name: whole(values[key]) for key, name in names if number(values.get(key)) is not None}


class Netperf:
    """Reads one file of netperf's output, or those of a folder."""

    name = "netperf"
    title = "netperf's output (-k, -o or classic): a file, or a folder of them (PROFILE/*.txt)"

    def read(self, path: Path, given: Given) -> Batch:
        placement = placement_of(given, "netperf")
        batch = Batch(path, facts={"source": "netperf"})
        for file in files(path, _ENDINGS):
            batch.add(parse(text_of(file, path), file, label_of(file, path, given), placement))
        return batch


PROVIDER = Netperf()
