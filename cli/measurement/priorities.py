"""``--priority``: what cannot hold is refused before anything starts."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.errors import UsageError
from cnibench.model.cell import Cell
from cnibench.planning.plan import Plan
from cnibench.run.slices.priority import priority_of, refusal
from cnibench.testbed.cluster import Problem


def check(
    plan: Plan, cells: Sequence[Cell], notes: Sequence[str] = (), in_vm: bool = False
) -> None:
    """Raises UsageError when the plan asks for a priority that its cells cannot have. ``notes`` say
    why some of them are measured in windows.
    """
    if plan.priority == "normal" and priority_of(0) == "real-time":
        raise UsageError(
            "--priority normal: cnibench was started at real-time priority, which the programs that"
            " it starts inherit",
            "start it without chrt",
        )
    if plan.priority != "real-time":
        return
    if in_vm:
        raise UsageError(
            "--priority real-time: this run is measured in a VM, whose processors have normal"
            " priority themselves",
            "use --kernel host, or leave --priority out",
        )
    windows = next((cell for cell in cells if cell.method == "windows"), None)
    if windows is None:
        return
    why = [note for note in notes if note.startswith(f"{windows.workload} is measured in windows")]
    raise UsageError(
        "--priority real-time: "
        + (why[0] if why else f"{windows.workload} is measured in windows")
        + "; windows have normal priority",
        f"leave {windows.workload} out, or --priority"
        if why
        else "use --method slices, or leave --priority out",
    )


def missing(priority: str) -> list[Problem]:
    """That the kernel refuses the real-time priority that was asked for."""
    if priority != "real-time" or not (refused := refusal()):
        return []
    return [
        Problem(
            "",
            refused,
            "run it with CAP_SYS_NICE, and in a control group whose cpu.rt_runtime_us permits it,"
            " or leave --priority out",
        )
    ]
