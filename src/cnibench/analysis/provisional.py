"""Who is ahead while a run measures, from the blocks that are finished and the rounds so far:
in the order of the ratios within them, as in the final answer.

The interval of a profile against the one that is ahead is that of the final answer (the inverted
signed-rank test over finished blocks) as soon as there are enough blocks for it, six at a level of
5 %. Before, it is that of the rounds: the log ratios of both profiles' slices in the same round,
their trimmed mean and its interval after Yuen, widened to the ratio of each finished block. The
spread between deployments is in it only as far as the blocks have shown it, so that it may be too
narrow. No interval is corrected for several comparisons, and a look decides nothing.

Profiles that are installed one after the other are compared by their ratios to the host network, as
in the final answer (comparison/host_baseline.py), and not at all where it is not measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from cnibench.analysis.samples.stream import samples
from cnibench.analysis.text.places import describe, of_cell
from cnibench.analysis.text.standings import named
from cnibench.model.cell import Cell
from cnibench.model.context import OF_RECORD, alike, order
from cnibench.model.metrics import METRICS
from cnibench.model.units import human
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest
from cnibench.stats import sequential
from cnibench.stats.inference import ALPHA, signed_rank
from cnibench.stats.order import scores
from cnibench.stats.robust import trimmed

Logs = Mapping[str, Mapping[int, float]]  # cell id to round to the log of its metric
_FEWEST = 8  # rounds of a profile, and that two profiles share


@dataclass(frozen=True)
class Standing:
    """One label at one place. ``low`` and ``high`` are the interval of its ratio to the best one,
    None for that one and where there is none yet.
    """

    label: str
    figure: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Ranking:
    """A place in words, who is there, the best first, and whether the intervals are those of the
    blocks alone.
    """

    place: str
    standings: Sequence[Standing]
    of_blocks: bool


@dataclass
class SoFar:
    """What a run has found so far of one metric of each workload, ``metrics``, its main one by
    default. ``level`` is that of the intervals between blocks. ``in_turn``: what is measured in
    slices is installed one after the other.
    """

    manifest: Manifest
    in_turn: bool = False
    metrics: Mapping[str, str] = field(default_factory=dict)
    _blocks: dict[str, dict[int, float]] = field(default_factory=dict)  # logs, of each cell's id
    _rounds: dict[str, dict[tuple[int, int], float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metrics = self.metrics or self.manifest.main
        groups = alike(cell for cell in self.manifest.cells if cell.window == "speed")
        self._hosts = self._baselines(groups)
        known = set(self._hosts.values())
        places = [
            (of_cell(**{name: getattr(group[0], name) for name in OF_RECORD}, environment=0), group)
            for group in groups
            if not known.issuperset(cell.id for cell in group)
        ]
        places.sort(key=lambda place: order(asdict(place[0])))
        self._groups = [group for _, group in places]
        self._names = named([where for where, _ in places], describe)
        self.level = sequential.level(ALPHA) if self.manifest.target_ci else ALPHA

    def _baselines(self, groups: Sequence[Sequence[Cell]]) -> dict[str, str]:
        """The ids of cells of profiles that are installed one after the other, each with that of
        its host network, '' where that is not measured for all of them.
        """
        measured = {cell.id for group in groups for cell in group}
        found: dict[str, str] = {}
        for group in groups:
            if self.in_turn and len(group) > 1 and group[0].method == "slices":
                hosts = {cell.id: replace(cell, path="host").id for cell in group}
                if group[0].path == "host" or not measured.issuperset(hosts.values()):
                    hosts = dict.fromkeys(hosts, "")
                found |= hosts
        return found

    def rounds(self, block: int, logs: Logs) -> None:
        """All rounds of that block so far."""
        for cell, its in logs.items():
            known = self._rounds.setdefault(cell, {})
            known.update(((block, number), log) for number, log in its.items())

    def read(self, reader: RunReader) -> None:
        """The blocks that are stored."""
        self._blocks = {}
        for piece in samples(reader):
            for line in piece:
                if (
                    line.metric == self.metrics.get(line.workload)
                    and line.window == "speed"
                    and line.status == "ok"
                    and not line.disturbed
                    and line.value
                    and line.value > 0
                ):
                    logs = self._blocks.setdefault(line.cell, {})
                    logs[line.block] = math.log(line.value)

    def rankings(self) -> list[Ranking]:
        """Of the places where anything is known."""
        found = []
        for name, group in zip(self._names, self._groups, strict=True):
            if ranking := self._ranking(name, group):
                found.append(ranking)
        return found

    def _ranking(self, name: str, group: Sequence[Cell]) -> Ranking | None:
        metric = METRICS.get(self.metrics.get(group[0].workload, ""))
        there = [(value, cell) for cell in group if (value := self._figure(cell.id)) is not None]
        if metric is None or not there:
            return None
        score = self._scores([cell.id for _, cell in there])
        there.sort(key=lambda one: score[one[1].id], reverse=metric.better == "higher")
        best, *others = there
        standings = [Standing(best[1].label, human(best[0], metric.unit))]
        of_blocks = True
        for value, cell in others:
            interval, alone = self._interval(cell.id, best[1].id)
            of_blocks = of_blocks and alone
            low, high = map(math.exp, interval) if interval else (None, None)
            standings.append(Standing(cell.label, human(value, metric.unit), low, high))
        return Ranking(name, standings, of_blocks)

    def _scores(self, cells: Sequence[str]) -> dict[str, float]:
        """One order of the cells by their ratios within blocks, else within rounds; by their
        figures where they have none in common.
        """
        logs = {cell: math.log(figure) for cell in cells if (figure := self._figure(cell))}
        pairs = []
        for (i, a), (j, b) in combinations(enumerate(cells), 2):
            if ratios := self._of_blocks(a, b):
                centre = float(signed_rank(np.array([ratios]), self.level).centre[0])
                pairs.append((i, j, centre, len(ratios)))
                continue
            if len(paired := self._of_rounds(a, b)) >= _FEWEST:
                pairs.append((i, j, trimmed(paired)[0], 1))
            elif a in logs and b in logs:
                pairs.append((i, j, logs[a] - logs[b], 1))
        return dict(zip(cells, scores(len(cells), pairs).tolist(), strict=True))

    def _figure(self, cell: str) -> float | None:
        """The median of its blocks, else the mean of its rounds."""
        if logs := self._blocks.get(cell):
            return statistics.median(map(math.exp, logs.values()))
        rounds = self._rounds.get(cell, {})
        return math.exp(trimmed(list(rounds.values()))[0]) if len(rounds) >= _FEWEST else None

    def _interval(self, cell: str, best: str) -> tuple[tuple[float, float] | None, bool]:
        """Of the log ratio, and whether it is that of the blocks alone."""
        ratios = self._of_blocks(cell, best)
        if ratios:
            found = signed_rank(np.array([ratios]), self.level)
            if not math.isnan(found.low[0]):
                return (float(found.low[0]), float(found.high[0])), True
        if len(paired := self._of_rounds(cell, best)) < _FEWEST:
            return None, False
        mean, half = trimmed(paired)
        return (min(mean - half, *ratios, mean), max(mean + half, *ratios, mean)), False

    def _of_blocks(self, a: str, b: str) -> list[float]:
        """The log ratios of both in the blocks that they have in common."""
        return self._differences(self._blocks, a, b)

    def _of_rounds(self, a: str, b: str) -> list[float]:
        return self._differences(self._rounds, a, b)

    def _differences(self, logs: Mapping[str, Mapping[Any, float]], a: str, b: str) -> list[float]:
        if "" in (self._hosts.get(a), self._hosts.get(b)):
            return []
        mine, its = self._beside_host(logs, a), self._beside_host(logs, b)
        return [mine[at] - its[at] for at in sorted(mine.keys() & its.keys())]

    def _beside_host(self, logs: Mapping[str, Mapping[Any, float]], cell: str) -> dict[Any, float]:
        """Those of a cell, less those of its host network if it has one."""
        own = dict(logs.get(cell, {}))
        if host := self._hosts.get(cell):
            there = logs.get(host, {})
            return {at: log - there[at] for at, log in own.items() if at in there}
        return own
