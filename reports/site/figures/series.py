"""A metric over the time of a sample."""

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

_MOST = 400  # points of one line


def chart(material: Material, place: Place) -> Chart | None:
    """A metric over the time of a sample: the median of the blocks in each interval."""
    lots = by_label(material.of("series", place.group))
    if not lots:
        return None
    unit = str(next(iter(lots.values()))[0].get("unit", ""))
    scale = Scale.of(
        [value for records in lots.values() for r in records for value in r["values"]], unit
    )
    rows, table = [], []
    for label, records in lots.items():
        length = min(min(len(r["values"]) for r in records), _MOST)
        middle = []
        for i in range(length):
            values = [r["values"][i] for r in records]
            middle.append(statistics.median(values))
            rows.append(
                {
                    "profile": label,
                    "line": label,
                    "x": records[0]["times"][i],
                    "y": middle[-1] / scale.factor,
                    "low": min(values) / scale.factor,
                    "high": max(values) / scale.factor,
                    "shown": human(middle[-1], unit),
                    "shown_x": human(records[0]["times"][i], "s"),
                }
            )
        if middle:
            table.append(
                [
                    label,
                    str(len(records)),
                    *(human(pick(middle), unit) for pick in (min, statistics.median, max)),
                ]
            )
    title = f"{place.title}: over the time of a sample"
    about = (
        f"{title}: a line a profile, the median over the blocks, the band from the least to the"
        " most of them."
    )
    spec = specs.lines(
        rows, material.looks, "time, s", f"{place.metric}{scale.heading()}", points=False
    )
    return Chart(
        title,
        about,
        spec,
        Table(["profile", "blocks", "least", "median", "most"], table),
        ("line: median over the blocks; band: all blocks",),
    )
