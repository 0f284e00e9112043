"""One cell of the gate: what is known of it, and its verdict by the rules of docs/statistics.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cnibench.analysis.gate.failure_rates import Evidence, Tally, few_left
from cnibench.analysis.gate.noninferiority import LEVEL, Tested
from cnibench.analysis.gate.verdict import Failures, Judged, Outcome
from cnibench.analysis.model import Where
from cnibench.model.metrics import COUNTED
from cnibench.stats.power import least_blocks


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


@dataclass(frozen=True)
class Cell:
    """All that is known of one cell before it is judged; ``figures``: are its figures judged, or
    only its failures? ``open_tests`` of the gate's family reject nothing: Holm's correction of each
    is at least by their number.
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
    level: float
    open_tests: int

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
            if p <= self.level:
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
                f" ({_coverage(self.level)} % interval {100 * (test.low - 1):+.2f} to"
                f" {100 * (test.high - 1):+.2f} %, n={test.n})"
            )
        if test.note:
            change += f"; {test.note}"
        limit = f"{100 * self.threshold:.3g} %"
        if self.p_worse <= self.level:
            return "worse", f"{change}, worse than the threshold of {limit}"
        if test.short:
            return "undecided", f"{change}; {test.short}"
        if test.p_within <= self.level:
            return "within", f"{change}, within the threshold of {limit}"
        if test.least * self.open_tests > self.level:
            return "undecided", f"{change}, not within {limit}; {self._few_blocks(test.n)}"
        return "undecided", f"{change}, neither within {limit} nor proven beyond it"

    def _few_blocks(self, n: int) -> str:
        needed = least_blocks(self.open_tests, 2 * self.level)
        return (
            f"{n} paired blocks cannot prove it worse in a family of {self.open_tests} tests, at"
            f" least {needed} are needed ('cnibench compare --plan' says how many)"
        )


def _failures_of(place: Place | None) -> Failures:
    tally = _tally_of(place)
    return Failures(len(tally.failed), len(tally.tried), tally.reason)


def _tally_of(place: Place | None) -> Tally:
    return place.tally if place else Tally()


def _coverage(level: float) -> str:
    """In percent, never rounded up to 100."""
    missing = 200 * level
    return f"{100 - missing:.{max(1, 1 - math.floor(math.log10(missing)))}f}".rstrip("0").rstrip(
        "."
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
