"""Vega-Lite specifications of the charts: pure functions from rows to a specification, the data
inside.

A component has the colour that the taxonomy gives it, a CNI that of ``_looks``; other things have
those of Okabe and Ito (2008), which people with any common colour blindness can distinguish. A
field named ``profile`` is what the page's filter works on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.reports._looks import Look

Spec = dict[str, Any]
Row = Mapping[str, Any]

BLUE, ORANGE, GREEN, VERMILION, SKY, PINK, YELLOW, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#56B4E9",
    "#CC79A7",
    "#F0E442",
    "#999999",
)
SHADES = (BLUE, ORANGE, GREEN, VERMILION, SKY, PINK, YELLOW, GREY)  # of the parts of a stacked bar
_ROW = 30  # pixels a bar
_TICKS = {"tickCount": 5, "labelOverlap": "greedy"}
_BOTH = "isValid(datum.low) && isValid(datum.high)"
# Where a profile is in a ranking, and how full its bar is: the colour says whose it is.
POSITIONS = {
    "in the leading group": 1.0,
    "behind it": 0.45,
    "not decided": 0.45,  # then nobody leads
    "baseline, no CNI": 0.2,
    "failed often": 0.0,
}


def ranking(rows: Sequence[Row], looks: Mapping[str, Look], axis: str) -> Spec:
    """Bars of ``median`` in the order of the rows, with ``low`` to ``high`` as a line over them;
    ``position`` is one of POSITIONS.
    """
    order = [row["profile"] for row in rows]
    own = {
        **_color("profile", order, [looks[label].color for label in order], order),
        "legend": None,  # each bar has its name beside it
    }
    present = [name for name in POSITIONS if any(row["position"] == name for row in rows)]
    full = _color("position", present, [POSITIONS[name] for name in present], present)
    full |= {"type": "ordinal", "sort": present}  # Vega-Lite wants an order for it
    full["legend"] |= {"symbolFillColor": GREY, "symbolStrokeColor": GREY, "symbolStrokeWidth": 1}
    del full["legend"]["symbolOpacity"]
    y = {"field": "profile", "type": "nominal", "sort": order, "title": None}
    tip = [
        _tip("profile"),
        _tip("shown", axis),
        _tip("interval", "interval"),
        _tip("position", "position"),
        _tip("group", "group"),
    ]
    bars = {
        "mark": {"type": "bar", "height": {"band": 0.72}, "strokeWidth": 1.2},
        "encoding": {
            "y": y,
            "x": {
                "field": "median",
                "type": "quantitative",
                "title": axis,
                "scale": {"zero": True},
                "stack": None,
                "axis": _TICKS,
            },
            "fill": own,
            "stroke": own,
            "fillOpacity": full,
            "tooltip": tip,
        },
    }
    interval = {
        "transform": [{"filter": _BOTH}],
        "mark": {"type": "rule", "style": "interval"},
        "encoding": {
            "y": y,
            "x": {"field": "low", "type": "quantitative"},
            "x2": {"field": "high"},
        },
    }
    return _chart(
        rows, {"layer": [bars, *([interval] if _any(rows) else [])], "height": _height(order)}
    )


def stacked(rows: Sequence[Row], parts: Mapping[str, str], axis: str) -> Spec:
    """One bar a ``profile`` out of ``value`` of each ``part``, in the order of ``parts``, which are
    their colours.
    """
    order = list(dict.fromkeys(row["profile"] for row in rows))
    encoding = {
        "y": {"field": "profile", "type": "nominal", "sort": order, "title": None},
        "x": {
            "field": "value",
            "type": "quantitative",
            "title": axis,
            "stack": "zero",
            "axis": _TICKS,
        },
        "color": _color("part", list(parts), list(parts.values()), list(parts)),
        "order": {"field": "rank", "type": "quantitative"},
        "tooltip": [_tip("profile"), _tip("part"), _tip("shown", axis)],
    }
    rank = {part: i for i, part in enumerate(parts)}
    ranked = [{**row, "rank": rank[row["part"]]} for row in rows]
    return _chart(
        ranked,
        {
            "mark": {"type": "bar", "style": "part", "height": {"band": 0.72}},
            "encoding": encoding,
            "height": _height(order),
        },
    )


def lines(
    rows: Sequence[Row],
    looks: Mapping[str, Look],
    x: str,
    y: str,
    *,
    log: bool = False,
    log_y: bool = False,
    time: bool = False,
    points: bool = True,
    zero: bool = True,
    ticks: Spec | None = None,
) -> Spec:
    """A line a ``profile`` through ``x`` and ``y``, a band from ``low`` to ``high`` where rows have
    one; ``log`` is of the axis of ``x``. ``looks`` are those of all profiles, ``ticks`` what the
    axis of ``x`` has of its own.
    """
    here = [label for label in looks if any(row["profile"] == label for row in rows)]
    across: Spec = {
        "field": "x",
        "type": "temporal" if time else "quantitative",
        "title": x,
        "axis": {**_TICKS, **(ticks or {})},
    }
    if log:
        across["scale"] = {"type": "log", "nice": False}
    up = {"type": "quantitative", "title": y, "scale": {"zero": zero}}
    if log_y:
        up["scale"] = {"type": "log", "nice": False}
    color = _color("profile", here, [looks[label].color for label in here], here)
    color["legend"] |= {"symbolType": "stroke", "symbolSize": 900, "symbolStrokeWidth": 2}
    band = {
        "transform": [{"filter": _BOTH}],
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {
            "x": across,
            "y": {"field": "low", **up},
            "y2": {"field": "high"},
            "color": color,
            "detail": {"field": "line", "type": "nominal"},
        },
    }
    dashes = [list(looks[label].dash) for label in here]
    place = {"x": across, "y": {"field": "y", **up}, "color": color}
    line: Spec = {
        "mark": {"type": "line", "strokeWidth": 2},
        "encoding": {
            **place,
            "detail": {"field": "line", "type": "nominal"},
            "strokeDash": {**color, "scale": {"domain": here, "range": dashes}},
            "tooltip": [_tip("profile"), _tip("shown_x", x), _tip("shown", y)],
        },
    }
    point = {
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
        "encoding": {
            **place,
            "shape": {"field": "shape", "type": "nominal", "scale": None},
            "tooltip": line["encoding"]["tooltip"],
        },
    }
    layers = [*([band] if _any(rows) else []), line, *([point] if points else [])]
    marked = [
        {**row, "shape": looks[row["profile"]].shape} for row in rows if row["profile"] in looks
    ]
    return _chart(marked, {"layer": layers, "height": 300})


def _any(rows: Sequence[Row]) -> bool:
    """Has a row an interval? A layer without rows would have no extent."""
    return any(row.get("low") is not None and row.get("high") is not None for row in rows)


def _chart(rows: Sequence[Row], rest: Spec) -> Spec:
    values = [
        {key: _short(value) for key, value in row.items() if value is not None} for row in rows
    ]
    return {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
        **rest,
    }


def _short(value: Any) -> Any:
    """More digits than a picture can show would be most of a page's weight."""
    return float(f"{value:.8g}") if isinstance(value, float) and math.isfinite(value) else value


def _height(names: Sequence[str]) -> int:
    return max(2, len(names)) * _ROW


def _tip(field: str, title: str = "") -> Spec:
    return {"field": field, "type": "nominal", "title": title or field}


def _color(
    field: str, domain: Sequence[str], shades: Sequence[Any], present: Sequence[str]
) -> Spec:
    kept = [(name, shade) for name, shade in zip(domain, shades, strict=True) if name in present]
    scale = {"domain": [name for name, _ in kept], "range": [shade for _, shade in kept]}
    return {
        "field": field,
        "type": "nominal",
        "title": None,
        "scale": scale,
        "legend": {"orient": "bottom", "columns": 3, "symbolOpacity": 1},
    }
