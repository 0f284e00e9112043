"""What a gate says of a candidate that did not pass: the kernel functions that changed, and the
commands that repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cnibench.errors import InputError

if TYPE_CHECKING:
    from cnibench.analysis.gate.notes import Notes, Remembered
    from cnibench.analysis.gate.verdict import Verdict
    from cnibench.cli._gate_memory import Looked
    from cnibench.cli._gate_sides import Chosen
    from cnibench.cpp.summary import Group

_NONE = (
    "Which kernel functions changed is not known: at these places cycles per packet were not"
    " measured on both sides. Measure without --no-perf."
)
_ADVICE = (
    "To measure more without letting more bad candidates pass, give every look, this one included,"
    " the same --history FILE. --plan says how much to measure."
)


def explained(
    verdict: Verdict,
    found: Looked,
    remembered: Remembered | None,
    history: Path | None,
    folder: Path,
) -> Notes:
    """Everything beside the verdict; of one that passed, only what is ``remembered``."""
    from cnibench.analysis.gate.kernel import changes
    from cnibench.analysis.gate.notes import Notes

    if verdict.exit_code == 0:
        return Notes(remembered)
    try:
        changed = changes(verdict, _cycles(found.ours), _cycles(found.theirs))
        without = "" if changed else _NONE
    except InputError as error:
        changed, without = [], f"Which kernel functions changed is not known: {error.message}"
    advice = _ADVICE if history is None and verdict.only_values_undecided else ""
    return Notes(remembered, changed, without, _repeat(found, history, folder), advice)


def _cycles(items: Sequence[Chosen]) -> list[Group]:
    from cnibench.cpp.summary import groups

    return groups(
        record
        for one in items
        for record in one.reader.records("cpp")
        if record.get("label") == one.label
    )


def _repeat(found: Looked, history: Path | None, folder: Path) -> list[list[str]]:
    """The command that made the candidate's run, and the gate on the new run; none for a run that
    no ``cnibench run`` made.
    """
    candidate = found.theirs[0]
    measure = list(candidate.reader.plan.command)
    if measure[1:2] != ["run"]:
        return []
    if found.pairwise:
        base = f"last:{found.ours[0].label}"
    else:
        base = ",".join(f"{one.reader.path}:{one.label}" for one in found.ours)
    compare = ["cnibench", "compare", base, f"last:{candidate.label}"]
    compare += ["--threshold", f"{100 * found.threshold:.6g}%"]
    compare += [item for name in found.metrics for item in ("--metric", name)]
    compare += ["--history", str(history)] if history else []
    compare += ["--folder", str(folder)] if folder != Path("runs") else []
    return [measure, compare]
