"""Numbers of the points, in the study's units."""

from __future__ import annotations

from cnibench.reproduction import Point


def number(value: float) -> str:
    """Four significant digits, never an exponent."""
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def interval(point: Point) -> str:
    """The interval of a point, '-' where there is none."""
    if point.low is None or point.high is None:
        return "too few blocks" if point.n else "-"
    return f"{number(point.low)} to {number(point.high)}"
