"""Latency as a distribution, or as the percentiles that a tool gives."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from cnibench.analysis.text.narrative import place_of
from cnibench.model.units import human
from cnibench.reports._numbers import Scale
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.figures.points import by_label, scaled
from cnibench.reports.site.places import Place

_MOST = 400  # points of one line
_WIDE = 20  # the largest by the least value: from here on an axis is logarithmic


def distribution(material: Material, place: Place) -> Chart | None:
    """The distribution of latency: from records of whole distributions, the median of the blocks at
    each share.
    """
    lots = by_label(material.of("cdf", place.group))
    rows, table = [], []
    for label, records in lots.items():
        curves = [(r["shares"], r["values"]) for r in records]
        curves = [curve for curve in curves if len(curve[0]) == len(curves[0][0])]
        if not curves:
            continue
        shares = curves[0][0]
        values = [statistics.median(curve[1][i] for curve in curves) for i in range(len(shares))]
        thin = max(1, len(shares) // _MOST)
        rows += [
            {
                "profile": label,
                "line": label,
                "x": 1e6 * x,
                "y": y,
                "shown": f"{100 * y:.0f} %",
                "shown_x": human(x, "s"),
            }
            for y, x in list(zip(shares, values, strict=True))[::thin]
        ]
        table.append(
            [
                label,
                str(len(curves)),
                *(human(_quantile(shares, values, q), "s") for q in (0.5, 0.9, 0.99, 1.0)),
            ]
        )
    if not rows:
        return None
    low, high = (
        pick(row["x"] for row in rows if row["x"] > 0) if any(row["x"] > 0 for row in rows) else 0.0
        for pick in (min, max)
    )
    log = low > 0 and high / low > _WIDE and all(row["x"] > 0 for row in rows)
    title = f"{place.title}: distribution of latency"
    spec = specs.lines(
        rows,
        material.looks,
        "latency, us" + (" (log scale)" if log else ""),
        "share of requests",
        log=log,
        points=False,
    )
    about = (
        f"{title}: share of requests answered within a time, a line a profile. Further left is"
        " better."
    )
    return Chart(
        title,
        about,
        spec,
        Table(["profile", "blocks", "p50", "p90", "p99", "largest"], table),
        ("further left is better; median over the blocks at each share",),
    )


def percentiles(material: Material, place: Place) -> Chart | None:
    """p50, p90 and p99 of latency where the tool gives only those. Where one of 2, 10 and 100 is
    longer, each ten times as rare is as far from the one before. A p99 that is many times the p50
    leaves room for the differences of both.
    """
    key = place_of(place.group)
    wanted = {"latency_p50": 0.5, "latency_p90": 0.9, "latency_p99": 0.99}
    found = [
        r
        for r in material.analysis.results
        if r.metric in wanted and not r.reading and place_of(r) == key
    ]
    if len({r.metric for r in found}) < 2:
        return None
    medians = [r.median for r in found]
    scale = Scale.of(medians, "s")
    log_y = min(medians) > 0 and max(medians) / min(medians) > _WIDE
    parts = [name.removeprefix("latency_") for name in wanted]
    rarity = {name: round(1 / (1 - share), 6) for name, share in wanted.items()}
    rows = [
        {
            "profile": r.label,
            "line": r.label,
            "x": rarity[r.metric],
            "y": r.median / scale.factor,
            # a logarithm has no place for 0
            "low": None if log_y and not r.ci_low else scaled(r.ci_low, scale.factor),
            "high": scaled(r.ci_high, scale.factor),
            "shown": human(r.median, "s"),
            "shown_x": r.metric.removeprefix("latency_"),
        }
        for r in found
    ]
    by_label = {
        label: {r.metric: human(r.median, "s") for r in found if r.label == label}
        for label in dict.fromkeys(r.label for r in found)
    }
    table = [
        [label, *(values.get(name, "-") for name in wanted)] for label, values in by_label.items()
    ]
    title = f"{place.title}: latency percentiles"
    about = (
        f"{title}, a line a profile, with intervals of the median over the blocks. Lower is better."
    )
    measured = sorted({rarity[r.metric] for r in found})
    spec = specs.lines(
        rows,
        material.looks,
        "percentile",
        f"latency, {scale.unit}" + (" (log scale)" if log_y else ""),
        log=True,
        log_y=log_y,
        ticks={"values": measured, "labelExpr": "'p' + (100 - 100 / datum.value)"},
    )
    return Chart(
        title,
        about,
        spec,
        Table(["profile", *parts], table),
        ("lower is better; band: interval of the median over the blocks",),
    )


def _quantile(shares: Sequence[float], values: Sequence[float], share: float) -> float:
    return next(
        (value for at, value in zip(shares, values, strict=True) if at >= share - 1e-9), values[-1]
    )
