"""What a gate says of a candidate that did not pass: the kernel functions that changed, and the
commands that repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cnibench.errors import InputError

if TYPE_CHECKING:
    from cnibench.analysis.gate.notes import Notes, Remembered
    from cnibench.analysis.gate.verdict import Verdict
    from cnibench.cli.gate.history import Looked
    from cnibench.cli.gate.sides import Chosen
    from cnibench.cpp.summary import Group

_NONE = (
    "Which kernel functions changed is not known: at these places cycles per packet were not"
    " measured on both sides. Measure without --no-perf."
)
_ONE_RUN = (
    "This holds for the deployments of this run. Whether other runs agree, --history FILE knows"
    " after three of them."
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
    options: Sequence[str],
) -> Notes:
    """Everything except the verdict; of one that passed, only what is ``remembered`` or taken for
    granted. ``options`` are those of the command that the one that repeats it needs, too.
    """
    from cnibench.analysis.gate.kernel import changes
    from cnibench.analysis.gate.notes import Notes

    if verdict.exit_code == 0:
        alone = history is None and found.pairwise and len(found.ours) == 1
        return Notes(remembered, advice=_ONE_RUN if alone else "")
    try:
        changed = changes(verdict, _cycles(found.ours), _cycles(found.theirs))
        without = "" if changed else _NONE
    except InputError as error:
        changed, without = [], f"Which kernel functions changed is not known: {error.message}"
    advice = _ADVICE if history is None and verdict.only_values_undecided else ""
    return Notes(remembered, changed, without, _repeat(found, history, options), advice)


def _cycles(items: Sequence[Chosen]) -> list[Group]:
    from cnibench.cpp.summary import groups

    return groups(
        record
        for one in items
        for record in one.reader.records("cpp")
        if record.get("label") == one.label
    )


def _repeat(found: Looked, history: Path | None, options: Sequence[str]) -> list[list[str]]:
    """The command that made the candidate's run, with a number of blocks that does not follow from
    the differences, and the gate on the new run; none for a run that no ``cnibench run`` made.
    """
    candidate = found.theirs[0]
    plan = candidate.reader.plan
    measure = list(plan.command)
    if measure[1:2] != ["run"]:
        return []
    if plan.until_decided:
        measure += ["--blocks", str(plan.blocks)]
    if found.pairwise:
        base = f"last:{found.ours[0].label}"
    else:
        base = ",".join(f"{one.reader.path}:{one.label}" for one in found.ours)
    compare = ["cnibench", "compare", base, f"last:{candidate.label}"]
    compare += ["--threshold", f"{100 * found.threshold:.6g}%"]
    compare += [item for name in found.metrics for item in ("--metric", name)]
    compare += ["--history", str(history)] if history else []
    compare += options
    out = _out_of(measure)
    compare += ["--folder", out] if out != "runs" else []
    return [measure, compare]


def _out_of(command: Sequence[str]) -> str:
    """Where a ``cnibench run`` puts its run directory."""
    found = "runs"
    for word, following in pairwise([*command, ""]):
        name, _, value = word.partition("=")
        if name in ("--folder", "--out"):
            found = value if "=" in word else following
    return found
