"""A metric over several runs, by their time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cnibench.analysis.model import Result
from cnibench.analysis.text.narrative import place_of, primary_groups
from cnibench.analysis.text.places import describe
from cnibench.model.metrics import METRICS
from cnibench.model.units import human
from cnibench.reports._numbers import Scale
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.figures.points import interval, point


def charts(material: Material) -> list[Chart]:
    """The primary metric of each place over the runs, by their time."""
    lots: dict[tuple[Any, ...], list[tuple[str, str, Result]]] = {}
    words: dict[tuple[Any, ...], str] = {}
    for run in material.runs:
        shown = {
            (place_of(group), group.metric): describe(group) for group in primary_groups(run.alone)
        }
        for result in run.alone.results:
            where = (place_of(result), result.metric)
            if where in shown and not result.reading:
                key = (run.number, *where)
                words[key] = shown[where] + (
                    f" (environment {run.number + 1})" if run.number else ""
                )
                lots.setdefault(key, []).append((run.alone.run.started, run.id, result))
    return [
        _chart(material, words[key], found)
        for key, found in lots.items()
        if len({run for _, run, _ in found}) > 1
    ]


def _chart(material: Material, words: str, found: Sequence[tuple[str, str, Result]]) -> Chart:
    first = found[0][2]
    scale = Scale.of([result.median for _, _, result in found], first.unit)
    metric = METRICS[first.metric].title if first.metric in METRICS else first.metric
    rows = [
        point(result, result.label, result.label, started, f"{started} ({run})", scale)
        for started, run, result in found
    ]
    table = [
        [
            result.label,
            run,
            started,
            human(result.median, result.unit),
            interval(result),
            str(result.n),
        ]
        for started, run, result in found
    ]
    table.sort(key=lambda row: (row[0], row[2]))
    title = f"{words}: {metric} over the runs"
    params = ", ".join(f"{key} {value}" for key, value in first.params.items())
    spec = specs.lines(
        rows, material.looks, "start of the run", f"{metric}{scale.heading()}", time=True
    )
    notes = (
        (
            f"{params + '; ' if params else ''}band: interval of the median within a run; it does"
            " not hold what differs from run to run"
        ),
    )
    return Chart(
        title,
        f"{title}: a line a profile, with intervals.",
        spec,
        Table(["profile", "run", "started", "median", "interval", "blocks"], table, False),
        notes,
    )
