"""Test in CI that a candidate is not worse than its base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnibench.cli import completion
from cnibench.cli.options.shared import file_option, folder_option
from cnibench.cli.output.integrity import check, first_lines, later, lines, warn
from cnibench.cli.output.printing import json_option, print_json
from cnibench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cnibench.analysis.gate.notes import Notes
    from cnibench.analysis.gate.verdict import Verdict


@click.command(
    "compare",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench compare last:base last:candidate --threshold 5%\n"
        "  cnibench compare run1,run2,run3 run4 --format junit --out gate.xml\n"
        "  cnibench compare last:base --plan\n"
        "  cnibench compare last:base last:candidate --history gate.jsonl\n"
    ),
)
@click.argument("base", shell_complete=completion.runs)
@click.argument("candidate", required=False, shell_complete=completion.runs)
@click.option(
    "--threshold",
    default="5%",
    show_default=True,
    metavar="PERCENT",
    help="Accepted degradation of the candidate.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="LIST",
    help="Also test these metrics.  [default: the main metric of each workload]",
)
@click.option(
    "--inconclusive",
    type=click.Choice(["fail", "pass"]),
    default="fail",
    show_default=True,
    help="Exit status when only differences of values are undecided: fail 5, pass 0.",
)
@click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Decide with all runs of the earlier looks in FILE, and add this one.",
)
@click.option(
    "--plan", "planning", is_flag=True, help="Only show how many blocks and runs a candidate needs."
)
@click.option(
    "--power",
    default="90%",
    show_default=True,
    metavar="PERCENT",
    help="With --plan: probability with which an equal candidate passes.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "junit"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@file_option
@click.option(
    "--allow-different",
    is_flag=True,
    help=(
        "Compare although what must agree differs: machine, kernel, wire, durations, settings,"
        " version."
    ),
)
@folder_option
@json_option
def command(
    base: str,
    candidate: str | None,
    threshold: str,
    metrics: tuple[str, ...],
    inconclusive: str,
    history: Path | None,
    planning: bool,
    power: str,
    form: str,
    out: Path | None,
    allow_different: bool,
    folder: Path,
    as_json: bool,
) -> int:
    """Test in CI that a candidate is not worse than its base.

    Each side is RUN:PROFILE, or RUN if the run has only one profile. Two profiles of one run
    (RUN:base RUN:candidate) are compared within blocks, which is the most sensitive test. To
    compare across runs, give at least 3 base runs, separated by commas: the variation between
    runs is then the noise. Two folders that contain a run of the same id, such as a run and a
    copy of it, are refused.

    Failed samples count: a candidate that fails more often than its base is worse if an exact
    test proves it, and undecided otherwise. Disturbed samples are excluded. A cell in which one
    side was disturbed significantly more often than the other is undecided.

    Repeating an undecided gate until it passes lets more bad candidates pass. With --history, each
    look at a candidate uses all of its blocks so far, and a candidate that is worse than the
    threshold passes with a probability of at most 2.5 %, however many looks there are. No candidate
    passes until the history shows how much runs differ, which takes three runs of one candidate, or
    two runs of two. One command may name several runs of both sides (R1:base,R2:base
    R1:cand,R2:cand). A history covers one base, machine and threshold; a candidate with another
    profile, setting or installation starts over in it.

    --plan needs no candidate: it takes the noise from BASE (and CANDIDATE, if named).

    Exit status: 0 proven not worse than the threshold, 4 worse, 5 undecided or a cell is
    missing, 2 the two sides are not comparable. --inconclusive pass turns 5 into 0 only where both
    sides have values and nothing but their difference is undecided. A cell that is missing, in
    which the candidate fails more often, or that is undecided because of disturbed samples stays 5.
    """
    from cnibench.analysis.build import contexts_of, main_of
    from cnibench.analysis.gate.judgement import judge, side
    from cnibench.analysis.samples.series import gather
    from cnibench.cli.gate.explain import explained
    from cnibench.cli.gate.history import Looked, look
    from cnibench.cli.gate.plan import planned
    from cnibench.cli.gate.sides import comparable, ended_by_itself, of_the_same_runs, sides
    from cnibench.model.units import fraction
    from cnibench.rundir.index import each_once

    if candidate is None and not planning:
        raise UsageError(
            "there is no candidate", "name BASE and CANDIDATE; --plan alone needs none"
        )
    if planning and (form != "text" or out is not None):
        raise UsageError("--plan prints text, or JSON with --json", "leave out --format and --out")
    if history is not None and allow_different:
        raise UsageError(
            "--history separates runs that are not comparable, --allow-different compares them",
            "leave out one of them",
        )
    ours, theirs = sides(base, folder), sides(candidate, folder) if candidate else []
    both = of_the_same_runs(ours, theirs)
    pairwise = both is not None or (len(ours) == 1 and not theirs)
    once = "name each run once; within one run: RUN:base RUN:candidate, with the same RUN"
    if both is None:
        each_once([one.reader for one in (*ours, *theirs)], once)
    else:
        each_once([one.reader for one in ours], once)
        theirs = both
    readers = {one.reader.id: one.reader for one in (*ours, *theirs)}
    problems = check(list(readers.values()))
    quiet = as_json or form != "text" or out is not None
    first_lines(problems, err=quiet)
    gathered = {name: gather([reader]) for name, reader in readers.items()}
    later(list(readers.values()), problems, err=quiet)
    if not allow_different:
        comparable(ours, theirs, gathered)
    contexts = {name: contexts_of(reader, gathered[name]) for name, reader in readers.items()}
    one, other = (
        side([(contexts[item.reader.id], item.label) for item in items]) for items in (ours, theirs)
    )
    limit = fraction(threshold)
    names = [name.strip() for item in metrics for name in item.split(",") if name.strip()]
    known = {key[-1] for key in one}
    if strange := [name for name in names if name not in known]:
        raise UsageError(
            f"the base has no metric '{strange[0]}'",
            f"it has: {', '.join(sorted(known)) or 'none'}",
        )
    main = main_of([item.reader for item in ours])
    found = Looked(ours, theirs, contexts, gathered, limit, names, main, pairwise)
    if planning:
        warn([item.reader for item in (*ours, *theirs)])
        return planned(found, fraction(power), history, problems, as_json=as_json)
    remembered = None
    if history is None:
        verdict = judge(one, other, limit, pairwise=pairwise, metrics=names, main=main)
    else:
        verdict, remembered = look(history, found, problems)
    warn([item.reader for item in (*ours, *theirs)])
    for name in dict.fromkeys(ended_by_itself((*ours, *theirs))):
        click.echo(
            f"warning: {name} ended when its pairs were decided, which lets more bad candidates"
            " pass; measure for a gate with --blocks N",
            err=True,
        )
    options = ["--allow-different"] * allow_different
    options += ["--inconclusive", inconclusive] if inconclusive != "fail" else []
    notes = explained(verdict, found, remembered, history, options)
    passed = inconclusive == "pass" and verdict.only_values_undecided
    status: int = 0 if passed else verdict.exit_code
    status = status or (1 if problems else 0)
    if as_json:
        _print_json(verdict, status, problems, notes)
    else:
        _print(verdict, form, out, inconclusive, problems, notes)
    return status


def _print_json(verdict: Verdict, status: int, problems: Sequence[str], notes: Notes) -> None:
    """``exit_code`` is what the process ends with, with --inconclusive and problems in it."""
    import shlex

    print_json(
        {
            "schema": 1,
            "problems": problems,
            "exit_code": status,
            "reason": verdict.line,
            "threshold": verdict.threshold,
            "how": verdict.how,
            "cells": verdict.cells,
            "history": notes.remembered,
            "cycles": notes.changes,
            "repeat": [shlex.join(one) for one in notes.repeat],
        }
    )


def _print(
    verdict: Verdict,
    form: str,
    out: Path | None,
    inconclusive: str,
    problems: Sequence[str],
    notes: Notes,
) -> None:
    from cnibench.cli.output.file import write
    from cnibench.reports import _gate

    named = lines(problems)
    text = {
        "text": lambda: _gate.text(verdict, named if out else (), notes),
        "md": lambda: _gate.as_markdown(verdict, named, notes),
        "junit": lambda: _gate.junit(verdict, named, notes, inconclusive=inconclusive),
    }[form]()
    if out is None:
        click.echo(text, nl=False)
    else:
        write(out, text)
        click.echo(verdict.line, err=True)
