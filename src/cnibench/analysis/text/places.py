"""Where a figure was measured: in words, and the cycles of the same place."""

from __future__ import annotations

from typing import Any

from cnibench.analysis.model import Analysis, Cpp, Where
from cnibench.model import context

_PLACEMENT = dict(context.coordinate("placement").named)


def of_cell(**coordinates: Any) -> Where:
    """The place of a cell, of no metric and on no wire, to describe it."""
    return Where(**coordinates, metric="", unit="", better="", testbed="", wire="", wire_offload="")


def describe(where: Where) -> str:
    """``tcp-rr between nodes``, and what of its place is not the usual; 0 stands for what was not
    recorded.
    """
    rest = context.unusual(where) + [f"environment {where.environment + 1}"] * (
        where.environment != 0
    )
    return f"{where.workload} {_PLACEMENT.get(where.placement, where.placement)}" + (
        f" ({', '.join(rest)})" if rest else ""
    )


def cycles_of(analysis: Analysis, where: Where) -> list[Cpp]:
    """The cycles per packet that were measured at this place, one for each label."""
    names = (*context.OF_RECORD, "environment")
    return [
        row
        for row in analysis.cpp
        if all(getattr(row, name) == getattr(where, name) for name in names)
    ]
