"""One sample: a workload driven inside the window of the collectors, and what was found as lines for the store."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace

import msgspec

from cnibench import conditions
from cnibench.cell import Cell, Reading, Sample, Status
from cnibench.collector import Collector
from cnibench.errors import MeasureError, MissingError
from cnibench.layout import now
from cnibench.metrics import metric
from cnibench.situation import Findings, Situation
from cnibench.vm import inside
from cnibench.workload import Workload

_MARGIN = 0.5  # s: what the window leaves out at each end, where client and server start and stop
_HEADROOM = 2.0  # times as long a client runs beside perf under emulation, where the readers take seconds to begin
_GRACE = 20.0  # seconds beyond its time that a client may take to end: a loaded machine is slow to, a dead peer never does


@dataclass(frozen=True)
class Ground:
    """What all samples of one installed profile have in common."""

    testbed: str
    wire: str
    wire_offload: str
    fidelity: str


@dataclass(frozen=True)
class Measured:
    """What one sample gave; ``start`` and ``end`` in RFC 3339 are those of the measured client."""

    findings: Findings
    start: str
    end: str


def choose_cpus(cpus: str, allowed: Sequence[int], siblings: Mapping[int, int]) -> tuple[int | None, int | None]:
    """(client's CPU, server's CPU) for ``shared``, ``split`` or ``none``, out of the ``allowed`` ones.

    ``siblings`` maps a CPU to its core. The highest numbers are taken, because interrupts and housekeeping prefer the low ones; ``split``
    takes two cores, not two threads of one, where it can. Raises MissingError when there is only one CPU to split.
    """
    if cpus == "none":
        return None, None
    ordered = sorted(allowed, reverse=True)
    first = ordered[0]
    if cpus == "shared":
        return first, first
    if len(ordered) < 2:
        raise MissingError("--cpus split needs two CPUs, and this process may use one", "use --cpus shared")
    other = next((cpu for cpu in ordered[1:] if siblings.get(cpu, cpu) != siblings.get(first, first)), ordered[1])
    return other, first


def cores() -> dict[int, int]:
    """CPU to the lowest CPU of its core, as Linux numbers them (/sys/devices/system/cpu/*/topology)."""
    found = {}
    for cpu in os.sched_getaffinity(0):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
                found[cpu] = int(file.read().replace("-", ",").split(",")[0])
        except (OSError, ValueError):
            found[cpu] = cpu
    return found


def measure(s: Situation, workload: Workload, collectors: Sequence[Collector]) -> Measured:
    """Drives ``workload`` once and reads ``collectors`` during the middle of it.

    Raises MeasureError (LimitError when the client does not end) and ClusterError; whatever was started is gone then, too.
    """
    margin, window = min(_MARGIN, s.duration / 10), s.duration
    if s.cell.window == "cpp" and inside() == "tcg":
        s = replace(s, duration=s.duration * _HEADROOM)
    expected = max(workload.seconds(s.cell.params, s.duration, s.warmup) - s.warmup, s.duration)
    found = Findings()
    asked = conditions.of(s.cell.params)
    with s.standing.under(asked, s.client, s.server) if asked else nullcontext([]) as seen, workload.serve(s):
        if s.warmup > 0:
            workload.warm_up(s)
        with ExitStack() as prepared:
            for collector in collectors:
                prepared.enter_context(collector.prepare(s))
            start, began = now(), time.monotonic()
            client = prepared.enter_context(workload.start(s))
            client.watch(margin)
            with ExitStack() as readers:
                for collector in collectors:
                    readers.enter_context(collector.observe(s, found))
                left = s.duration - margin - (time.monotonic() - began)  # before the client ends, however long they took to begin
                client.watch(min(left, window - 2 * margin))
            status = client.wait(max(0.0, expected * 1.5 + _GRACE - (time.monotonic() - began)))
            end = now()
            argv = client.argv
        _note(s, argv, status, start, end)
        driven = workload.findings(s)
    found.records += [("conditions", record) for record in seen]
    if status != 0:
        raise MeasureError(f"{argv[0]} ended with {status}", f"its output is in {s.raw}")
    return Measured(Findings([*driven.readings, *found.readings], [*driven.records, *found.records]), start, end)


def _note(s: Situation, argv: Sequence[str], status: int, start: str, end: str) -> None:
    """raw/CELL/BLOCK/cmd.json: what was run, as the parsers of tomorrow will want to know."""
    told = {
        "argv": list(argv), "status": status, "start": start, "end": end, "duration": s.duration, "warmup": s.warmup,
        "client_cpu": s.client_cpu, "server_cpu": s.server_cpu, "cell": s.cell,
    }  # fmt: skip
    (s.raw / "cmd.json").write_bytes(msgspec.json.encode(told) + b"\n")


def lines(cell: Cell, block: int, ground: Ground, measured: Measured) -> list[Sample]:
    """The lines of samples.jsonl of a sample that succeeded, one a reading."""
    empty = _line(cell, block, ground, "ok", "", measured.start, measured.end)
    return [_with(empty, reading) for reading in measured.findings.readings]


def failure(cell: Cell, block: int, ground: Ground, status: Status, reason: str, start: str) -> list[Sample]:
    """The one line of a sample that failed."""
    return [_line(cell, block, ground, status, reason, start, now())]


def _line(cell: Cell, block: int, ground: Ground, status: Status, reason: str, start: str, end: str) -> Sample:
    return Sample(
        cell=cell.id, block=block, profile=cell.profile, label=cell.label, placement=cell.placement, path=cell.path, workload=cell.workload,
        params=cell.params, ip=cell.ip, mtu=cell.mtu, cpus=cell.cpus, pair=cell.pair, window=cell.window, testbed=ground.testbed,
        wire=ground.wire, wire_offload=ground.wire_offload, fidelity=ground.fidelity, metric="", value=None, unit="", better="",
        status=status, reason=reason, start=start, end=end,
    )  # fmt: skip


def _with(empty: Sample, reading: Reading) -> Sample:
    known = metric(reading.metric)
    return msgspec.structs.replace(
        empty, metric=known.name, value=reading.value, unit=known.unit, better=known.better, params={**empty.params, **reading.params}
    )
