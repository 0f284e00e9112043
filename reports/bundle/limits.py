"""What a line of samples.jsonl may say in a run with these facts and cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cnibench.analysis.samples.stream import Line
from cnibench.model import measured
from cnibench.model.cell import Cell
from cnibench.model.coordinates import NOT_RECORDED
from cnibench.model.metrics import METRICS
from cnibench.reports.bundle import machines, nics
from cnibench.rundir.schema import Record

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
_ONE_MACHINE = ("lab", "vm", "kind")  # both nodes are on the machine that env.json describes
_WIRES = {"lab": {"veth"}, "kind": {"veth"}}


@dataclass(frozen=True)
class Limit:
    """Of lines of one place and metric: the largest value, what a larger one is (in words with
    ``{}``), and whether it is a percentile of latency of the cell itself.
    """

    most: float
    words: str
    percentile: bool


class Limits:
    """``facts`` are those of env.json, ``cells`` the plan's by their ids."""

    def __init__(self, facts: Record, cells: dict[str, Cell]) -> None:
        self._facts, self._cells = facts, cells
        self._here = not measured.apart(facts)
        self._speed = nics.link_speed(facts)
        self._cpus, self._memory = machines.cpus(facts), machines.memory(facts)

    def of_place(self, line: Line, params: dict[str, Any]) -> Iterator[str]:
        """What its place contradicts, in words; ``params`` are the line's, decoded."""
        where = f"samples.jsonl: a sample of {line.cell[:100]}"
        cell = self._cells.get(line.cell)
        if cell is None:
            yield f"{where}: the plan has no such cell"
            return
        for name in _CELL:
            one, other = getattr(line, name), getattr(cell, name)
            if one != other:
                yield f"{where} says {name} {str(one)[:40]!a}, its cell {str(other)[:40]!a}"
        if any(params.get(name, _NOTHING) != one for name, one in cell.params.items()):
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
        untold = line.fidelity == NOT_RECORDED and bool(self._facts.get("imported"))
        if not untold and line.fidelity not in _FIDELITY.get(line.testbed, {line.fidelity}):
            yield f"{where}: fidelity {line.fidelity[:40]!a} is impossible in a {line.testbed}"
        if self._here and line.wire not in _WIRES.get(line.testbed, {line.wire}):
            yield f"{where}: wire {line.wire[:40]!a} is impossible in a {line.testbed}"
        if self._here and line.testbed in _ONE_MACHINE and line.cpus == "split" and self._cpus < 2:
            yield f"{where}: client and server had a CPU each, and the machine has one"

    def of_value(self, line: Line) -> tuple[float, str]:
        """The largest value of such a line, and what a larger one is."""
        if line.metric == "loss":
            return 1.0, "says that more was lost than sent"
        here = self._here and line.testbed in _ONE_MACHINE
        if here and line.metric.startswith("cpu_") and line.unit == "1":
            return self._cpus * _OVER, "is {:.3g}: more CPU time than the machine has CPUs"
        if here and line.metric == "memory":
            return self._memory, "is {:.4g} B: more than the machine's memory"
        if line.metric == "throughput" and (line.wire, line.placement) == ("nic", "inter"):
            return self._speed * _OVER, "is {:.3g} bit/s: more than its NIC's link speed"
        return math.inf, ""
