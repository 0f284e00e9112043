"""The ranking of a place, as bars with intervals."""

from __future__ import annotations

from collections.abc import Mapping

from cnibench.reports._looks import Look
from cnibench.reports.document.parts import Table
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.figures.points import scaled
from cnibench.reports.site.places import Place


def chart(place: Place, looks: Mapping[str, Look]) -> Chart:
    """Bars of the primary metric, the best first, with intervals; ``looks`` are those of all
    profiles.
    """
    scale = place.scale
    axis = f"{place.metric}{scale.heading()}"
    rows = [
        {
            "profile": row.label,
            "median": row.result.median / scale.factor,
            "low": scaled(row.result.ci_low, scale.factor),
            "high": scaled(row.result.ci_high, scale.factor),
            "position": row.position,
            "shown": row.shown,
            "interval": row.interval,
            "group": row.letters,
        }
        for row in place.rows
    ]
    heads = ["profile", "median", "interval", "blocks", "group", "position"]
    table = [
        [row.label, row.shown, row.interval, str(row.result.n), row.letters, row.position]
        for row in place.rows
    ]
    way = "longer is better" if place.group.better == "higher" else "shorter is better"
    about = (
        f"{place.title}: {place.metric} of {len(rows)} profiles, {way}. First is"
        f" {place.rows[0].label} with {place.rows[0].shown}: {place.rows[0].position}."
    )
    notes = (
        (
            f"{way}; bar: median over the blocks, line: its interval; profiles that share a letter"
            " (in the numbers) are not significantly different"
        ),
    )
    return Chart(
        f"{place.title}: {axis}",
        about,
        specs.ranking(rows, looks, axis),
        Table(heads, table),
        notes,
    )
