"""What a run says about itself and its testbed, against what else it says: a false description is
found where two of its facts contradict each other, or physics.

A description that is false and consistent is not found.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from cnibench.analysis.samples.series import parameters
from cnibench.analysis.samples.stream import Line
from cnibench.model import measured
from cnibench.reports.bundle import machines
from cnibench.reports.bundle.limits import Limit, Limits
from cnibench.rundir.reader import RunReader

_MOST = 20  # contradictions that are named
_CLOCK = timedelta(minutes=10)  # by which clocks may differ
_place = attrgetter(
    *("cell", "label", "profile", "placement", "path", "workload", "ip", "pair", "window"),
    *("testbed", "wire", "metric", "unit", "better", "fidelity"),
)
_PERCENTILES = ("latency_p50", "latency_p90", "latency_p99")


class Statements:
    """What a run says, checked while its samples are read (``look``). ``found`` has each
    contradiction in words, at most twenty. ``reader`` is verified.
    """

    def __init__(self, reader: RunReader) -> None:
        self.found: list[str] = []
        for environment in reader.environments:
            self.found += machines.contradictions(environment, _time(reader.plan.created))
            lab = reader.plan.cluster == environment.get("testbed") == "lab"
            if lab and measured.nodes(environment):
                self._say("env.json: nodes are named, and the lab was on the machine itself")
        self._cells = {cell.id: cell for cell in reader.plan.cells}
        self._limits = Limits(reader.environment, self._cells)
        self._known: dict[tuple[Any, ...], Limit] = {}
        self._block = ("", -1)
        self._percentiles: dict[str, float] = {}  # of that cell in that block
        begin, end = _time(reader.plan.created), _time(reader.finished)
        self._during: tuple[str, str] | None = None
        if begin is None or end is None or begin > end:
            self._say("plan.json: the run was not created before it finished")
            return
        if end > datetime.now(UTC) + _CLOCK:
            self._say(f"events.jsonl: the run finished in the future, {reader.finished[:40]}")
        # the samples of an imported run were measured before it was made
        first = "" if reader.environment.get("imported") else _text(begin - _CLOCK)
        self._during = first, _text(end + _CLOCK)

    def look(self, lines: Sequence[Line]) -> None:
        """Checks some lines. Raises InputError for parameters that are no object."""
        if self._during is None:
            return
        first, last = self._during
        for one in lines:
            raw = bytes(one.params)
            key = (*_place(one), raw)
            limit = self._known.get(key)
            if limit is None:
                limit = self._known[key] = self._of_place(one, raw)
            if not first <= one.start <= one.end <= last:
                self._say(f"samples.jsonl: a sample of {one.cell} was not measured during the run")
            value = one.value
            if value is None:
                continue
            if not 0 <= value <= limit.most:
                words = f"is {value}" if not 0 <= value < math.inf else limit.words.format(value)
                self._say(f"samples.jsonl: {one.metric[:40]} of {one.cell[:100]} {words}")
            if limit.percentile:
                self._in_order(one, value)

    def _say(self, words: str) -> None:
        if len(self.found) < _MOST and words not in self.found:
            self.found.append(words)

    def _of_place(self, line: Line, raw: bytes) -> Limit:
        params = parameters(raw)
        for words in self._limits.of_place(line, params):
            self._say(words)
        own = self._cells[line.cell].params if line.cell in self._cells else {}
        most, words = self._limits.of_value(line)
        percentile = line.metric in _PERCENTILES and params.keys() == own.keys()
        return Limit(min(most, sys.float_info.max), words, percentile)

    def _in_order(self, line: Line, value: float) -> None:
        if (line.cell, line.block) != self._block:
            self._block, self._percentiles = (line.cell, line.block), {}
        self._percentiles[line.metric] = value
        values = [self._percentiles[name] for name in _PERCENTILES if name in self._percentiles]
        if values != sorted(values):
            where = f"{line.cell[:100]}, block {line.block}"
            self._say(f"samples.jsonl: the latency percentiles of {where} are out of order")


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else None


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
