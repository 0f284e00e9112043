"""List the runs, or show one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli._output import json_option, print_json, print_table

if TYPE_CHECKING:
    from cnibench.store import RunReader

_out = click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Where run directories are.")


@click.group("runs", invoke_without_command=True)
@_out
@json_option
@click.pass_context
def command(ctx: click.Context, out: Path, as_json: bool) -> None:
    """List the runs, or show one."""
    if ctx.invoked_subcommand is None:
        _list(out, as_json)


@command.command("list")
@_out
@json_option
def list_runs(out: Path, as_json: bool) -> None:
    """All runs, oldest first."""
    _list(out, as_json)


@command.command("show")
@click.argument("run")
@_out
@json_option
def show(run: str, out: Path, as_json: bool) -> None:
    """What a run measured and what it is missing."""
    from cnibench.store import RunReader, find

    reader = RunReader(find(run, out))
    if as_json:
        print_json({"schema": 1, **_facts(reader), "plan": reader.plan, "environment": reader.environment, "warnings": reader.warnings})
        return
    facts = _facts(reader)
    print_table(("", ""), [(key, ", ".join(map(str, value)) if isinstance(value, list) else str(value)) for key, value in facts.items()])
    for event in reader.events():
        if event["event"] in ("profile-failed", "run-interrupted", "run-resumed", "run-failed", "stopped"):
            click.echo(f"{event['time']} {event['event']} {event.get('label', '')} {event.get('reason', '')}".rstrip())
    for warning in reader.warnings:
        click.echo(f"warning: {warning}", err=True)


def _list(out: Path, as_json: bool) -> None:
    from cnibench.store import runs

    found = [_facts(reader) for reader in runs(out)]
    if as_json:
        print_json({"schema": 1, "runs": found})
        return
    if not found:
        click.echo(f"no runs in {out}", err=True)
        return
    heads = ("id", "name", "state", "profiles", "samples", "failed", "disturbed")
    print_table(heads, [[", ".join(row[head]) if head == "profiles" else str(row[head]) for head in heads] for row in found])


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
        "id": plan.id, "name": plan.name, "state": "complete" if reader.finished else "cells missing", "started": reader.started,
        "finished": reader.finished, "path": str(reader.path), "profiles": list(plan.profiles), "cells": len(plan.cells),
        "blocks": plan.blocks, "samples": len(status), "failed": len(status) - counts["ok"],
        "disturbed": len(disturbed),
        "unsupported": [one.label for one in plan.unsupported],
        "seed": plan.seed, "tool_version": plan.tool_version,
    }  # fmt: skip
