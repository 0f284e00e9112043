"""List the runs, or show one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli.options.runs import one_run, run_argument
from cnibench.cli.options.shared import folder_option, hand_down
from cnibench.cli.output.integrity import check, first_lines, later, warn
from cnibench.cli.output.printing import json_option, print_json, print_table
from cnibench.system.text import printable

if TYPE_CHECKING:
    from cnibench.rundir.reader import RunReader


@click.group("runs", invoke_without_command=True)
@folder_option
@json_option
@click.pass_context
def command(ctx: click.Context, folder: Path, as_json: bool) -> int:
    """List the runs, or show one."""
    if ctx.invoked_subcommand is None:
        return _list(folder, as_json)
    hand_down(ctx)
    return 0


@command.command("list")
@folder_option
@json_option
def list_runs(folder: Path, as_json: bool) -> int:
    """List all runs, oldest first."""
    return _list(folder, as_json)


@command.command("show")
@run_argument
@folder_option
@json_option
def show(run: str | None, folder: Path, as_json: bool) -> int:
    """Show what a run measured and what is missing.

    Without RUN, the last run is shown.
    """
    reader = one_run(run, folder)
    problems = check([reader])
    first_lines(problems, err=as_json)
    facts = _facts(reader)
    status = later([reader], problems, err=as_json)
    warn([reader])
    if as_json:
        facts = {
            **facts,
            "plan": reader.plan,
            "environment": reader.environment,
            "warnings": reader.warnings,
        }
        print_json({"schema": 1, "problems": problems, **facts})
        return status
    print_table(
        ("", ""),
        [
            (key, printable(", ".join(map(str, value)) if isinstance(value, list) else str(value)))
            for key, value in facts.items()
        ],
    )
    for event in reader.events():
        if event["event"] in (
            "profile-failed",
            "run-interrupted",
            "run-resumed",
            "run-failed",
            "stopped",
        ):
            line = (
                f"{event['time']} {event['event']} {event.get('label', '')}"
                f" {event.get('reason', '')}"
            )
            click.echo(printable(line.rstrip()))
    return status


def _list(folder: Path, as_json: bool) -> int:
    from cnibench.errors import InputError
    from cnibench.rundir.index import runs

    unreadable: list[str] = []
    found: list[dict[str, Any]] = []
    for reader in runs(folder, unreadable):
        try:
            found.append(_facts(reader))
            unreadable += [f"{reader.path.name}: {problem}" for problem in reader.problems]
        except InputError as error:
            unreadable.append(error.message)
    for message in unreadable:
        click.echo(f"problem: {printable(message)}", err=True)
    status = 1 if unreadable else 0
    if as_json:
        print_json({"schema": 1, "problems": unreadable, "runs": found})
        return status
    if not found:
        click.echo(f"no runs in {folder}", err=True)
        return status
    heads = ("id", "name", "state", "profiles", "samples", "failed", "disturbed")
    print_table(
        heads,
        [
            [", ".join(row[head]) if head == "profiles" else str(row[head]) for head in heads]
            for row in found
        ],
    )
    return status


def _facts(reader: RunReader) -> dict[str, Any]:
    plan = reader.plan
    status: dict[tuple[str, int], str] = {}
    disturbed = set()
    for sample in reader.samples():
        status[sample.cell, sample.block] = sample.status
        if sample.disturbed:
            disturbed.add((sample.cell, sample.block))
    counts = Counter(status.values())
    return {
        "id": plan.id,
        "name": plan.name,
        "state": "complete" if reader.finished else "cells missing",
        "started": reader.started,
        "finished": reader.finished,
        "path": str(reader.path),
        "profiles": list(plan.profiles),
        "cells": len(plan.cells),
        "blocks": plan.blocks,
        "samples": len(status),
        "failed": len(status) - counts["ok"],
        "disturbed": len(disturbed),
        "again": reader.chain.again,
        "unsupported": [one.label for one in plan.unsupported],
        "seed": plan.seed,
        "tool_version": plan.tool_version,
    }
