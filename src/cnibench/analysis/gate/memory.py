"""What the looks of a history and the runs of a command are together. A history that contradicts
itself or the command is refused, with both values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnibench.analysis.gate.history import History, Look, Run
from cnibench.analysis.gate.known import Known, Question, one_version, version_of


@dataclass(frozen=True)
class Together:
    """The runs of both sides by number: of all looks at this candidate, and what the command adds.

    ``new`` are the runs that the history does not have. ``look`` is the number of this look at the
    candidate, the last one again where nothing is new. ``earlier`` are the looks before it.
    ``every_base`` and ``every_candidate`` are those of all candidates. ``others`` are the runs of
    both sides of each other candidate that has several, where blocks are compared.
    """

    base: dict[int, Run]
    candidate: dict[int, Run]
    new: list[Run]
    look: int
    earlier: list[Look]
    every_base: list[Run]
    every_candidate: list[Run]
    others: list[tuple[dict[int, Run], dict[int, Run]]]

    def pairs(self) -> tuple[dict[int, Run], dict[int, Run]]:
        """Base and candidate of each run that has both, whatever the candidate, by number."""
        base = {run.id: run for run in self.every_base}
        both = dict(enumerate(run for run in self.every_candidate if run.id in base))
        return {number: base[run.id] for number, run in both.items()}, both


def together(
    history: History, question: Question, base: Sequence[Run], candidate: Sequence[Run]
) -> Together:
    """``candidate`` may be empty: then there is no candidate, and no look at one.

    Raises InputError if lines of the history contradict each other, or the command: another
    question, machine, base, or setting of the measurement, and runs that are doubled or changed.
    """
    known = Known(history)
    for number, look in enumerate(history.looks, 1):
        known.add(look, number)
    known.same_question(question, "this command")
    new = [run for run in (*base, *candidate) if known.is_new(run)]
    for run in base:
        known.same_role(run, base=True, place="this command")
    for run in candidate:
        known.same_role(run, base=False, place="this command")
    for run in new:
        known.agrees(run, base=run in base, place="this command")
    every_base = _once((*known.base.values(), *base))
    every_candidate = _once((*known.candidate.values(), *candidate))
    version = one_version(candidate) if candidate else None
    earlier = [look for look, seen in known.versions if seen == version]
    numbered = dict(enumerate(run for run in every_candidate if version_of(run) == version))
    if question.how == "blocks":
        by_id = {run.id: run for run in every_base}
        sides = {number: by_id[run.id] for number, run in numbered.items()}
        others = _others(every_candidate, version, by_id)
    else:
        sides, others = dict(enumerate(every_base)), []
    count = len(earlier) + bool(new)
    before = earlier if new else earlier[:-1]
    return Together(sides, numbered, new, count, before, every_base, every_candidate, others)


def _others(
    candidates: Sequence[Run], version: Any, base: Mapping[str, Run]
) -> list[tuple[dict[int, Run], dict[int, Run]]]:
    apart: list[tuple[Any, dict[int, Run]]] = []
    for run in candidates:
        its = version_of(run)
        if its == version:
            continue
        runs = next((runs for known, runs in apart if known == its), None)
        if runs is None:
            apart.append((its, runs := {}))
        runs[len(runs)] = run
    return [
        ({number: base[run.id] for number, run in runs.items()}, runs)
        for _, runs in apart
        if len(runs) > 1
    ]


def _once(runs: Sequence[Run]) -> list[Run]:
    return list({(run.id, run.label): run for run in runs}.values())
