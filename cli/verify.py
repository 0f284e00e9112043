"""Verify that a run directory is complete and unchanged."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.cli._options import folder_option
from cnibench.cli._output import json_option, print_json


@click.command("verify", epilog=("\b\nExamples:\n  cnibench verify last\n"))
@click.argument("run")
@folder_option
@json_option
def command(run: str, folder: Path, as_json: bool) -> int:
    """Verify that a run directory is complete and unchanged.

    Every hash that the run's events carry is computed again: of the plan, the environment, all
    lines and all raw files.

    Exit status: 0 when nothing is wrong, 1 when something is lost, changed, doubled, out of order
    or not chained.
    """
    from cnibench.rundir.index import find
    from cnibench.rundir.reader import RunReader
    from cnibench.rundir.verification import verify
    from cnibench.system.text import printable

    reader = RunReader(find(run, folder))
    problems = verify(reader, raw=True)
    samples = len(reader.done())
    chain = reader.chain
    if as_json:
        print_json(
            {
                "schema": 1,
                "run": reader.id,
                "path": str(reader.path),
                "chained": chain.chained,
                "finished": reader.finished,
                "samples": samples,
                "events": chain.count,
                "last": chain.last,
                "problems": problems,
                "warnings": reader.warnings,
            }
        )
        return 1 if problems else 0
    for problem in problems:
        click.echo(f"problem: {printable(str(problem))}")
    for warning in reader.warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    name = printable(reader.id)
    state = (
        f"finished {printable(reader.finished)}"
        if reader.finished
        else "not finished: interrupted, or its end is missing"
    )
    click.echo(f"{name}: {samples} samples, {chain.count} events, {state}")
    if problems:
        click.echo(f"{name}: {len(problems)} problem{'s' * (len(problems) != 1)}")
    elif chain.chained:
        click.echo(
            f"{name}: nothing is missing, changed or duplicated; the last event is"
            f" {printable(chain.last)}"
        )
    else:
        click.echo(
            f"{name}: written by an older version without hash chain: changes cannot be detected"
        )
    return 1 if problems else 0
