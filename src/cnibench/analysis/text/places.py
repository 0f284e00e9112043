"""Where a figure was measured, in words."""

from __future__ import annotations

from cnibench.analysis.model import Where
from cnibench.model import context

_PLACEMENT = dict(context.coordinate("placement").named)


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
