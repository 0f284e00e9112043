"""Cycles per packet by component, as stacked bars."""

from __future__ import annotations

import math

from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.places import Place

_PARTS = 6  # components with a colour of their own
OTHERS, UNCLASSIFIED = "other components", "unclassified"


def chart(material: Material, place: Place) -> Chart | None:
    """Cycles per packet by component, stacked, the cheapest first."""
    if not place.cycles:
        return None
    found = sorted(place.cycles, key=lambda row: row.total)
    names = dict.fromkeys(name for row in found for name in row.components)
    common = material.components[:_PARTS]
    largest = sorted(
        names, key=lambda name: (name not in common, common.index(name) if name in common else 0)
    )
    shown, rest = (
        [name for name in largest if name in common],
        [name for name in largest if name not in common],
    )
    rows = []
    for row in found:
        values = {name: row.components.get(name, 0.0) for name in shown}
        values[OTHERS] = math.fsum(row.components.get(name, 0.0) for name in rest)
        values[UNCLASSIFIED] = row.unclassified
        rows += [
            {"profile": row.label, "part": name, "value": value, "shown": f"{value:.0f}"}
            for name, value in values.items()
            if value
        ]
    estimated = any(row.cycles_source == "estimated" for row in found)
    axis = "cycles per packet" + (" (estimated)" if estimated else "")
    heads = ["profile", "total", *largest, UNCLASSIFIED]
    table = [
        [
            row.label,
            f"{row.total:.0f}",
            *(f"{row.components.get(name, 0.0):.1f}" for name in largest),
            f"{row.unclassified:.1f}",
        ]
        for row in found
    ]
    about = (
        f"{place.title}: cycles per packet by component of the kernel. The cheapest is"
        f" {found[0].label} with {found[0].total:.0f}."
    )
    notes = [
        "shorter is cheaper; components and unclassified cycles add up to the total, without idle"
    ]
    if estimated:
        notes.append("cycles: estimated from the CPU clock, this machine gives no cycle counter")
    parts = [*shown, *([OTHERS] if rest else []), UNCLASSIFIED]
    colors = (specs.BLUE, specs.ORANGE, specs.GREEN, specs.VERMILION, specs.SKY, specs.PINK)
    shades = [colors[common.index(name)] for name in shown]
    shades += [*([specs.YELLOW] if rest else []), specs.GREY]
    spec = specs.stacked(rows, parts, axis, shades)
    return Chart(
        f"{place.title}: {axis} by component", about, spec, Table(heads, table), tuple(notes)
    )
