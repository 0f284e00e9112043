"""From run directories to a Trend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import numpy as np

from cnibench.analysis.build import contexts_together, main_of, notes_of, run_of
from cnibench.analysis.comparability import environments
from cnibench.analysis.samples.series import gather
from cnibench.analysis.selection import baseline_of, restricted
from cnibench.analysis.text.places import describe
from cnibench.analysis.text.wording import names
from cnibench.analysis.trend.facts import Facts
from cnibench.analysis.trend.model import Change, Difference, Series, Trend
from cnibench.analysis.trend.series import main_contexts, series
from cnibench.errors import UsageError
from cnibench.model.units import plural
from cnibench.rundir.index import each_once
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.stats import change_points as stats
from cnibench.stats.diagnostics import dependence_over_time
from cnibench.stats.inference import ALPHA, Array


def trend(
    readers: Sequence[RunReader],
    *,
    allow_different: bool = False,
    baseline: str = "",
    only: Sequence[str] = (),
) -> Trend:
    """The main metric of each label and place over the runs, by their start, with its change
    points: of all series together, at most 5 % of trends without a change have any.

    Runs may differ in versions (Coordinate.version). Raises UsageError naming what else differs,
    unless ``allow_different``: then each environment has series of its own. With ``baseline``, the
    series are ratios to that label within each run. ``only`` are patterns of labels.
    """
    if not readers:
        raise UsageError("no run was named", "'cnibench runs' lists the runs")
    each_once(readers, "name each run once")
    readers = sorted(readers, key=lambda reader: (_time(reader), reader.id))
    gathered = gather(readers)
    numbers, apart = environments(readers, gathered, allow_different, trend=True)
    contexts = main_contexts(contexts_together(readers, gathered, numbers), main_of(readers))
    every = list(dict.fromkeys(label for one in contexts for label in one.members))
    base = baseline_of(baseline, every) if baseline else ""
    labels = set(restricted(every, only)) - {base}
    found = [
        series(context, label, base, readers, ALPHA)
        for context in contexts
        for label in context.members
        if label in labels
    ]
    table = np.array([logs for one, logs in found]).reshape(len(found), len(readers))
    steps = stats.change_points(table, ALPHA)
    facts = Facts(readers)
    shown = [
        msgspec.structs.replace(one, changes=_changes(one, base, logs, its, facts, readers))
        for (one, logs), its in zip(found, steps, strict=True)
    ]
    runs = [run_of(reader) for reader in readers]
    return Trend(
        schema=1,
        problems=[f"{one.path.name}: {problem}" for one in readers for problem in verify(one)],
        runs=runs,
        baseline=base,
        level=ALPHA,
        series=shown,
        summary=[*_summary(shown, readers, base), *dependent(table, steps)],
        notes=[*apart, *_clocks(readers, numbers), *gathered.notes, *notes_of(readers, runs)],
    )


def _time(reader: RunReader) -> datetime:
    return _parsed(reader.started, reader)


def _parsed(text: str, reader: RunReader) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{reader.id}: '{text}' is not a time, so the run has no place in a trend",
            "leave out this run",
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _clocks(readers: Sequence[RunReader], numbers: Sequence[int]) -> Iterator[str]:
    """Each environment, which may be another machine, has a clock of its own."""
    for number in dict.fromkeys(numbers):
        yield from _clock([one for one, its in zip(readers, numbers, strict=True) if its == number])


def _clock(readers: Sequence[RunReader]) -> Iterator[str]:
    """Runs whose times contradict each other: one machine makes one run at a time."""
    for one in readers:
        if one.finished and _parsed(one.finished, one) < _time(one):
            yield f"{one.id}: finished before it started, so the clock was set back"
    for one, other in pairwise(readers):
        before = _parsed(one.finished, one) if one.finished else _time(one)
        if _time(other) == _time(one) or _time(other) < before:
            yield (
                f"{other.id} started before {one.id} had finished: the clock was set, or the runs"
                " disturbed each other; their order is uncertain"
            )


def _changes(
    one: Series,
    baseline: str,
    logs: Array,
    steps: Sequence[stats.Change],
    facts: Facts,
    readers: Sequence[RunReader],
) -> list[Change]:
    there = np.flatnonzero(~np.isnan(logs)).tolist()  # the runs' numbers
    labels = [label for label in (one.label, baseline) if label]
    return [
        Change(
            run=readers[there[step.at]].id,
            earliest=readers[there[step.first]].id,
            latest=readers[there[step.last]].id,
            ratio=math.exp(step.size),
            low=math.exp(step.low),
            high=math.exp(step.high),
            p=step.p,
            direction="better" if (step.size > 0) == (one.better == "higher") else "worse",
            differs=[
                Difference(run=readers[there[at]].id, what=what)
                for at in range(step.first, step.last + 1)
                for what in facts.differing(there[at - 1], there[at], labels)
            ],
        )
        for step in steps
    ]


def _summary(shown: Sequence[Series], readers: Sequence[RunReader], baseline: str) -> list[str]:
    ratios = f", as the ratio to {baseline}" if baseline else ""
    text = [
        f"{plural(len(readers), 'run')} from {readers[0].started} to {readers[-1].started}; the"
        f" main metric of each profile and place{ratios}."
    ]
    tested = [one for one in shown if not one.reason]
    changed = [one for one in tested if one.changes]
    number = sum(len(one.changes) for one in changed)
    if tested:
        text.append(
            f"{plural(number, 'change point')} in {len(changed)} of {len(tested)} series. Of trends"
            " of independent runs in which nothing changes, at most"
            f" {100 * ALPHA:g} % show any; a level has at least {stats.LEAST} runs."
        )
    for reason in dict.fromkeys(one.reason for one in shown if one.reason):
        which = [f"{one.label}: {describe(one)}" for one in shown if one.reason == reason]
        text.append(f"Not tested: {reason} ({names(which)}).")
    if changed and not baseline:
        text.append("What changes in all profiles at the same time may be the machine.")
    return text


def dependent(table: Array, steps: Sequence[Sequence[stats.Change]]) -> list[str]:
    """Are neighbouring runs alike beyond their change points?"""
    rest = table.copy()
    for row, its in zip(rest, steps, strict=True):
        there = np.flatnonzero(~np.isnan(row))
        for part in np.split(there, [step.at for step in its]):
            row[part] -= row[part].mean() if len(part) else 0.0
    found = dependence_over_time(rest)
    if found is None or found[1] > ALPHA:
        return []
    return [
        f"Neighbouring runs depend on each other (lag-1 correlation about {found[0]:.1f} over all"
        f" series, p={found[1]:.2g}), so change points may be false."
    ]
