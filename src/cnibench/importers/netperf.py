"""netperf's output as runs; _netperf_output reads it. One file may hold several measurements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cnibench.errors import InputError, UsageError
from cnibench.importers._netperf_output import Block, blocks, classic, values
from cnibench.importers.batch import Batch, Figure, Given, Result, placement_of
from cnibench.importers.files import texts
from cnibench.importers.values import figure, number, whole

_ENDINGS = (".txt", ".out", ".log", ".stdout", ".csv", ".netperf")
_WORKLOADS = {
    "TCP STREAM": "tcp-stream",
    "TCP SENDFILE": "tcp-sendfile",
    "TCP MAERTS": "tcp-maerts",
    "TCP REQUEST/RESPONSE": "tcp-rr",
    "TCP CONNECT/REQUEST/RESPONSE": "tcp-crr",
    "TCP CONNECT/CLOSE": "tcp-cc",
    "UDP STREAM": "udp-stream",
    "UDP REQUEST/RESPONSE": "udp-rr",
}
# What the omni test does, as it says (direction_to_str in src/nettest_omni.c).
_DIRECTIONS = {
    "SEND": "stream",
    "RECEIVE": "maerts",
    "SEND|RECV": "rr",
    "CONNECT|SEND|RECV": "crr",
    "CONNECTION": "cc",
}
# bit/s of each unit, by the letter that -f takes (format_units in src/netlib.c).
_UNITS = {
    "B": ("Bytes", 8.0),
    "K": ("KBytes", 8.0 * 2**10),
    "M": ("MBytes", 8.0 * 2**20),
    "G": ("GBytes", 8.0 * 2**30),
    "b": ("10^0bits", 8.0),  # netperf 2.7 prints bytes/s and says bits
    "k": ("10^3bits", 1e3),
    "m": ("10^6bits", 1e6),
    "g": ("10^9bits", 1e9),
    "x": ("Trans", 0.0),
}
_BITS = dict(_UNITS.values())
_LATENCIES = (
    ("MEAN", "latency_mean"),
    ("P50", "latency_p50"),
    ("P90", "latency_p90"),
    ("P99", "latency_p99"),
)


def parse(text: str, file: Path, label: str, placement: str, given: Given) -> list[Result]:
    """Every measurement in the text. One that has no result failed. Raises InputError where there
    is no measurement at all, or where the text does not say what it was.
    """
    found = blocks(text)
    if not found:
        raise InputError(
            f"{file}, line 1: there is no output of netperf", "check that this is the right file"
        )
    results = []
    for block in found:
        where = f"{file}, line {block.line}"
        for named in values(block) or [{}]:
            workload = _workload(block, named, where, given)
            tables = [named] if named else classic(block, workload)
            if not tables and not block.test:
                raise InputError(
                    f"{where}: no row has the columns of {workload}",
                    "give the workload that was measured: --workload",
                )
            for one in tables or [{}]:
                figures, reason = _figures(one, workload, where, given)
                if not figures:
                    tail = "" if one else "; ".join(block.said)[-200:]
                    reason = f"{reason} (line {block.line}{': ' + tail if tail else ''})"
                results.append(
                    Result(
                        label=label,
                        placement=placement,
                        workload=workload,
                        params=_params(one, workload, block.burst),
                        figures=figures,
                        file=file,
                        reason=reason,
                        ip=block.ip,
                        untold=() if one else ("request", "response", "message"),
                    )
                )
    return results


def _workload(block: Block, found: Mapping[str, str], where: str, given: Given) -> str:
    """What was measured: the banner says it, or keywords do, or the user. Raises InputError."""
    if block.test in _WORKLOADS:
        return _WORKLOADS[block.test]
    omni = block.test.startswith("OMNI ")
    if block.test and not omni:
        raise InputError(
            f"{where}: the test '{block.test[:60]}' is unknown", f"known: {', '.join(_WORKLOADS)}"
        )
    direction = found.get("DIRECTION", block.test.removeprefix("OMNI ")).upper()
    protocol = found.get("PROTOCOL", "").lower()
    if protocol and direction in _DIRECTIONS:
        return f"{protocol[:20]}-{_DIRECTIONS[direction]}"
    option = re.search(r"-t\s*(\w+)", found.get("COMMAND_LINE", ""))
    asked = option[1].lower().replace("_", "-") if option else given.workload
    if asked in _WORKLOADS.values():
        return asked
    raise InputError(
        f"{where}: no line says which test it is ('... TEST from ...')",
        "say it (--workload tcp-stream), or run netperf without -P 0; omni with PROTOCOL and"
        " DIRECTION among its -k",
    )


def _figures(
    found: Mapping[str, str], workload: str, where: str, given: Given
) -> tuple[tuple[Figure, ...], str]:
    """(figures, '') or (none, why there is no result). Raises InputError where the unit is not
    known.
    """
    if not found:
        return (), "netperf printed no result"
    if workload.endswith(("rr", "cc")):
        rate = figure("transaction_rate", _rate(found, where, given), "the transaction rate")
        if not rate.value:
            return (), rate.reason or "no transaction was completed"
        latencies = (
            figure(metric, found[f"{name}_LATENCY"], f"{name}_LATENCY", 1e-6)
            for name, metric in _LATENCIES
            if f"{name}_LATENCY" in found
        )
        return (rate, *latencies, *_retransmits(found)), ""
    measured = found.get("REMOTE_RECV_THROUGHPUT", found.get("THROUGHPUT"))
    if measured is None:
        raise InputError(f"{where}: there is no THROUGHPUT in it", "print it, and its units")
    unit = _unit(found, where, given)
    if not (scale := _BITS.get(unit)):
        raise InputError(
            f"{where}: the unit of the throughput is '{unit[:30]}'",
            "run netperf with -f m, k, g, B, K, M or G",
        )
    speed = figure("throughput", measured, "the throughput", scale)
    if not speed.value:
        return (), speed.reason or "nothing arrived"
    if workload == "udp-stream":
        sent, received = (
            number(found.get("LOCAL_SEND_CALLS")),
            number(found.get("REMOTE_RECV_CALLS")),
        )
        if sent and received is not None:
            return (speed, Figure("loss", max(0.0, 1 - received / sent))), ""
        return (speed,), ""
    return (speed, *_retransmits(found)), ""


def _rate(found: Mapping[str, str], where: str, given: Given) -> str | None:
    """The transaction rate; THROUGHPUT is that only where its unit says so (not with -f m). Raises
    InputError.
    """
    if "TRANSACTION_RATE" in found:
        return found["TRANSACTION_RATE"]
    if "THROUGHPUT" not in found:
        raise InputError(f"{where}: there is no TRANSACTION_RATE in it", "print it")
    if (unit := _unit(found, where, given)) != "Trans":
        raise InputError(
            f"{where}: netperf printed {unit[:30]}/s and no transaction rate",
            "run netperf without -f, or with TRANSACTION_RATE among its -k or -o",
        )
    return found["THROUGHPUT"]


def _unit(found: Mapping[str, str], where: str, given: Given) -> str:
    """Of THROUGHPUT, per second. Raises InputError where neither the text nor the user says it."""
    if unit := found.get("THROUGHPUT_UNITS", "").partition("/")[0]:
        return unit
    if given.unit in _UNITS:
        return _UNITS[given.unit][0]
    raise InputError(
        f"{where}: the unit of the figures is not in it",
        "say it: --unit m (10^6 bit/s), or what netperf's -f was; x for transactions",
    )


def _retransmits(values: Mapping[str, str]) -> tuple[Figure, ...]:
    """netperf says -1 where the kernel does not tell."""
    count = number(values.get("LOCAL_TRANSPORT_RETRANS"))
    return () if count is None else (Figure("retransmits", count),)


def _params(values: Mapping[str, str], workload: str, burst: int) -> dict[str, int]:
    """Named as the parameters of our own workloads, so that they can be compared; what the output
    does not tell is left out.
    """
    names = (
        (("REQUEST_SIZE", "request"), ("RESPONSE_SIZE", "response"))
        if workload.endswith("rr")
        else (("REMOTE_SEND_SIZE" if "maerts" in workload else "LOCAL_SEND_SIZE", "message"),)
    )
    found = {name: whole(values[key]) for key, name in names if number(values.get(key)) is not None}
    burst = burst or whole(values.get("BURST_SIZE"))
    return found | ({"burst": burst} if burst else {})


class Netperf:
    """Reads one file of netperf's output, or those of a folder."""

    name = "netperf"
    title = "netperf's output (-k, -o, -O or classic): a file, or a folder (PROFILE/*.txt)"

    def read(self, path: Path, given: Given) -> Batch:
        placement = placement_of(given, "netperf")
        for name, value, known in (
            ("workload", given.workload, tuple(_WORKLOADS.values())),
            ("unit", given.unit, tuple(_UNITS)),
        ):
            if value and value not in known:
                raise UsageError(f"the {name} '{value}' is unknown", f"known: {', '.join(known)}")
        batch = Batch(path, given, facts={"source": "netperf"})
        for file, label, text in texts(path, given, _ENDINGS):
            batch.add(parse(text, file, label, placement, given))
        return batch


PROVIDER = Netperf()
