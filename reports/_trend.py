"""A trend as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from cnibench.analysis.model import Run
from cnibench.analysis.text.narrative import problems
from cnibench.analysis.text.places import describe
from cnibench.analysis.text.standings import named
from cnibench.analysis.trend.model import Change, Series, Trend
from cnibench.errors import UsageError
from cnibench.model.metrics import METRICS
from cnibench.reports import markdown, text
from cnibench.reports._numbers import Scale, p_value
from cnibench.reports.document.parts import Document, Section, Table

_DIFFERENCES = 6  # that a table names; JSON has all


def _json(trend: Trend) -> str:
    return msgspec.json.format(msgspec.json.encode(trend), indent=1).decode() + "\n"


FORMATS: dict[str, Callable[[Trend], str]] = {
    "text": lambda trend: text.shown(document(trend)),
    "md": lambda trend: markdown.shown(document(trend)),
    "json": _json,
}


def check(form: str) -> None:
    """Raises UsageError for a format that has no trends."""
    if form not in FORMATS:
        raise UsageError(f"--trend has no format '{form}'", f"use {', '.join(FORMATS)}")


def document(trend: Trend) -> Document:
    """Change points first, then the series of each place, then notes."""
    places: dict[str, list[Series]] = {}
    for name, one in zip(named(trend.series, describe), trend.series, strict=True):
        places.setdefault(name, []).append(one)
    sections = [_changes(places, trend)]
    sections += [_place(name, here, trend) for name, here in places.items()]
    if trend.notes:
        sections.append(Section("Notes", lines=list(trend.notes)))
    summary = list(trend.summary)
    if not trend.baseline and any(one.changes for one in trend.series):
        summary.append("--baseline LABEL shows ratios within each run, in which that cancels.")
    return Document("cnibench report: trend", problems(trend), summary, sections)


def _changes(places: dict[str, list[Series]], trend: Trend) -> Section:
    rows = [
        [
            f"{one.label}, {name}",
            change.run,
            _span(change),
            f"{_percent(change.ratio)} ({_percent(change.low)} to {_percent(change.high)}),"
            f" {change.direction}",
            p_value(change.p),
            _differing(change),
        ]
        for name, here in places.items()
        for one in here
        for change in one.changes
    ]
    if not rows:
        tested = any(not one.reason for one in trend.series)
        return Section("Change points", lines=["none" if tested else "not tested"])
    sure = f"{100 * (1 - trend.level):.3g} %"
    heads = ["series", "from run", f"{sure}: one of", f"change ({sure})", "p", "recorded changes"]
    return Section("Change points", [Table(heads, rows, numbers=False)])


def _span(change: Change) -> str:
    if change.earliest == change.latest:
        return change.run
    return f"{change.earliest} to {change.latest}"


def _differing(change: Change) -> str:
    """With the run that each came with, where the change may have come with several."""
    alone = change.earliest == change.latest
    found = [one.what if alone else f"{one.what} ({one.run})" for one in change.differs]
    more = len(found) - _DIFFERENCES
    return "; ".join(found[:_DIFFERENCES]) + (f"; {more} more" if more > 0 else "") or "none"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.2f} %"


def _place(name: str, here: Sequence[Series], trend: Trend) -> Section:
    scale = Scale.of([point.estimate for one in here for point in one.points], here[0].unit)
    metric = METRICS[here[0].metric].title if here[0].metric in METRICS else here[0].metric
    shown = f"ratio of {metric} to {trend.baseline}" if trend.baseline else metric
    cells = [
        {point.run: _cell(point.estimate, point.low, point.high, scale) for point in one.points}
        for one in here
    ]
    rows = [_row(run, cells, here) for run in trend.runs if any(run.id in one for one in cells)]
    heads = ["run", *(one.label for one in here)]
    sure = f"{100 * (1 - trend.level):.3g} %"
    lines = [f"geometric means over the blocks, {sure} intervals between them; *: a new level"]
    return Section(f"{name}: {shown}{scale.heading()}", [Table(heads, rows)] if rows else [], lines)


def _row(run: Run, cells: Sequence[dict[str, str]], here: Sequence[Series]) -> list[str]:
    marks = ["*" if any(change.run == run.id for change in one.changes) else "" for one in here]
    values = [mark + cell.get(run.id, "-") for mark, cell in zip(marks, cells, strict=True)]
    return [f"{run.id}, {run.started[:16]}", *values]


def _cell(estimate: float, low: float | None, high: float | None, scale: Scale) -> str:
    interval = "" if low is None or high is None else f" ({scale(low)} to {scale(high)})"
    return f"{scale(estimate)}{interval}"
