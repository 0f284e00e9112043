"""A chart of a page: its specification, the same numbers as a table, and the picture as a file of
its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from cnibench.reports._escape import script_json
from cnibench.reports.document.parts import Table
from cnibench.reports.site.figures.specs import Spec

LIGHT: Mapping[str, Any] = {
    "background": "#ffffff",
    "font": "sans-serif",
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 190,
    },
    "legend": {"labelFontSize": 12, "labelLimit": 240, "symbolLimit": 60},
    "style": {
        "interval": {"color": "#1a1a1a", "strokeWidth": 2.5},
        "part": {"stroke": "#555b66", "strokeWidth": 0.6},  # light colours need an edge on white
    },
    "view": {"stroke": None},
}
_WIDTH = 720  # pixels of a picture
_SCALE = 2.0  # pixels of a bitmap for each of them


@dataclass(frozen=True)
class Chart:
    """``about`` says in a sentence what it shows: a screen reader reads it out. ``table`` is None
    where the page has its numbers anyhow. ``file`` is the picture's path below the site; one
    without ``pictured`` is drawn by the page, which makes a picture of it on demand.
    """

    title: str
    about: str
    spec: Spec
    table: Table | None
    notes: tuple[str, ...] = ()
    id: str = ""
    pictured: bool = True

    @property
    def file(self) -> str:
        return f"charts/{self.id}.svg"

    @property
    def bitmap(self) -> str:
        """The same picture for slides and posts that take no SVG."""
        return f"charts/{self.id}.png"

    @property
    def json(self) -> str:
        """The specification for a script element."""
        return script_json(self.spec)


class Gallery:
    """All charts of a site; each gets a name of its own, from which its picture's file has its
    name.
    """

    def __init__(self) -> None:
        self.charts: dict[str, Chart] = {}

    def add(self, chart: Chart, *words: str) -> Chart:
        """The same chart with its id, made of ``words``."""
        named = replace(chart, id=unique("-".join(words), self.charts))
        self.charts[named.id] = named
        return named


def drawing(chart: Chart, width: int = _WIDTH, style: Mapping[str, Any] = LIGHT) -> str:
    """The chart as SVG, ``width`` pixels wide, on white unless ``style`` says otherwise."""
    import vl_convert

    spec = {
        **chart.spec,
        "width": width,
        "title": {"text": chart.title, "anchor": "start"},
        "description": chart.about,
    }
    text: str = vl_convert.vegalite_to_svg(spec, config=dict(style))
    return text


def picture(chart: Chart) -> tuple[str, bytes]:
    """The chart as ``drawing``, and that as PNG of twice its size in pixels."""
    import vl_convert

    text = drawing(chart)
    bitmap: bytes = vl_convert.svg_to_png(text, scale=_SCALE)
    return text, bitmap


@cache
def library() -> str:
    """Vega, Vega-Lite and vega-embed as one script that needs nothing else, wrapped so that it adds
    only ``vegaEmbed`` and its kin.
    """
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub lacks the default
    return f"(function(){{{bundle}}})();\n"


def unique(words: str, taken: Mapping[str, Any] | set[str]) -> str:
    """A name safe as a file's and as an element's id, that is not taken yet."""
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60].strip("-") or "x"
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"
