"""The page of one workload: its places with their charts, and its sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cnibench.model import context
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import cycles, latency, pod_start, ranking, rules, series, sweeps
from cnibench.reports.site.figures.charts import Chart, Gallery, unique
from cnibench.reports.site.pages.views import Link, PlaceView, WorkloadPage
from cnibench.reports.site.places import Place

# What a place has besides its ranking: a word of the picture's name, and the figure.
_CHARTS: tuple[tuple[str, Callable[[Material, Place], Chart | None]], ...] = (
    ("cpp", cycles.chart),
    ("rules", rules.chart),
    ("latency", latency.distribution),
    ("percentiles", latency.percentiles),
    ("time", series.chart),
    ("pods", pod_start.chart),
)
_PLACES = 40  # places that a workload's page holds


def workload_page(
    material: Material, gallery: Gallery, name: str, places: Sequence[Place], taken: set[str]
) -> WorkloadPage:
    file = unique(f"workload-{name}", taken)
    taken.add(file)
    views = []
    for number, one in enumerate(places[:_PLACES]):
        words = (name, one.group.placement, str(number))
        charts = [
            gallery.add(chart, *words, kind)
            for kind, make in _CHARTS
            if (chart := make(material, one))
        ]
        ranked = gallery.add(ranking.chart(one, material.looks), *words)
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
    swept = [
        gallery.add(chart, name, "sweep", str(i))
        for i, chart in enumerate(sweeps.charts(material, places))
    ]
    about = ", ".join(
        dict.fromkeys(context.coordinate("placement").words(one.group.placement) for one in places)
    )
    return WorkloadPage(
        Link(f"{file}.html", name, about), name, views, swept, max(0, len(places) - _PLACES)
    )


def sweep_order(one: Place) -> tuple[Any, ...]:
    """Sweeps in the order of their numbers."""
    where = one.group
    values = [
        (isinstance(value, int | float), value if isinstance(value, int | float) else 0, str(value))
        for value in where.params.values()
    ]
    return where.environment, context.order(context.place(where)), values
