"""A look of the gate with a history: what it holds and what the command adds, judged together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnibench.errors import InputError
from cnibench.system.text import printable

if TYPE_CHECKING:
    from cnibench.analysis.comparison.contexts import Context
    from cnibench.analysis.gate.history import History, Look, Run
    from cnibench.analysis.gate.known import Question
    from cnibench.analysis.gate.memory import Together
    from cnibench.analysis.gate.notes import Remembered
    from cnibench.analysis.gate.verdict import Verdict
    from cnibench.analysis.samples.series import Gathered
    from cnibench.cli.gate.sides import Chosen


@dataclass(frozen=True)
class Looked:
    """What a command read: the runs of both sides, by their id what they measured; and what it
    asks.
    """

    ours: Sequence[Chosen]
    theirs: Sequence[Chosen]
    contexts: Mapping[str, list[Context]]
    gathered: Mapping[str, Gathered]
    threshold: float
    metrics: Sequence[str]
    main: Mapping[str, str]
    pairwise: bool

    @property
    def question(self) -> Question:
        from cnibench.analysis.gate.known import Question

        how = "blocks" if self.pairwise else "runs"
        return Question(self.threshold, tuple(sorted(self.metrics)), how)  # type: ignore[arg-type]


def recorded(found: Looked) -> tuple[list[Run], list[Run]]:
    """The runs of base and candidate as a history has them."""
    from cnibench.analysis.comparability import circumstances_of
    from cnibench.analysis.gate.evidence import run_of
    from cnibench.analysis.gate.judgement import Key, judged_keys, side

    base_keys: dict[str, list[Key]] = {}

    def run(item: Chosen, *, base: bool) -> Run:
        name = item.reader.id
        measured = side([(found.contexts[name], item.label)])
        keys = judged_keys(measured, found.metrics, found.main)
        if base:
            base_keys[name] = keys
        else:
            others = [base_keys[name]] if name in base_keys else base_keys.values()
            wanted = {*keys, *(key for keys in others for key in keys)}
            keys = [key for key in measured if key in wanted]
        circumstances = circumstances_of(item.reader, found.gathered[name], item.label)
        return run_of(name, item.label, measured, keys, circumstances)

    ours = [run(item, base=True) for item in found.ours]
    return ours, [run(item, base=False) for item in found.theirs]


def read(path: Path) -> History:
    """The history; stderr says when its last line is left out. Raises InputError as
    ``history.read``.
    """
    from cnibench.analysis.gate import history

    known = history.read(path)
    if known.cut:
        words = "the last line is not finished, as a killed command leaves it, and is left out"
        click.echo(f"warning: {printable(str(path))}: {words}", err=True)
    return known


def look(path: Path, found: Looked, problems: Sequence[str]) -> tuple[Verdict, Remembered]:
    """Judges, and adds the look to the history unless it has all of these runs already. Raises
    InputError for a run that is damaged, not finished or ended by itself, and what ``read`` and
    ``together`` raise.
    """
    from cnibench.analysis.gate.evidence import side_of
    from cnibench.analysis.gate.history import append
    from cnibench.analysis.gate.judgement import judge
    from cnibench.analysis.gate.memory import together
    from cnibench.analysis.gate.noninferiority import LEVEL
    from cnibench.cli.gate.sides import ended_by_itself
    from cnibench.stats.spending import level_of_look

    if problems:
        raise InputError(
            f"{path}: a history takes whole runs only: {problems[0]}",
            "'cnibench verify RUN' names all that is wrong; compare it without --history",
        )
    for one in (*found.ours, *found.theirs):
        if not one.reader.finished:
            raise InputError(
                f"{one.reader.path}: is not finished, and its figures would change when it is",
                f"cnibench run --resume {one.reader.id}",
            )
    if early := ended_by_itself((*found.ours, *found.theirs)):
        raise InputError(
            f"{path}: {early[0]} ended when its pairs were decided: a history takes runs whose"
            " number of blocks does not follow from the differences",
            "measure with a number, --blocks N; 'cnibench compare --plan' says how many",
        )
    known = read(path)
    both = together(known, found.question, *recorded(found))
    level = level_of_look(both.look, LEVEL)
    verdict = judge(
        side_of(both.base),
        side_of(both.candidate),
        found.threshold,
        pairwise=found.pairwise,
        metrics=found.metrics,
        main=found.main,
        level=level,
        others=[(side_of(one), side_of(other)) for one, other in both.others],
        across=True,
    )
    if both.new:
        append(known, _line(known, found, both, level, verdict))
    return verdict, _remembered(path, known, found, both, level)


def _line(known: History, found: Looked, both: Together, level: float, verdict: Verdict) -> Look:
    from cnibench.analysis.gate.history import SCHEMA, Look
    from cnibench.rundir.schema import now

    return Look(
        schema=SCHEMA,
        before=known.last,
        time=now(),
        threshold=found.threshold,
        metrics=list(found.question.metrics),
        how=found.question.how,
        look=both.look,
        level=level,
        outcome=verdict.exit_code,
        base=[(one.reader.id, one.label) for one in found.ours],
        candidate=[(one.reader.id, one.label) for one in found.theirs],
        runs=both.new,
    )


def _remembered(
    path: Path, known: History, found: Looked, both: Together, level: float
) -> Remembered:
    from cnibench.analysis.gate.evidence import between_runs, side_of
    from cnibench.analysis.gate.judgement import judged_keys
    from cnibench.analysis.gate.noninferiority import LEVEL, RUNS
    from cnibench.analysis.gate.notes import Remembered
    from cnibench.stats.spending import spent

    base = side_of(dict(enumerate(both.every_base)))
    noise = between_runs(base, judged_keys(base, found.metrics, found.main)).values()
    spreads = [spread for spread, runs in noise if runs >= RUNS]
    runs = max((runs for _, runs in noise), default=0)
    at_candidate = len(both.earlier) + (not both.new)
    return Remembered(
        file=str(path),
        look=both.look,
        level=level,
        spent=spent(both.look, LEVEL),
        runs=len(both.candidate),
        earlier=[one.outcome for one in both.earlier],
        others=len(known.looks) - at_candidate,
        stored=bool(both.new),
        between=(min(spreads), max(spreads), runs) if spreads else None,
        repeated=not found.pairwise or len(both.candidate) > 1 or bool(both.others),
    )
