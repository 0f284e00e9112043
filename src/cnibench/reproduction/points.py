"""What a run has at each point of a panel, beside what the study printed there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cnibench.analysis.model import Analysis, Cpp, Result
from cnibench.claims.judge import interval
from cnibench.claims.measured import complete, counted, places
from cnibench.model.units import is_number
from cnibench.reproduction.model import SHARES, Panel, Series, question
from cnibench.reproduction.said import Said

NOWHERE = "-"  # the place of a line that has no point
TOTAL = ""  # the place of a bar, and of the whole of a stacked one


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A median with its interval over ``n`` blocks in the panel's unit; None where nothing was
    measured, ``why`` says the reason. ``at`` is the place on the x axis.
    """

    series: str
    at: str | float
    published: Said | None = None
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    where: dict[str, Any] = {}
    why: str = ""


def points(panel: Panel, analysis: Analysis) -> list[Point]:
    """All points of a panel, series by series. Places of the x axis are those that the study
    printed and those that were measured; a line without any has one point that says why.
    """
    found = []
    for series in panel.series:
        mine = [_point(panel, series, at, analysis) for at in _axis(panel, series, analysis)]
        if panel.kind == "lines":
            mine = [one for one in mine if one.published or one.ours is not None] or [
                Point(series=series.name, at=NOWHERE, why=_why(panel, series, analysis, False))
            ]
        found += mine
    return found


def _axis(panel: Panel, series: Series, analysis: Analysis) -> list[str | float]:
    if panel.kind == "bars":
        return [TOTAL]
    if panel.kind == "parts":
        return [*panel.components, TOTAL]
    if panel.kind == "shares":
        return list(SHARES)
    rows: list[Cpp | Result] = [*analysis.cpp, *analysis.results]
    values: list[Any] = [
        row.params.get(panel.over)
        for row in rows
        if (row.workload, row.placement, row.profile)
        == (panel.workload, panel.placement, series.profile)
    ]
    measured = {float(value) for value in values if is_number(value)}
    return sorted(measured | {float(at) for at in series.published})


def _point(panel: Panel, series: Series, at: str | float, analysis: Analysis) -> Point:
    said = {str(key): value for key, value in series.published.items()}
    point = Point(
        series=series.name,
        at=at,
        published=said.get(f"{at:g}" if isinstance(at, float) else str(at)),
    )
    asked = question(panel, series, at)
    found = places(analysis, asked)
    for place in found:
        complete(place, analysis)
        if _here(panel, place.conditions):
            middle, low, high, n = interval(
                place.series[series.profile], analysis.level, counted(asked)
            )
            return msgspec.structs.replace(
                point,
                ours=middle / panel.factor,
                low=None if low is None else low / panel.factor,
                high=None if high is None else high / panel.factor,
                n=n,
                where=place.conditions,
            )
    return msgspec.structs.replace(point, why=_why(panel, series, analysis, bool(found)))


def _here(panel: Panel, conditions: Mapping[str, Any]) -> bool:
    return panel.wire_offload in ("", conditions.get("wire_offload")) and panel.ip in (
        None,
        conditions.get("ip"),
    )


def _why(panel: Panel, series: Series, analysis: Analysis, elsewhere: bool) -> str:
    """Why a run has no value at a point."""
    if elsewhere and panel.ip:
        return f"not measured over IPv{panel.ip}"
    if elsewhere:
        return f"not measured with the wire's offload model '{panel.wire_offload}'"
    for one in analysis.failures:
        if one.profile == series.profile and (
            one.block < 0 or (one.workload, one.placement) == (panel.workload, panel.placement)
        ):
            return one.reason
    return "not measured"
