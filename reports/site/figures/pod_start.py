"""The steps of a Pod's start, as stacked bars."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from cnibench.model.units import human
from cnibench.reports._numbers import Scale
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.figures.points import by_label
from cnibench.reports.site.places import Place
from cnibench.reports.site.publication.validation import steps as steps_of

# The steps of the lab and of clusters, by colour. Those of one row seldom come together in a run.
_STEPS = (
    ("sandbox", "sandbox-and-network"),
    ("scheduled", "link"),
    ("ip-allocation", "address"),
    ("rest-of-cni-add", "routes"),
    ("container", "policy", "delivery"),
    ("ready", "rules-of-all"),
    ("cni-add", "mapping", "plugin"),
    ("first-packet",),
)
_MOST = len(specs.SHADES)


def shades(names: Sequence[str]) -> dict[str, str]:
    """The colour of each step, for as many steps as there are colours. A listed step has that of
    its row, unless another one of the row comes first by name; the others share what is left.
    """
    listed = {name: place for place, row in enumerate(_STEPS) for name in row}
    taken = dict[int, str]()
    for name in sorted(names, key=lambda one: (one not in listed, one)):
        first = listed.get(name, 0)
        free = ((first + step) % _MOST for step in range(_MOST))
        if (place := next((one for one in free if one not in taken), None)) is not None:
            taken[place] = name
    return {name: specs.SHADES[place] for place, name in taken.items()}


def chart(material: Material, place: Place) -> Chart | None:
    """The steps of a Pod's start, stacked: each step's median over all Pods of a profile."""
    lots = by_label(material.of("pods", place.group))
    rows, table = [], []
    everywhere = list(
        dict.fromkeys(name for r in material.records.get("pods", []) for name in steps_of(r))
    )[:_MOST]
    shade = shades(everywhere)
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
