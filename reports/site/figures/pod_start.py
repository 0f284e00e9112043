"""The steps of a Pod's start, as stacked bars."""

from __future__ import annotations

import statistics

from cnibench.model.units import human
from cnibench.reports._numbers import Scale
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.figures.points import by_label
from cnibench.reports.site.places import Place
from cnibench.reports.site.publication.validation import steps as steps_of


def chart(material: Material, place: Place) -> Chart | None:
    """The steps of a Pod's start, stacked: each step's median over all Pods of a profile."""
    lots = by_label(material.of("pods", place.group))
    rows, table = [], []
    everywhere = list(
        dict.fromkeys(name for r in material.records.get("pods", []) for name in steps_of(r))
    )[:8]
    shade = dict(zip(everywhere, specs.SHADES, strict=False))  # one colour on the whole site
    names = [
        name
        for name in everywhere
        if any(name in steps_of(r) for records in lots.values() for r in records)
    ]
    means: dict[str, dict[str, float]] = {}
    for label, records in lots.items():
        for name in names:
            values = [steps[name] for steps in map(steps_of, records) if name in steps]
            if values:
                means.setdefault(label, {})[name] = statistics.median(values)
    if not means:
        return None
    scale = Scale.of([sum(steps.values()) for steps in means.values()], "s")
    for label, steps in sorted(means.items(), key=lambda item: sum(item[1].values())):
        rows += [
            {
                "profile": label,
                "part": name,
                "value": value / scale.factor,
                "shown": human(value, "s"),
            }
            for name, value in steps.items()
        ]
        shown = [human(steps[name], "s") if name in steps else "-" for name in names]
        table.append([label, str(len(lots[label])), human(sum(steps.values()), "s"), *shown])
    title = f"{place.title}: steps of a Pod's start"
    spec = specs.stacked(rows, {name: shade[name] for name in names}, f"time, {scale.unit}")
    return Chart(
        title,
        f"{title}, a bar a profile.",
        spec,
        Table(["profile", "Pods", "sum", *names], table),
        ("median over the Pods of each step; shorter is better",),
    )
