"""Cycles per packet by component, as stacked bars."""

from __future__ import annotations

from cnibench.cpp import colors
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
    grouped = [colors.grouped(row.components, row.unclassified) for row in found]
    rows = [
        {"profile": row.label, "part": name, "value": value, "shown": f"{value:.0f}"}
        for row, own in zip(found, grouped, strict=True)
        for name, value in own.items()
    ]
    met = {row["part"] for row in rows}
    parts = {name: colors.color(name) for name in colors.stacking() if name in met}
    names = sorted(parts, key=lambda name: -max(own.get(name, 0.0) for own in grouped))
    estimated = any(row.cycles_source == "estimated" for row in found)
    axis = "cycles per packet" + (" (estimated)" if estimated else "")
    heads = ["profile", "total", *names]
    table = [
        [row.label, f"{row.total:.0f}", *(f"{own.get(name, 0.0):.1f}" for name in names)]
        for row, own in zip(found, grouped, strict=True)
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
