"""What a run says about itself and its testbed, against what else it says: a false description is
found where two of its facts contradict each other, or physics.

A description that is false and consistent is not found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import msgspec

from cnibench.model.cell import Cell, Sample
from cnibench.model.metrics import METRICS
from cnibench.reports.bundle import machines, nics
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import SAMPLES, Record

_MOST = 20  # contradictions that are named
_CLOCK = timedelta(minutes=10)  # by which clocks may differ
_OVER = 1.02  # a NIC gives no more than this of its link speed (headers count against it)
_NOTHING = object()
# What a line has from its cell; its MTU and pinning are those that were in force.
_CELL = ("label", "profile", "placement", "path", "workload", "ip", "pair", "window")
_FIDELITY = {
    "lab": {"datapath-model", "baseline"},
    "vm": {"datapath-model", "baseline"},
    "kind": {"cni", "baseline"},
    "cluster": {"cni", "baseline"},
}
_place = attrgetter(
    *("cell", "label", "profile", "placement", "path", "workload", "ip", "pair", "window"),
    *("testbed", "wire", "metric", "unit", "better", "fidelity"),
)
_ONE_MACHINE = ("lab", "vm", "kind")  # both nodes are on the machine that env.json describes
_OF_MEMORY = {(testbed, "memory") for testbed in _ONE_MACHINE}
_WIRES = {"lab": {"veth"}, "kind": {"veth"}}
_PERCENTILES = ("latency_p50", "latency_p90", "latency_p99")


def contradictions(reader: RunReader) -> list[str]:
    """Each contradiction in words; at most twenty. ``reader`` is verified."""
    found: list[str] = []
    for environment in reader.environments:
        found += machines.contradictions(environment, _time(reader.plan.created))
    for words in _of_samples(reader):
        if words not in found:
            found.append(words)
        if len(found) >= _MOST:
            break
    return found


def _of_samples(reader: RunReader) -> Iterator[str]:
    facts = reader.environment
    cells = {cell.id: cell for cell in reader.plan.cells}
    begin, end = _time(reader.plan.created), _time(reader.finished)
    if begin is None or end is None or begin > end:
        yield "plan.json: the run was not created before it finished"
        return
    if end > datetime.now(UTC) + _CLOCK:
        yield f"events.jsonl: the run finished in the future, {reader.finished[:40]}"
    limits = _Limits(facts, cells)
    known: set[tuple[Any, ...]] = set()
    # the samples of an imported run were measured before it was made
    first = "" if facts.get("imported") else _text(begin - _CLOCK)
    last = _text(end + _CLOCK)
    previous: dict[str, float] = {}
    at = ("", -1)
    for lines in reader.decoded(SAMPLES, Sample):
        for one in lines:
            key = (*_place(one), msgspec.json.encode(one.params))
            if key not in known:
                known.add(key)
                yield from limits.of_place(one)
            if not first <= one.start <= one.end <= last:
                yield f"samples.jsonl: a sample of {one.cell} was not measured during the run"
            if one.value is not None:
                yield from limits.of_value(one, one.value)
                if (one.cell, one.block) != at:
                    at, previous = (one.cell, one.block), {}
                own = cells[one.cell].params if one.cell in cells else {}
                if one.metric in _PERCENTILES and one.params.keys() == own.keys():
                    previous[one.metric] = one.value
                    values = [previous[name] for name in _PERCENTILES if name in previous]
                    if values != sorted(values):
                        where = f"{one.cell[:100]}, block {one.block}"
                        yield f"samples.jsonl: the latency percentiles of {where} are out of order"


class _Limits:
    """What a line of samples.jsonl may say in a run with these facts and cells."""

    def __init__(self, facts: Record, cells: dict[str, Cell]) -> None:
        self._facts, self._cells = facts, cells
        self._speed = nics.link_speed(facts)
        self._cpus, self._memory = machines.cpus(facts), machines.memory(facts)

    def of_place(self, line: Sample) -> Iterator[str]:
        where = f"samples.jsonl: a sample of {line.cell[:100]}"
        cell = self._cells.get(line.cell)
        if cell is None:
            yield f"{where}: the plan has no such cell"
            return
        for name in _CELL:
            one, other = getattr(line, name), getattr(cell, name)
            if one != other:
                yield f"{where} says {name} {str(one)[:40]!a}, its cell {str(other)[:40]!a}"
        if any(line.params.get(name, _NOTHING) != one for name, one in cell.params.items()):
            yield f"{where} has other parameters than its cell"
        metric = METRICS.get(line.metric)
        if line.metric and (
            metric is None or (line.unit, line.better) != (metric.unit, metric.better)
        ):
            yield f"{where}: {line.metric[:40]!a} in {line.unit[:20]!a} is no metric"
        for name in ("testbed", "wire"):
            one, other = getattr(line, name), self._facts.get(name)
            if other is not None and one != other:
                yield f"{where} says {name} {one[:40]!a}, env.json {str(other)[:40]!a}"
        if line.fidelity not in _FIDELITY.get(line.testbed, {line.fidelity}):
            yield f"{where}: fidelity {line.fidelity[:40]!a} is impossible in a {line.testbed}"
        if line.wire not in _WIRES.get(line.testbed, {line.wire}):
            yield f"{where}: wire {line.wire[:40]!a} is impossible in a {line.testbed}"
        if line.testbed in _ONE_MACHINE and line.cpus == "split" and self._cpus < 2:
            yield f"{where}: client and server had a CPU each, and the machine has one"

    def of_value(self, line: Sample, value: float) -> list[str]:
        words = ""
        if not 0 <= value < math.inf:
            words = f"is {value}"
        elif line.metric == "loss" and value > 1:
            words = "says that more was lost than sent"
        elif (
            line.testbed in _ONE_MACHINE
            and line.metric.startswith("cpu_")
            and line.unit == "1"
            and value > self._cpus * _OVER
        ):
            words = f"is {value:.3g}: more CPU time than the machine has CPUs"
        elif (line.testbed, line.metric) in _OF_MEMORY and value > self._memory:
            words = f"is {value:.4g} B: more than the machine's memory"
        elif (
            line.metric == "throughput"
            and (line.wire, line.placement) == ("nic", "inter")
            and value > self._speed * _OVER
        ):
            words = f"is {value:.3g} bit/s: more than its NIC's link speed"
        return [f"samples.jsonl: {line.metric[:40]} of {line.cell[:100]} {words}"] if words else []


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else None


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
