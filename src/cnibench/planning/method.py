"""Which cells of a plan with ``method: slices`` are measured in slices, and which in windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from cnibench.errors import UnsupportedError
from cnibench.model import conditions
from cnibench.model.cell import Cell

if TYPE_CHECKING:
    from cnibench.planning.plan import Plan
    from cnibench.run.workload import Workload

MEASURED = 0.5  # s of slices that a cell has in a block, unless the plan gives a duration
WINDOW = 1.0  # s: the windows for their cycles per packet
CPP_BLOCKS = 2  # that have windows for cycles per packet, unless the plan gives a number


def with_method(cell: Cell, plan: Plan, workload: Workload) -> tuple[Cell, str]:
    """The cell with its method and the duration that goes with it, and in words why it is measured
    in windows; cycles per packet always are, without a word.
    """
    given = cell.duration is not None or "duration" in plan.model_fields_set
    if reason := _why_not(cell, plan, workload):
        return cell, f"{cell.workload} is measured in windows, not in slices: {reason}"
    if cell.window == "cpp":
        blocks = cell.blocks if isinstance(plan.blocks, int) else CPP_BLOCKS
        own = cell.duration if given else WINDOW
        return replace(cell, duration=own, blocks=blocks), ""
    return replace(cell, method="slices", duration=cell.duration if given else MEASURED), ""


def _why_not(cell: Cell, plan: Plan, workload: Workload) -> str:
    if plan.pairs > 1:
        return "pairs at the same time do not take turns"
    if conditions.of(cell.params):
        return "its conditions would hold for the other cells of its deployment, too"
    try:
        workload.load(cell)
    except UnsupportedError as error:
        return error.message
    return ""
