"""Is a candidate no worse than its base? A non-inferiority test, for a gate in CI;
docs/adr/0003-statistics.md says why so.

Each cell is tested at the one-sided level 0.025, so that the decision agrees with the 95 % interval
beside it. The gate passes only when every cell passes, which keeps the level without any correction
(R. L. Berger, Technometrics 24, 1982: intersection-union test); one cell proven worse, after Holm's
correction over the cells, is a regression.

Failures are an outcome. A candidate that fails more often than its base in a cell is worse where an
exact test proves it (failure_rates.py); these tests and those of the figures are one Holm family;
where it is not proven the cell is undecided. Cells in which nothing failed on either side have no
such test: none could ever reject there (R. E. Tarone, Biometrics 46, 1990).

Disturbed samples are neither a figure nor a failure. A cell that they leave without a figure on the
base's side is undecided, on the candidate's side missing. Undecided is also a cell in which base
and candidate were disturbed unequally often (an exact test, two-sided), or in which fewer than half
of the pairs remain: what is left is then a selection, not a sample. That test has no correction for
the number of cells: here a correction would let more pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cnibench.analysis.contexts import Context
from cnibench.analysis.failure_rates import (
    Evidence,
    Tally,
    few_left,
    more_often,
    unequally_disturbed,
)
from cnibench.analysis.model import Where
from cnibench.analysis.noninferiority import LEVEL, Tested, counted, paired, unpaired
from cnibench.analysis.text.places import describe
from cnibench.analysis.text.summary import named
from cnibench.analysis.verdict import Failures, Judged, Outcome, Verdict
from cnibench.errors import UsageError
from cnibench.model import context
from cnibench.model.metrics import COUNTED, main_metric
from cnibench.stats.inference import holm


@dataclass
class Place:
    """One metric at one place: the values of each run that has it, by block, and the blocks in
    which it was tried and failed.
    """

    where: Where
    window: str
    runs: list[Mapping[Any, float]]
    tally: Tally = field(default_factory=Tally)

    def median(self) -> float | None:
        values = [value for run in self.runs for value in run.values()]
        return float(np.median(values)) if values else None


Key = tuple[str, str]  # what is measured, but for the metric; the metric
Side = dict[Key, Place]


def side(runs: Sequence[tuple[Sequence[Context], str]]) -> Side:
    """What one side of the gate measured: ``runs`` are the contexts of each run, and the label that
    is meant in it.
    """
    found: Side = {}
    for number, (contexts, label) in enumerate(runs):
        for one in contexts:
            member = one.members.get(label) or one.absent.get(label)
            if member is None or one.where["reading"]:
                continue
            key = (context.key(one.where, context.IDENTITY), one.where["metric"])
            place = found.setdefault(key, Place(Where(**one.where), one.window, []))
            place.runs += [member.values] if member.values else []
            place.tally |= member.tally.of_run(number)
    return found


def judge(
    base: Side,
    candidate: Side,
    threshold: float,
    *,
    pairwise: bool,
    metrics: Sequence[str] = (),
    main: Mapping[str, str] | None = None,
) -> Verdict:
    """Base against candidate, cell by cell: each place's main metric, and those in ``metrics``
    besides; ``main`` is what the base stored.

    ``pairwise``: both are labels of one run and compared block by block; else the runs are the
    unit. A cell that the base has and the candidate lacks is ``missing``. Raises UsageError when
    the threshold is no fraction between 0 and 1.
    """
    if not 0 < threshold < 1:
        raise UsageError(
            f"the threshold must be above 0 and below 1, not {threshold:g}", "write --threshold 5%"
        )
    chosen = _chosen(base, metrics, main or {})
    rows = [(key, True) for key in chosen] + [
        (key, False) for key in _failing(base, candidate, chosen)
    ]
    tests: dict[tuple[Key, str], float] = {}
    tested: dict[Key, Tested] = {}
    failing: dict[Key, Evidence] = {}
    disturbed: dict[Key, Evidence] = {}
    for key, figures in rows:
        if (
            figures
            and key in candidate
            and (test := _figures(base[key], candidate[key], threshold, pairwise)) is not None
        ):
            tested[key] = test
            tests[key, "figures"] = test.p_worse
        if found := more_often(_tally(base, key), _tally(candidate, key), paired=pairwise):
            failing[key] = found
            tests[key, "failures"] = found.p
        if uneven := unequally_disturbed(
            _tally(base, key), _tally(candidate, key), paired=pairwise
        ):
            disturbed[key] = uneven
    adjusted = dict(zip(tests, map(float, holm(np.array(list(tests.values())))), strict=True))
    places = [base[key] if key in base else candidate[key] for key, _ in rows]
    names = named([place.where for place in places], describe)
    cells = []
    for name, place, (key, figures) in zip(names, places, rows, strict=True):
        one = _Cell(
            name,
            place,
            base.get(key),
            candidate.get(key),
            figures,
            tested.get(key),
            adjusted.get((key, "figures"), 1.0),
            failing.get(key),
            adjusted.get((key, "failures")),
            disturbed.get(key),
            pairwise,
            threshold,
        )
        cells.append(one.judged())
    return Verdict(
        cells, threshold, "block by block within one run" if pairwise else "runs against runs"
    )


def _tally(side: Side, key: Key) -> Tally:
    return side[key].tally if key in side else Tally()


def _figures(base: Place, candidate: Place, threshold: float, pairwise: bool) -> Tested | None:
    better, ours, theirs = base.where.better, base.runs, candidate.runs
    if not ours or not theirs:
        return None
    if (
        base.where.metric in COUNTED
        and (known := counted(ours, theirs, better, threshold)) is not None
    ):
        return known
    if pairwise:
        return paired(ours[0], theirs[0], better, threshold)
    one, other = ([np.array(list(run.values())) for run in runs] for runs in (ours, theirs))
    return unpaired(one, other, better, threshold)


def _chosen(base: Side, metrics: Sequence[str], main: Mapping[str, str]) -> list[Key]:
    places: dict[str, list[str]] = {}
    for where, metric in base:
        places.setdefault(where, []).append(metric)

    def chief(key: Key) -> str:
        """No other metric takes the place of one that is unknown because nothing gave a figure."""
        there = places[key[0]]
        return "" if "" in there else main_metric(base[key].where.workload, there, main)

    return [key for key in base if key[1] == chief(key) or key[1] in metrics]


def _failing(base: Side, candidate: Side, chosen: Sequence[Key]) -> list[Key]:
    """One key of each kind of window of a place that failed or was disturbed at times on either
    side and whose figures are not judged.
    """
    places = {key: side[key] for side in (candidate, base) for key in side}
    seen = {(key[0], places[key].window) for key in chosen}
    found = []
    for key, place in places.items():
        ours, theirs = _tally(base, key), _tally(candidate, key)
        if (
            (key[0], place.window) not in seen
            and ours.begun
            and theirs.begun
            and (ours.failed or theirs.failed or ours.disturbed or theirs.disturbed)
        ):
            seen.add((key[0], place.window))
            found.append(key)
    return found


@dataclass(frozen=True)
class _Cell:
    """All that is known of one cell before it is judged; ``figures``: are its figures judged, or
    only its failures?
    """

    name: str
    place: Place
    base: Place | None
    candidate: Place | None
    figures: bool
    test: Tested | None
    p_worse: float
    failing: Evidence | None
    p_failing: float | None
    disturbed: Evidence | None
    paired: bool
    threshold: float

    def judged(self) -> Judged:
        outcome, reason = self._by_figures() if self.figures else self._without_figures()
        selected = "" if outcome == "missing" else self._selected()
        if selected:
            outcome, reason = "undecided", "; ".join(filter(None, (selected, reason)))
        failed = self._failures()
        failing = self.failing if self.failing and self.failing.more else None
        if failing:
            p = 1.0 if self.p_failing is None else self.p_failing
            said = f"{failing.test}, p={p:.2g} after Holm's correction"
            if p <= LEVEL:
                reason = f"fails more often than the base ({said})" + (
                    f"; {reason}" if outcome == "worse" else ""
                )
                outcome = "worse"
            elif outcome != "worse":
                reason = f"fails more often than the base, which is not proven ({said})"
                outcome, reason = "undecided", "; ".join(filter(None, (selected, reason)))
        test, where = self.test, self.place.where
        ratio, low, high = (
            (None,) * 3 if test is None else (_finite(x) for x in (test.ratio, test.low, test.high))
        )
        return Judged(
            cell=self.name
            + (" with perf" if not self.figures and self.place.window == "cpp" else ""),
            metric=where.metric if self.figures else "",
            unit=where.unit if self.figures else "",
            base=self.base.median() if self.base and self.figures else None,
            n=0 if test is None else test.n,
            candidate=self.candidate.median() if self.candidate and self.figures else None,
            ratio=ratio,
            low=low,
            high=high,
            outcome=outcome,
            reason="; ".join(filter(None, (reason, failed, self._disturbed()))),
            base_failures=_failures_of(self.base),
            candidate_failures=_failures_of(self.candidate),
            p_failures=self.p_failing,
            base_disturbed=len(_tally_of(self.base).disturbed),
            candidate_disturbed=len(_tally_of(self.candidate).disturbed),
            p_disturbed=self.disturbed.p if self.disturbed else None,
            values_undecided=outcome == "undecided"
            and test is not None
            and not selected
            and not failing,
        )

    def _without_figures(self) -> tuple[Outcome, str]:
        for place, name in ((self.base, "base"), (self.candidate, "candidate")):
            if not _tally_of(place).tried:
                return "undecided", f"every sample of the {name} was disturbed"
        return "within", "does not fail more often than the base"

    def _selected(self) -> str:
        """Why the blocks that disturbances left say nothing about the cell; '' when they do."""
        base, candidate = _tally_of(self.base), _tally_of(self.candidate)
        if self.disturbed and self.disturbed.p <= LEVEL:
            more, less = "candidate", "base"
            if not self.disturbed.more:
                more, less = less, more
            return (
                f"the {more} was disturbed significantly more often than the {less}"
                f" ({self.disturbed.test}, p={self.disturbed.p:.2g})"
            )
        return few_left(base, candidate, paired=self.paired)

    def _failures(self) -> str:
        """``base failed in 0 of 16 blocks, candidate in 9 (first reason: ...)``; '' when nothing
        failed.
        """
        base, candidate = _failures_of(self.base), _failures_of(self.candidate)
        if not base.failed and not candidate.failed:
            return ""
        of = "" if base.blocks == candidate.blocks else f" of {candidate.blocks}"
        reason = candidate.reason or base.reason
        return (
            f"base failed in {base.failed} of {base.blocks} blocks, candidate in"
            f" {candidate.failed}{of} (first reason: {reason})"
        )

    def _disturbed(self) -> str:
        """``disturbed and not used: 2 of 16 samples of the base, 0 of 16 of the candidate``; ''
        without any.
        """
        base, candidate = _tally_of(self.base), _tally_of(self.candidate)
        if not base.disturbed and not candidate.disturbed:
            return ""
        ours, theirs = (
            f"{len(one.disturbed)} of {len(one.tried | one.disturbed)}" for one in (base, candidate)
        )
        return f"disturbed and not used: {ours} samples of the base, {theirs} of the candidate"

    def _by_figures(self) -> tuple[Outcome, str]:
        base, candidate, test, where = self.base, self.candidate, self.test, self.place.where
        if candidate is None or not candidate.runs:
            return "missing", f"the candidate has no {where.metric or 'figure'} here"
        if base is not None and not base.runs and base.tally.disturbed:
            return "undecided", f"the base has no {where.metric or 'figure'} here"
        if base is None or not base.runs:
            return "within", "the base has no figure here, for it always failed"
        if test is None:
            return "undecided", "no block has both, or a value is not above 0"
        change = f"{where.metric} {100 * (test.ratio - 1):+.2f} %"
        if where.metric in COUNTED and test.low == test.high:
            change = f"{where.metric} {base.median():g} to {candidate.median():g} (counted)"
        elif not math.isnan(test.low):
            change += (
                f" (95 % interval {100 * (test.low - 1):+.2f} to {100 * (test.high - 1):+.2f} %,"
                f" n={test.n})"
            )
        limit = f"{100 * self.threshold:.3g} %"
        if test.short:
            return "undecided", f"{change}; {test.short}"
        if self.p_worse <= LEVEL:
            return "worse", f"{change}, worse than the threshold of {limit}"
        if test.p_within <= LEVEL:
            return "within", f"{change}, within the threshold of {limit}"
        return "undecided", f"{change}, neither within {limit} nor proven beyond it"


def _failures_of(place: Place | None) -> Failures:
    tally = _tally_of(place)
    return Failures(len(tally.failed), len(tally.tried), tally.reason)


def _tally_of(place: Place | None) -> Tally:
    return place.tally if place else Tally()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
