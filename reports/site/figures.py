"""The charts of a place, of a sweep over a parameter, and of several runs over time."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from cnibench.analysis.model import Result
from cnibench.analysis.text.narrative import place_of, primary_groups
from cnibench.analysis.text.places import describe
from cnibench.model import context
from cnibench.model.metrics import METRICS
from cnibench.model.units import human, is_number
from cnibench.reports._document import Table
from cnibench.reports._numbers import Scale
from cnibench.reports.site import specs
from cnibench.reports.site.charts import Chart
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.places import Place
from cnibench.reports.site.validation import steps as steps_of
from cnibench.rundir.schema import Record

_PARTS = 6  # components with a colour of their own
_MOST = 400  # points of one line
OTHERS, UNCLASSIFIED = "other components", "unclassified"


def ranking(place: Place) -> Chart:
    """Bars of the primary metric, the best first, with intervals."""
    scale = place.scale
    axis = f"{place.metric}{scale.heading()}"
    rows = [
        {
            "profile": row.label,
            "median": row.result.median / scale.factor,
            "low": _by(row.result.ci_low, scale.factor),
            "high": _by(row.result.ci_high, scale.factor),
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
        f"{place.title}: {place.metric} of {len(rows)} profiles, {way}. The best is"
        f" {place.rows[0].label} with {place.rows[0].shown}."
    )
    notes = (
        (
            f"{way}; bar: median over the blocks, line: its interval; profiles that share a letter"
            " (in the numbers) are not significantly different"
        ),
    )
    return Chart(
        f"{place.title}: {axis}", about, specs.ranking(rows, axis), Table(heads, table), notes
    )


def cycles(material: Material, place: Place) -> Chart | None:
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


def latency(material: Material, place: Place) -> Chart | None:
    """The distribution of latency: from records of whole distributions, the median of the blocks at
    each share.
    """
    lots = _by_label(material.of("cdf", place.group))
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
    log = low > 0 and high / low > 20 and all(row["x"] > 0 for row in rows)
    title = f"{place.title}: distribution of latency"
    spec = specs.lines(
        rows,
        material.analysis.labels,
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
    """p50, p90 and p99 of latency where the tool gives only those."""
    key = place_of(place.group)
    wanted = {"latency_p50": 0.5, "latency_p90": 0.9, "latency_p99": 0.99}
    found = [
        r
        for r in material.analysis.results
        if r.metric in wanted and not r.reading and place_of(r) == key
    ]
    if len({r.metric for r in found}) < 2:
        return None
    scale = Scale.of([r.median for r in found], "s")
    parts = [name.removeprefix("latency_") for name in wanted]
    rows = [
        {
            "profile": r.label,
            "line": r.label,
            "x": 100 * wanted[r.metric],
            "y": r.median / scale.factor,
            "low": _by(r.ci_low, scale.factor),
            "high": _by(r.ci_high, scale.factor),
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
    spec = specs.lines(rows, material.analysis.labels, "percentile", f"latency, {scale.unit}")
    return Chart(
        title,
        about,
        spec,
        Table(["profile", *parts], table),
        ("lower is better; band: interval of the median over the blocks",),
    )


def series(material: Material, place: Place) -> Chart | None:
    """A metric over the time of a sample: the median of the blocks in each interval."""
    lots = _by_label(material.of("series", place.group))
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
        rows, material.analysis.labels, "time, s", f"{place.metric}{scale.heading()}", points=False
    )
    return Chart(
        title,
        about,
        spec,
        Table(["profile", "blocks", "least", "median", "most"], table),
        ("line: median over the blocks; band: all blocks",),
    )


def sweeps(material: Material, places: Sequence[Place]) -> list[Chart]:
    """A chart for each parameter of which one workload was measured at three values or more, all
    else alike.
    """
    found: dict[str, tuple[str, dict[float, Place]]] = {}
    for place in places:
        for name, value in place.group.params.items():
            if not is_number(value):
                continue
            group = place.group
            others = {key: item for key, item in group.params.items() if key != name}
            key = json.dumps(
                [
                    name,
                    group.environment,
                    context.key(context.place(group) | {"params": others}),
                    group.metric,
                ]
            )
            found.setdefault(key, (name, {}))[1][float(value)] = place
    return [
        _sweep(material, name, dict(sorted(at.items())))
        for name, at in found.values()
        if len(at) >= 3
    ]


def _sweep(material: Material, name: str, at: dict[float, Place]) -> Chart:
    first = next(iter(at.values()))
    scale = Scale.of(
        [row.result.median for place in at.values() for row in place.rows], first.group.unit
    )
    rows, cells = [], {}
    for value, place in at.items():
        for row in place.rows:
            rows.append(_point(row.result, row.label, row.label, value, f"{value:g}", scale))
            cells[row.label, value] = f"{row.shown} ({row.interval})"
    log = min(at) > 0 and max(at) / min(at) >= 30
    title = (
        f"{first.group.workload} {context.coordinate('placement').words(first.group.placement)}:"
        f" {first.metric} over {name}"
    )
    labels = [label for label in material.analysis.labels if any(key[0] == label for key in cells)]
    table = [[label, *(cells.get((label, value), "-") for value in at)] for label in labels]
    spec = specs.lines(
        rows,
        material.analysis.labels,
        f"{name}{' (log scale)' if log else ''}",
        f"{first.metric}{scale.heading()}",
        log=log,
    )
    about = f"{title}: a line a profile, with the interval of the median as a band."
    return Chart(
        title,
        about,
        spec,
        Table([name, *(f"{value:g}" for value in at)], table),
        ("band: interval of the median",),
    )


def trends(material: Material) -> list[Chart]:
    """The primary metric of each place over the runs, by their time."""
    lots: dict[tuple[Any, ...], list[tuple[str, str, Result]]] = {}
    words: dict[tuple[Any, ...], str] = {}
    for run in material.runs:
        shown = {
            (place_of(group), group.metric): describe(group) for group in primary_groups(run.alone)
        }
        for result in run.alone.results:
            where = (place_of(result), result.metric)
            if where in shown and not result.reading:
                key = (run.number, *where)
                words[key] = shown[where] + (
                    f" (environment {run.number + 1})" if run.number else ""
                )
                lots.setdefault(key, []).append((run.alone.run.started, run.id, result))
    return [
        _trend(material, words[key], found)
        for key, found in lots.items()
        if len({run for _, run, _ in found}) > 1
    ]


def _trend(material: Material, words: str, found: Sequence[tuple[str, str, Result]]) -> Chart:
    first = found[0][2]
    scale = Scale.of([result.median for _, _, result in found], first.unit)
    metric = METRICS[first.metric].title if first.metric in METRICS else first.metric
    rows = [
        _point(result, result.label, result.label, started, f"{started} ({run})", scale)
        for started, run, result in found
    ]
    table = [
        [
            result.label,
            run,
            started,
            human(result.median, result.unit),
            _interval(result),
            str(result.n),
        ]
        for started, run, result in found
    ]
    table.sort(key=lambda row: (row[0], row[2]))
    title = f"{words}: {metric} over the runs"
    params = ", ".join(f"{key} {value}" for key, value in first.params.items())
    spec = specs.lines(
        rows, material.analysis.labels, "start of the run", f"{metric}{scale.heading()}", time=True
    )
    notes = (
        (
            f"{params + '; ' if params else ''}band: interval of the median within a run; it does"
            " not hold what differs from run to run"
        ),
    )
    return Chart(
        title,
        f"{title}: a line a profile, with intervals.",
        spec,
        Table(["profile", "run", "started", "median", "interval", "blocks"], table, False),
        notes,
    )


def pods(material: Material, place: Place) -> Chart | None:
    """The steps of a Pod's start, stacked: each step's median over all Pods of a profile."""
    lots = _by_label(material.of("pods", place.group))
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
    spec = specs.stacked(rows, names, f"time, {scale.unit}", [shade[name] for name in names])
    return Chart(
        title,
        f"{title}, a bar a profile.",
        spec,
        Table(["profile", "Pods", "sum", *names], table),
        ("median over the Pods of each step; shorter is better",),
    )


def _point(
    result: Result, label: str, line: str, x: Any, shown_x: str, scale: Scale
) -> dict[str, Any]:
    return {
        "profile": label,
        "line": line,
        "x": x,
        "y": result.median / scale.factor,
        "low": _by(result.ci_low, scale.factor),
        "high": _by(result.ci_high, scale.factor),
        "shown": human(result.median, result.unit),
        "shown_x": shown_x,
    }


def _interval(result: Result) -> str:
    if result.ci_low is None or result.ci_high is None:
        return "too few blocks"
    return f"{human(result.ci_low, result.unit)} to {human(result.ci_high, result.unit)}"


def _by(value: float | None, factor: float) -> float | None:
    return None if value is None else value / factor


def _by_label(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["label"], []).append(record)
    return found


def _quantile(shares: Sequence[float], values: Sequence[float], share: float) -> float:
    return next(
        (value for at, value in zip(shares, values, strict=True) if at >= share - 1e-9), values[-1]
    )


MAKERS: tuple[Callable[[Material, Place], Chart | None], ...] = (latency, percentiles, series, pods)
