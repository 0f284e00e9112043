"""A metric over a parameter of a workload."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cnibench.model import context
from cnibench.model.units import is_number
from cnibench.reports._numbers import Scale
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.figures.points import point
from cnibench.reports.site.places import Place


def charts(material: Material, places: Sequence[Place]) -> list[Chart]:
    """A chart for each parameter of which one workload was measured at three values or more, all
    else alike.
    """
    found: dict[str, tuple[str, dict[float, Place]]] = {}
    for place in places:
        for name, value in place.group.params.items():
            if not is_number(value):
                continue
            group = place.group
            others = {key: item for key, item in group.params.items() if key != name}
            key = json.dumps(
                [
                    name,
                    group.environment,
                    context.key(context.place(group) | {"params": others}),
                    group.metric,
                ]
            )
            found.setdefault(key, (name, {}))[1][float(value)] = place
    return [
        _chart(material, name, dict(sorted(at.items())))
        for name, at in found.values()
        if len(at) >= 3
    ]


def _chart(material: Material, name: str, at: dict[float, Place]) -> Chart:
    first = next(iter(at.values()))
    scale = Scale.of(
        [row.result.median for place in at.values() for row in place.rows], first.group.unit
    )
    rows, cells = [], {}
    for value, place in at.items():
        for row in place.rows:
            rows.append(point(row.result, row.label, row.label, value, f"{value:g}", scale))
            cells[row.label, value] = f"{row.shown} ({row.interval})"
    log = min(at) > 0 and max(at) / min(at) >= 30
    title = (
        f"{first.group.workload} {context.coordinate('placement').words(first.group.placement)}:"
        f" {first.metric} over {name}"
    )
    labels = [label for label in material.analysis.labels if any(key[0] == label for key in cells)]
    table = [[label, *(cells.get((label, value), "-") for value in at)] for label in labels]
    spec = specs.lines(
        rows,
        material.looks,
        f"{name}{' (log scale)' if log else ''}",
        f"{first.metric}{scale.heading()}",
        log=log,
    )
    about = f"{title}: a line a profile, with the interval of the median as a band."
    return Chart(
        title,
        about,
        spec,
        Table([name, *(f"{value:g}" for value in at)], table),
        ("band: interval of the median",),
    )
