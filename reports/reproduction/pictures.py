"""Specifications of the pictures: what was published beside what was measured, on the axes of the
study.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.cpp import colors
from cnibench.model.profile import builtin
from cnibench.reports._looks import Look, looks
from cnibench.reports.reproduction.numbers import number
from cnibench.reports.reproduction.tables import table
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.figures.specs import Row, Spec
from cnibench.reproduction import Panel, Point, Series

HERE, PUBLISHED = "measured here", "published"
_ROW = 30  # pixels a bar
_MARK = {"type": "point", "shape": "diamond", "filled": True, "size": 110, "opacity": 1}
_VALID = {"filter": "isValid(datum.published)"}


def chart(panel: Panel, found: Sequence[Point]) -> Chart | None:
    """None where there is nothing to draw."""
    if not any(one.ours is not None or one.published is not None for one in found):
        return None
    spec = _KINDS[panel.kind](panel, found)
    about = f"{panel.title}: {panel.y}. {_key(panel)}."
    return Chart(panel.title, about, spec, table(panel, found), notes=(_key(panel),))


def _key(panel: Panel) -> str:
    """What the marks mean."""
    if panel.kind == "bars":
        return "Bar: median here, with its interval; diamond or thick line: published"
    if panel.kind == "parts":
        return "The published bars have only the parts that the study states"
    if panel.kind == "shares":
        return "Medians over the blocks of the percentiles 50, 90 and 99"
    return (
        "Line and band: median here, with its interval; diamond: published; thin and dotted: a"
        " level that the study gives without its place"
    )


def _bars(panel: Panel, found: Sequence[Point]) -> Spec:
    rows: list[Row] = [
        {
            "profile": one.series,
            "ours": one.ours,
            "low": one.low,
            "high": one.high,
            "published": one.published.middle if one.published else None,
            "least": one.published.low if one.published else None,
            "most": one.published.high if one.published else None,
        }
        for one in found
    ]
    names = [one.series for one in found]
    y = {"field": "profile", "type": "nominal", "sort": names, "title": None}
    axis = {"type": "quantitative", "title": panel.y, "scale": {"zero": True}}
    axis["axis"] = {"tickCount": 5, "labelOverlap": "greedy"}
    kinds = {
        "datum": HERE,
        "type": "nominal",
        "title": None,
        "scale": {"domain": [HERE, PUBLISHED], "range": [specs.BLUE, specs.VERMILION]},
        "legend": {"orient": "bottom", "symbolOpacity": 1, "symbolType": "square"},
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "height": {"band": 0.6}},
            "encoding": {"y": y, "x": {"field": "ours", **axis}, "color": kinds},
        },
        {
            "transform": [_VALID],
            "mark": {"type": "rule", "strokeWidth": 5},
            "encoding": {
                "y": y,
                "x": {"field": "least", **axis},
                "x2": {"field": "most"},
                "color": {**kinds, "datum": PUBLISHED},
            },
        },
        {
            "transform": [_VALID],
            "mark": _MARK,
            "encoding": {
                "y": y,
                "x": {"field": "published", **axis},
                "color": {**kinds, "datum": PUBLISHED},
            },
        },
    ]
    if any(one.low is not None for one in found):
        span = {"y": y, "x": {"field": "low", **axis}, "x2": {"field": "high"}}
        layers.insert(
            1,
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "style": "interval"},
                "encoding": span,
            },
        )
    return _own(rows, {"layer": layers, "height": _height(names)})


def _own(rows: Sequence[Row], rest: Spec) -> Spec:
    values = [{key: value for key, value in row.items() if value is not None} for row in rows]
    sized = {"autosize": {"type": "fit-x", "contains": "padding"}}
    return {**sized, "data": {"values": values}, **rest}


def _height(names: Sequence[str]) -> int:
    return max(2, len(names)) * _ROW


def _lines(panel: Panel, found: Sequence[Point]) -> Spec:
    rows: list[Row] = [
        {
            "profile": one.series,
            "line": one.series,
            "x": one.at,
            "y": one.ours,
            "low": one.low,
            "high": one.high,
            "published": one.published.middle if one.published else None,
        }
        for one in found
        if one.published or one.ours is not None
    ]
    levels = [
        {"profile": one.name, "level": value}
        for one in panel.series
        if one.level
        for value in sorted({one.level.low, one.level.high})
    ]
    spec = specs.lines([*rows, *levels], _looks(panel), panel.x, panel.y)
    for layer in spec["layer"][-2:]:
        layer["transform"] = [{"filter": "isValid(datum.y)"}]
    across, up, color = (spec["layer"][-1]["encoding"][key] for key in ("x", "y", "color"))
    if any(one.published for one in found):
        encoding = {"x": across, "y": {**up, "field": "published"}, "color": color}
        spec["layer"].append({"transform": [_VALID], "mark": _MARK, "encoding": encoding})
    if levels:
        encoding = {"y": {**up, "field": "level"}, "color": color}
        mark = {"type": "rule", "strokeDash": [1, 4], "strokeWidth": 1}
        filtered = [{"filter": "isValid(datum.level)"}]
        spec["layer"].append({"transform": filtered, "mark": mark, "encoding": encoding})
    return spec


def _parts(panel: Panel, found: Sequence[Point]) -> Spec:
    rows: list[Row] = []
    for one in panel.series:
        mine = [point for point in found if point.series == one.name]
        ours = {str(point.at): point.ours for point in mine if point.ours is not None}
        total = ours.pop("", 0.0)
        for name, value in [*ours.items(), (colors.OTHER, total - sum(ours.values()))]:
            rows += _part(f"{one.name}, here", name, value)
        for point in mine:
            if point.published:
                said = f"{one.name}, published"
                rows += _part(said, str(point.at), point.published.middle)
    parts = {name: colors.color(ours[0]) for name, ours in panel.components.items()}
    return specs.stacked(rows, {**parts, colors.OTHER: colors.color(colors.OTHER)}, panel.y)


def _part(profile: str, part: str, value: float) -> list[Row]:
    row = {"profile": profile, "part": part, "value": value, "shown": number(value)}
    return [row] if value > 0 else []


def _shares(panel: Panel, found: Sequence[Point]) -> Spec:
    rows: list[Row] = [
        {"profile": one.series, "line": one.series, "x": one.ours, "y": float(one.at) / 100}
        for one in found
        if one.ours is not None
    ]
    return specs.lines(rows, _looks(panel), panel.x, panel.y)


def _looks(panel: Panel) -> dict[str, Look]:
    """Each series looks like its profile on a site; a second one of that profile like another mode
    of the CNI.
    """
    shipped = builtin()
    keys: dict[str, Series] = {}
    for one in panel.series:
        keys[one.name if one.profile in keys else one.profile] = one
    cnis = {key: {"cni": shipped[one.profile].cni} for key, one in keys.items()}
    return {keys[key].name: look for key, look in looks(cnis).items()}


_KINDS = {"bars": _bars, "lines": _lines, "parts": _parts, "shares": _shares}
