"""Test in CI that a candidate is not worse than its base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cnibench.cli._integrity import check, first_lines, later, lines, warn
from cnibench.cli._options import file_option, folder_option
from cnibench.cli._output import json_option, print_json
from cnibench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cnibench.analysis.samples.series import Gathered
    from cnibench.analysis.verdict import Verdict
    from cnibench.rundir.reader import RunReader


@click.command(
    "compare",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench compare last:base last:candidate --threshold 5%\n"
        "  cnibench compare run1,run2,run3 run4 --format junit --out gate.xml\n"
    ),
)
@click.argument("base")
@click.argument("candidate")
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
    candidate: str,
    threshold: str,
    metrics: tuple[str, ...],
    inconclusive: str,
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

    Exit status: 0 proven not worse than the threshold, 4 worse, 5 undecided or a cell is
    missing, 2 the two sides are not comparable. --inconclusive pass turns 5 into 0 only where both
    sides have values and nothing but their difference is undecided. A cell that is missing, in
    which the candidate fails more often, or that is undecided because of disturbed samples stays 5.
    """
    from cnibench.analysis.build import contexts_of, main_of
    from cnibench.analysis.gate import judge, side
    from cnibench.analysis.samples.series import gather
    from cnibench.model.units import fraction
    from cnibench.rundir.index import each_once

    sides = _sides(base, folder), _sides(candidate, folder)
    ours, theirs = sides
    pairwise = len(ours) == len(theirs) == 1 and (
        ours[0].reader.path.resolve() == theirs[0].reader.path.resolve()
    )
    if pairwise and ours[0].label == theirs[0].label:
        raise UsageError(
            f"base and candidate are both {ours[0].label} of one run",
            "name two profiles: RUN:base RUN:candidate",
        )
    if not pairwise:
        each_once(
            [one.reader for one in (*ours, *theirs)],
            "name each run once; within one run: RUN:base RUN:candidate, with the same RUN",
        )
    readers = {one.reader.id: one.reader for one in (*ours, *theirs)}
    problems = check(list(readers.values()))
    quiet = as_json or form != "text" or out is not None
    first_lines(problems, err=quiet)
    gathered = {name: gather([reader]) for name, reader in readers.items()}
    later(list(readers.values()), problems, err=quiet)
    if not allow_different:
        _comparable(ours, theirs, gathered)
    contexts = {name: contexts_of(reader, gathered[name]) for name, reader in readers.items()}
    one, other = (
        side([(contexts[item.reader.id], item.label) for item in items]) for items in sides
    )
    limit = fraction(threshold)
    names = [name.strip() for item in metrics for name in item.split(",") if name.strip()]
    known = {key[-1] for key in one}
    if strange := [name for name in names if name not in known]:
        raise UsageError(
            f"the base has no metric '{strange[0]}'",
            f"it has: {', '.join(sorted(known)) or 'none'}",
        )
    verdict = judge(
        one,
        other,
        limit,
        pairwise=pairwise,
        metrics=names,
        main=main_of([item.reader for item in ours]),
    )
    warn([one.reader for one in (*ours, *theirs)])
    passed = inconclusive == "pass" and verdict.only_values_undecided
    status = 0 if passed else verdict.exit_code
    status = status or (1 if problems else 0)
    if as_json:
        _print_json(verdict, status, problems)
    else:
        _print(verdict, form, out, inconclusive, problems)
    return status


class _Chosen(NamedTuple):
    reader: RunReader
    label: str


def _sides(text: str, folder: Path) -> list[_Chosen]:
    """``RUN[:LABEL],RUN[:LABEL],...``; a label after the last one holds for all that name none."""
    from cnibench.rundir.index import find
    from cnibench.rundir.reader import RunReader

    found: list[tuple[RunReader, str]] = []
    for item in (part.strip() for part in text.split(",")):
        name, colon, label = (item, "", "") if Path(item).is_dir() else item.rpartition(":")
        if not colon:
            name, label = item, ""
        if not name:
            raise UsageError(f"'{text}' names no run", "write RUN or RUN:PROFILE")
        found.append((RunReader(find(name, folder)), label))
    last = found[-1][1]
    return [_Chosen(reader, _label(reader, label or last)) for reader, label in found]


def _label(reader: RunReader, label: str) -> str:
    known = [*reader.plan.profiles, *(one.label for one in reader.plan.unsupported)]
    if label and label not in known:
        raise UsageError(f"{reader.id} has no profile '{label}'", f"it has: {', '.join(known)}")
    if not label and len(reader.plan.profiles) != 1:
        raise UsageError(
            f"{reader.id} has {len(reader.plan.profiles)} profiles",
            f"name one: RUN:PROFILE, of {', '.join(known)}",
        )
    return label or next(iter(reader.plan.profiles))


def _comparable(
    ours: Sequence[_Chosen], theirs: Sequence[_Chosen], gathered: Mapping[str, Gathered]
) -> None:
    """Raises UsageError naming what differs: among the base runs, or between them and a
    candidate.
    """
    from cnibench.analysis.comparability import between, circumstances_of, differences

    found = {
        one: circumstances_of(one.reader, gathered[one.reader.id], one.label)
        for one in dict.fromkeys((*ours, *theirs))
    }
    first = ours[0]
    for one in (*ours[1:], *theirs):
        alike = one.reader.id == first.reader.id
        differs = between(found[first], found[one], first.label, one.label, one_run=alike)
        if one in ours and one.label == first.label:
            differs = list(dict.fromkeys([*differs, *differences(found[first], found[one])]))
        if differs:
            raise UsageError(
                f"{one.reader.id} ({one.label}) is not comparable with {first.reader.id}"
                f" ({first.label}): {'; '.join(differs)}",
                "measure both in the same way, preferably in one run; --allow-different compares"
                " them nevertheless",
            )


def _print_json(verdict: Verdict, status: int, problems: Sequence[str]) -> None:
    """``exit_code`` is what the process ends with, with --inconclusive and problems in it."""
    print_json(
        {
            "schema": 1,
            "problems": problems,
            "exit_code": status,
            "reason": verdict.line,
            "threshold": verdict.threshold,
            "how": verdict.how,
            "cells": verdict.cells,
        }
    )


def _print(
    verdict: Verdict, form: str, out: Path | None, inconclusive: str, problems: Sequence[str]
) -> None:
    from cnibench.cli.report import write
    from cnibench.reports import _gate

    named = lines(problems)
    text = {
        "text": lambda: _gate.text(verdict, named if out else ()),
        "md": lambda: _gate.as_markdown(verdict, named),
        "junit": lambda: _gate.junit(verdict, named, inconclusive=inconclusive),
    }[form]()
    if out is None:
        click.echo(text, nl=False)
    else:
        write(out, text)
        click.echo(verdict.line, err=True)
