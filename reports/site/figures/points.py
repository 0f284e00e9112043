"""The values that the figures of a place share: a point with its interval, records by profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cnibench.analysis.model import Result
from cnibench.model.units import human
from cnibench.reports._numbers import Scale
from cnibench.rundir.schema import Record


def point(
    result: Result, label: str, line: str, x: Any, shown_x: str, scale: Scale
) -> dict[str, Any]:
    """A median with its interval, in the unit of ``scale``, as a row of ``specs.lines``."""
    return {
        "profile": label,
        "line": line,
        "x": x,
        "y": result.median / scale.factor,
        "low": scaled(result.ci_low, scale.factor),
        "high": scaled(result.ci_high, scale.factor),
        "shown": human(result.median, result.unit),
        "shown_x": shown_x,
    }


def interval(result: Result) -> str:
    """The interval of a median in words."""
    if result.ci_low is None or result.ci_high is None:
        return "too few blocks"
    return f"{human(result.ci_low, result.unit)} to {human(result.ci_high, result.unit)}"


def scaled(value: float | None, factor: float) -> float | None:
    """A value, where there is one, in the unit of an axis."""
    return None if value is None else value / factor


def by_label(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each profile, in their order."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["label"], []).append(record)
    return found
