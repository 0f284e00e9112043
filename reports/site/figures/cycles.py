"""Cycles per packet by component, as stacked bars."""

from __future__ import annotations

from cnibench.cpp import colors
from cnibench.cpp.colors import UNCLASSIFIED
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.places import Place


def chart(_: Material, place: Place) -> Chart | None:
    """Cycles per packet by component, stacked, the cheapest first."""
    if not place.cycles:
        return None
    found = sorted(place.cycles, key=lambda row: row.total)
    rows = [
        {"profile": row.label, "part": name, "value": value, "shown": f"{value:.0f}"}
        for row in found
        for name, value in colors.grouped(row.components, row.unclassified).items()
    ]
    met = {row["part"] for row in rows}
    parts = {name: colors.color(name) for name in colors.stacking() if name in met}
    largest = {
        name: max(row.components.get(name, 0.0) for row in found)
        for name in sorted({name for row in found for name in row.components})
    }
    names = sorted(largest, key=lambda name: -largest[name])
    estimated = any(row.cycles_source == "estimated" for row in found)
    axis = "cycles per packet" + (" (estimated)" if estimated else "")
    heads = ["profile", "total", *names, UNCLASSIFIED]
    table = [
        [
            row.label,
            f"{row.total:.0f}",
            *(f"{row.components.get(name, 0.0):.1f}" for name in names),
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
    return Chart(
        f"{place.title}: {axis} by component",
        about,
        specs.stacked(rows, parts, axis),
        Table(heads, table),
        tuple(notes),
    )
