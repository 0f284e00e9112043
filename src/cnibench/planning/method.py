"""Which cells of a plan with ``method: slices`` are measured in slices, and which in windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cnibench.errors import UnsupportedError
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.units import duration as seconds
from cnibench.registry import provider
from cnibench.testbed.cluster import Cluster

if TYPE_CHECKING:
    from cnibench.planning.plan import Plan, Work
    from cnibench.run.workload import Workload

# s of slices that a cell has in a block, unless the plan gives a duration. The scatter of slices
# is most of what blocks scatter by, and a block takes seconds beside them (ADR 18).
MEASURED = 0.4
WARMUP = 0.2  # s before the windows of a run of slices, unless the plan gives it
CYCLES = 0.4  # s of slices with perf, for its cycles per packet
CPP_BLOCKS = 2  # that have slices with perf, unless the plan gives a number


def with_method(cell: Cell, plan: Plan, workload: Workload) -> tuple[Cell, str]:
    """The cell with its method, and the duration and the parameters that go with it; and in words
    why it is measured in windows, or what of the plan does not hold in slices.
    """
    given = cell.duration is not None or "duration" in plan.model_fields_set
    if reason := _why_not(cell, plan, workload):
        return cell, f"{cell.workload} is measured in windows, not in slices: {reason}"
    usual = CYCLES if cell.window == "cpp" else MEASURED
    held = workload.load(cell).params()
    defaults = workload.params({})
    changed = [
        f"{name} is {value}, not {cell.params[name]}"
        for name, value in held.items()
        if cell.params[name] != defaults[name]
    ]
    if "warmup" in plan.model_fields_set and plan.warmup not in (0.0, WARMUP):
        changed.append(f"no warm-up of {seconds(plan.warmup)}, but a lead-in before each slice")
    sliced = replace(
        cell,
        method="slices",
        duration=cell.duration if given else usual,
        params={**cell.params, **held},
    )
    note = f"{cell.workload} in slices: {', '.join(changed)}" if changed else ""
    return sliced, note


def method_of(plan: Plan, work: Work, workload: Workload) -> tuple[str, float]:
    """The method of all cells of ``work`` without perf, and their time in a block in s; windows
    where some of them cannot be measured in slices.
    """
    duration = work.duration or plan.duration
    for given in work.combinations() if plan.method == "slices" else ():
        own, around = conditions.split(given)
        cell = Cell(
            label="",
            profile="",
            placement=(work.placement or plan.placement)[0],
            workload=work.name,
            params={**workload.params(own), **around},
            duration=work.duration,
        )
        cell, _ = with_method(cell, plan, workload)
        if cell.method == "windows":
            return "windows", duration
        duration = cell.duration or duration
    return plan.method, duration


def with_fewer_cycles(cells: Sequence[Cell], asked: Plan) -> list[Cell]:
    """The cells with cycles per packet in the first blocks only, where ``asked`` leaves the number
    of blocks to the plan: nothing is decided about them.
    """
    auto = {
        work.name
        for work in asked.workload
        if (asked.blocks if work.blocks is None else work.blocks) == "auto"
    }
    return [
        replace(cell, blocks=min(cell.blocks or CPP_BLOCKS, CPP_BLOCKS))
        if cell.method == "slices" and cell.window == "cpp" and cell.workload in auto
        else cell
        for cell in cells
    ]


def _why_not(cell: Cell, plan: Plan, workload: Workload) -> str:
    if plan.pairs > 1:
        return "pairs at the same time do not take turns"
    kind: type[Cluster] = provider("clusters", plan.cluster)
    if cell.window == "cpp" and not kind.cycles_in_slices:
        return "perf runs on other machines"
    if conditions.of(cell.params):
        return "its conditions would hold for the other cells of its deployment, too"
    try:
        load = workload.load(cell)
    except UnsupportedError as error:
        return error.message
    apart = kind.slices == "in turn" or not kind.manages_nodes
    if load.at_server and apart and cell.placement == "inter":
        return "its work is counted on the server's node, which is another machine"
    return ""
