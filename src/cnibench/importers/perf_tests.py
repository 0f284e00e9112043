"""netperf.csv of kubernetes/perf-tests (network/benchmarks/netperf: nptest/nptest.go): one row for
each test, one figure for each MSS or message size, all in Mbit/s except qperf's.

The row MSS has the sizes of one of the tests, chosen at random: a row with another number of
figures has no sizes of its own. A TCP or SCTP figure is what 8 streams received together; a UDP
figure is the first of iperf3's two sums, that of the sender. 0 stands for an output that nptest
could not read. That launch.go ran with --hostnetworking is not in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Figure, Given, Result
from cnibench.importers.files import texts
from cnibench.importers.values import figure, lines, number

_ROW = re.compile(
    r"\d+ (iperf TCP|iperf SCTP|iperf UDP|netperf|qperf TCP)\."
    r" (?:(Same|Remote) VM using (Pod|Virtual) IP|Hairpin Pod to own Virtual IP)"
)
_DURATION = 10.0  # s, of each test of iperf3 and netperf (nptest.go, iperfClient)
_QPERF = re.compile(r"\(bw = (\S+) (\S+); latency = (\S+) (\S+)\)")
_RATES = {"bytes/sec": 8.0, "KB/sec": 8e3, "MB/sec": 8e6, "GB/sec": 8e9, "TB/sec": 8e12}
_TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0}


def parse(text: str, file: Path, label: str) -> tuple[list[Result], list[str]]:
    """(the measurements, what was left out). Raises InputError naming the line."""
    sizes: list[float] = []
    found: list[Result] = []
    notes: list[str] = []
    for at, line in lines(text):
        cells = [cell.strip() for cell in line.split(",")]
        row = _ROW.fullmatch(cells[0])
        if cells[0] == "MSS" and cells[1:2] == ["Maximum"]:
            sizes = [number(cell) or 0.0 for cell in cells[2:] if cell]
            continue
        if not row or len(cells) < 3:
            raise InputError(
                f"{file}, line {at}: expected MSS or a test of nptest, got {cells[0][:60]!r}",
                "take the CSV file that launch.go writes",
            )
        values = [cell for cell in cells[2:] if cell]
        if len(values) > 1 and len(values) != len(sizes):
            notes.append(f"left out: {cells[0][:80]}: the file has the sizes of other tests only")
            continue
        for index, value in enumerate(values):
            size = int(sizes[index]) if len(values) > 1 else 0
            found += _results(row, value, size, {"label": label, "file": file})
    if not found and not notes:
        raise InputError(f"{file}: no test of nptest in it", "take the CSV file of launch.go")
    return found, notes


def _results(row: re.Match[str], value: str, size: int, common: Mapping[str, Any]) -> list[Result]:
    tool, where, address = row.groups()
    hairpin = where is None
    place: dict[str, Any] = {
        **common,
        "placement": "inter" if where == "Remote" else "intra",
        "path": "pod" if address == "Pod" else "hairpin" if hairpin else "clusterip",
        "fidelity": "cni",
    }
    if tool == "qperf TCP":
        return _qperf(value, {"message": size} if size else {}, place)
    mss: dict[str, Any] = {"mss": size} if size else {}
    speed = figure("throughput", value, "the throughput", 1e6)
    known: dict[str, tuple[str, dict[str, Any]]] = {
        "iperf TCP": ("iperf3-tcp", {"streams": 8} | mss),
        "iperf SCTP": ("iperf3-sctp", {"streams": 8} | mss),
        "iperf UDP": ("iperf3-udp", {"counted": "sent"}),
        "netperf": ("tcp-stream", {}),
    }
    workload, params = known[tool]
    return [_result(place, workload, params, speed, _DURATION)]


def _qperf(value: str, params: Mapping[str, Any], place: Mapping[str, Any]) -> list[Result]:
    """qperf's default units are powers of 1000 of bytes/s; its latency is one-way."""
    match = _QPERF.fullmatch(value)
    rate, rate_unit, delay, delay_unit = match.groups() if match else (value, "", value, "")
    speed = figure(
        "throughput",
        rate if rate_unit in _RATES else None,
        f"bw ({value[:40]})",
        _RATES.get(rate_unit, 1.0),
    )
    latency = figure(
        "latency_mean",
        delay if delay_unit in _TIMES else None,
        f"latency ({value[:40]})",
        _TIMES.get(delay_unit, 1.0),
    )
    return [
        _result(place, "qperf-tcp-bw", params, speed, 0.0),
        _result(place, "qperf-tcp-lat", {**params, "latency": "one-way"}, latency, 0.0),
    ]


def _result(
    place: Mapping[str, Any],
    workload: str,
    params: Mapping[str, Any],
    main: Figure,
    duration: float,
) -> Result:
    """0 or an unknown unit: it failed."""
    reason = main.reason or ("" if main.value else "it is 0: nptest could not read the output")
    return Result(
        **place,
        workload=workload,
        params=params,
        figures=() if reason else (main,),
        reason=reason,
        duration=duration,
    )


class PerfTests:
    """Reads one CSV file, or those of a folder."""

    name = "perf-tests"
    title = "netperf CSV of kubernetes/perf-tests: a file, or a folder of them (PROFILE/*.csv)"

    def read(self, path: Path, given: Given) -> Batch:
        batch = Batch(path, given, facts={"source": "kubernetes/perf-tests"})
        for file, label, text in texts(path, given, (".csv",)):
            found, notes = parse(text, file, label)
            batch.add(found)
            for one in notes:
                batch.note(one)
        if any("counted" in one.params for one in batch.results):
            batch.note("UDP figures are what was sent, not what arrived")
        if any(one.workload == "qperf-tcp-lat" for one in batch.results):
            batch.note("qperf's latency is one-way: half of a round trip")
        return batch


PROVIDER = PerfTests()
