"""Gate for CI: is a candidate no worse than its base?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cnibench.cli._evidence import check, first_lines, warn
from cnibench.cli._output import json_option, print_json
from cnibench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cnibench.analysis.build import Context
    from cnibench.analysis.gate import Verdict
    from cnibench.store import RunReader


@click.command("compare")
@click.argument("base")
@click.argument("candidate")
@click.option("--threshold", default="5%", show_default=True, metavar="PERCENT", help="How much worse the candidate may be.")
@click.option("--metric", "metrics", multiple=True, metavar="LIST", help="Judge these too.  [default: the main metric of each workload]")
@click.option("--inconclusive", type=click.Choice(["fail", "pass"]), default="fail", show_default=True, help="Exit 5 when undecided, or 0.")
@click.option("--format", "form", type=click.Choice(["text", "md", "junit"]), default="text", show_default=True, help="What to write.")
@click.option("--out", type=click.Path(path_type=Path), help="A file to write to, instead of stdout.")
@click.option("--allow-different", is_flag=True, help="Compare although kernel, machine, wire, MTU, pinning or version differ.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Where run directories are.")
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
    """Gate for CI: is a candidate no worse than its base?

    Each side is RUN or RUN:PROFILE; RUN alone when it has one profile. Both sides in one run (RUN:base RUN:candidate) are compared block by
    block, which is best. Across runs, name at least 3 base runs with commas: what runs differ by among themselves is the noise then.

    Exit status: 0 proven within the threshold, 4 worse, 5 undecided or a cell is missing.
    """
    from cnibench.analysis.build import contexts_of
    from cnibench.analysis.gate import judge, side
    from cnibench.units import fraction

    sides = _sides(base, folder), _sides(candidate, folder)
    ours, theirs = sides
    pairwise = len(ours) == len(theirs) == 1 and ours[0].reader.id == theirs[0].reader.id
    if pairwise and ours[0].label == theirs[0].label:
        raise UsageError(f"base and candidate are both {ours[0].label} of one run", "name two profiles: RUN:base RUN:candidate")
    ids = [one.reader.id for one in (*ours, *theirs)]
    if not pairwise and len(set(ids)) < len(ids):
        raise UsageError("a run stands twice among several runs", "name each run once; within one run: RUN:base RUN:candidate")
    problems = check(list({one.reader.id: one.reader for one in (*ours, *theirs)}.values()))
    first_lines(problems, err=as_json or form != "text" or out is not None)
    contexts = {one.reader.id: contexts_of(one.reader) for one in (*ours, *theirs)}
    if not allow_different:
        _comparable([*ours, *theirs], contexts)
    one, other = (side([(contexts[item.reader.id], item.label) for item in items]) for items in sides)
    limit = fraction(threshold)
    names = [name.strip() for item in metrics for name in item.split(",") if name.strip()]
    known = {key[-1] for key in one}
    if strange := [name for name in names if name not in known]:
        raise UsageError(f"the base has no metric '{strange[0]}'", f"it has: {', '.join(sorted(known)) or 'none'}")
    verdict = judge(one, other, limit, pairwise=pairwise, metrics=names)
    warn([one.reader for one in (*ours, *theirs)])
    _print(verdict, form, out, inconclusive, as_json, problems)
    status = 0 if verdict.exit_code == 5 and inconclusive == "pass" else verdict.exit_code
    return status or (1 if problems else 0)


class _Chosen(NamedTuple):
    reader: RunReader
    label: str


def _sides(text: str, folder: Path) -> list[_Chosen]:
    """``RUN[:LABEL],RUN[:LABEL],...``; a label after the last one holds for all that name none."""
    from cnibench.store import RunReader, find

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
        raise UsageError(f"{reader.id} has {len(reader.plan.profiles)} profiles", f"name one: RUN:PROFILE, of {', '.join(known)}")
    return label or next(iter(reader.plan.profiles))


def _comparable(chosen: Sequence[_Chosen], contexts: dict[str, list[Context]]) -> None:
    """Raises UsageError naming what differs between the sides."""
    from cnibench.analysis.comparable import differences, signature

    first: dict[str, str] | None = None
    for one in chosen:
        lines = [context.members[one.label].first for context in contexts[one.reader.id] if one.label in context.members]
        mine = signature(one.reader, lines, across=True)
        first = first or mine
        if found := differences(first, mine):
            raise UsageError(
                f"{one.reader.id} ({one.label}) is not comparable with {chosen[0].reader.id} ({chosen[0].label}): {'; '.join(found)}",
                "measure both alike, best in one run; --allow-different compares them all the same",
            )


def _print(verdict: Verdict, form: str, out: Path | None, inconclusive: str, as_json: bool, problems: Sequence[str]) -> None:
    from cnibench.cli.report import write
    from cnibench.reports import _gate

    if as_json:
        print_json({"schema": 1, "problems": problems, "exit_code": verdict.exit_code, "reason": verdict.line,
                    "threshold": verdict.threshold, "how": verdict.how, "cells": verdict.cells})  # fmt: skip
        return
    text = {
        "text": lambda: _gate.text(verdict),
        "md": lambda: _gate.as_markdown(verdict),
        "junit": lambda: _gate.junit(verdict, inconclusive=inconclusive),
    }[form]()
    if out is None:
        click.echo(text, nl=False)
    else:
        write(out, text)
        click.echo(verdict.line, err=True)
