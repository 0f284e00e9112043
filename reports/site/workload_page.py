"""The page of one workload: its places with their charts, and its sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cnibench.model import context
from cnibench.reports.site import figures, rules
from cnibench.reports.site.charts import Gallery, unique
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.places import Place
from cnibench.reports.site.views import Link, PlaceView, WorkloadPage

_PLACES = 40  # places that a workload's page holds


def workload_page(
    material: Material, gallery: Gallery, name: str, places: Sequence[Place], taken: set[str]
) -> WorkloadPage:
    file = unique(f"workload-{name}", taken)
    taken.add(file)
    views = []
    for number, one in enumerate(places[:_PLACES]):
        words = (name, one.group.placement, str(number))
        made = [
            figures.cycles(material, one),
            rules.chart(material, one),
            *(make(material, one) for make in figures.MAKERS),
        ]
        charts = [
            gallery.add(chart, *words, kind)
            for kind, chart in zip(
                ("cpp", "rules", "latency", "percentiles", "time", "pods"), made, strict=True
            )
            if chart
        ]
        ranked = gallery.add(figures.ranking(one), *words)
        met = rules.rows(material, one)
        views.append(
            PlaceView(
                one,
                ranked,
                f"place-{number}",
                charts,
                [rules.table(met), rules.chains(met)] if met else [],
            )
        )
    sweeps = [
        gallery.add(chart, name, "sweep", str(i))
        for i, chart in enumerate(figures.sweeps(material, places))
    ]
    about = ", ".join(
        dict.fromkeys(context.coordinate("placement").words(one.group.placement) for one in places)
    )
    return WorkloadPage(
        Link(f"{file}.html", name, about), name, views, sweeps, max(0, len(places) - _PLACES)
    )


def sweep_order(one: Place) -> tuple[Any, ...]:
    """Sweeps in the order of their numbers."""
    where = one.group
    values = [
        (isinstance(value, int | float), value if isinstance(value, int | float) else 0, str(value))
        for value in where.params.values()
    ]
    return where.environment, context.order(context.place(where)), values
