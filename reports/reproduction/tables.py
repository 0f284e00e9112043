"""The numbers of a panel as a table, and why some are missing."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.reports.document.parts import Table
from cnibench.reports.reproduction.numbers import interval, number
from cnibench.reproduction import Panel, Point


def table(panel: Panel, found: Sequence[Point]) -> Table:
    """A row for each point; of stacked bars two for each bar, with a column for each part."""
    if panel.kind == "parts":
        return _parts(panel, found)
    heads = ["series", panel.x, "published", "here", "interval", "blocks"]
    rows = [
        [
            one.series,
            one.at if isinstance(one.at, str) else f"{one.at:g}",
            one.published.words() if one.published else "-",
            "-" if one.ours is None else number(one.ours),
            interval(one),
            str(one.n or "-"),
        ]
        for one in found
    ]
    if panel.kind == "bars":
        heads, rows = heads[:1] + heads[2:], [row[:1] + row[2:] for row in rows]
    return Table(heads, rows)


def _parts(panel: Panel, found: Sequence[Point]) -> Table:
    rows = []
    for series in panel.series:
        mine = {str(one.at): one for one in found if one.series == series.name}
        said = [one.published.words() if one.published else "-" for one in mine.values()]
        rows.append([f"{series.name}, published", *said])
        if any(one.ours is not None for one in mine.values()):
            rows.append([f"{series.name}, here", *map(_part, mine.values())])
    return Table(["series", *panel.components, "total"], rows)


def _part(one: Point) -> str:
    if one.ours is None:
        return "-"
    return number(one.ours) + (f" ({interval(one)})" if one.low is not None else "")


def missing(found: Sequence[Point]) -> list[str]:
    """``not measured: Weave: the kernel lacks ...``, each reason once."""
    reasons: dict[str, dict[str, None]] = {}
    for one in found:
        if one.ours is None:
            reasons.setdefault(one.why, {})[one.series] = None
    return [
        f"{', '.join(names)}: {why if why.startswith('not measured') else f'not measured: {why}'}"
        for why, names in reasons.items()
    ]
