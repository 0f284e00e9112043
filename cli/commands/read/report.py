"""Show the report of one or more runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from cnibench.cli import completion
from cnibench.cli.options.runs import all_runs, runs_argument, several
from cnibench.cli.options.shared import file_option, pooling_options
from cnibench.cli.output.file import write
from cnibench.cli.output.printing import json_option, print_bytes
from cnibench.errors import UsageError

_FORMATS = (
    "text, brief, md, json, csv, parquet, openmetrics, benchstat, or one that another installed"
    " package offers"
)
_WITH_PROBLEMS = (
    "text",
    "brief",
    "md",
    "json",
)  # the others have no place for what is wrong with a run: it goes to stderr


@click.command(
    "report",
    epilog=(
        "\b\nExamples:\n  cnibench report\n  cnibench report last --format md --out report.md\n"
        "  cnibench report --cni 'calico-*',cilium --family baseline --baseline cilium\n"
        "  cnibench report --trend --folder nightly --baseline veth-baseline\n"
    ),
)
@runs_argument
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    shell_complete=completion.formats,
    default="text",
    show_default=True,
    help=f"What to write: {_FORMATS}.",
)
@file_option
@click.option(
    "--full",
    is_flag=True,
    help="With --format text: every attestation and every fact of the environment, too.",
)
@click.option(
    "--cni",
    multiple=True,
    metavar="NAME",
    help=(
        "Only these labels, and no correction for comparisons with others; accepts patterns and"
        " comma-separated lists."
    ),
)
@click.option(
    "--family",
    type=click.Choice(["all", "baseline"]),
    default="all",
    show_default=True,
    help="Pairs that are compared and corrected for: all, or only those with the baseline.",
)
@click.option(
    "--trend",
    is_flag=True,
    help=(
        "The runs over time, with change points and what changed around them; without RUN, all"
        " runs of --folder. Versions may differ. Ratios to a profile: --baseline."
    ),
)
@pooling_options
@json_option
def command(
    runs: tuple[str, ...],
    form: str,
    out: Path | None,
    full: bool,
    cni: tuple[str, ...],
    family: Literal["all", "baseline"],
    trend: bool,
    baseline: str,
    allow_different: bool,
    folder: Path,
    as_json: bool,
) -> int:
    """Show the report of one or more runs.

    RUN is a path to a run directory, an id, the beginning of one, or 'last'; without one, the last
    run is shown. Several runs are pooled where they are comparable, and each counts once. A copied
    or read-only run directory will do: nothing is measured and nothing is written to it.
    """
    from cnibench.analysis import analyse
    from cnibench.analysis.text.narrative import problems
    from cnibench.registry import provider
    from cnibench.system.text import printable

    chosen = "json" if as_json else form
    if full and chosen != "text":
        raise UsageError(f"--full does not apply to {chosen}", "leave out --full, or use text")
    only = [part.strip() for item in cni for part in item.split(",") if part.strip()]
    if trend:
        for name, given in (("--family", family != "all"), ("--full", full)):
            if given:
                raise UsageError(f"{name} does not apply to --trend", f"leave out {name}")
        return _trend(runs, folder, chosen, out, only, baseline, allow_different)
    readers = several(runs, folder)
    analysis = analyse(
        readers, allow_different=allow_different, baseline=baseline, only=only, family=family
    )
    if chosen not in _WITH_PROBLEMS:
        for line in problems(analysis):
            click.echo(printable(line), err=True)
    report = provider("reports", chosen)
    rendered = report.render(analysis, full=True) if full else report.render(analysis)
    _deliver(rendered, out, chosen)
    return 1 if analysis.problems else 0


def _trend(
    runs: tuple[str, ...],
    folder: Path,
    form: str,
    out: Path | None,
    only: list[str],
    baseline: str,
    allow_different: bool,
) -> int:
    from cnibench.analysis.trend.build import trend
    from cnibench.reports import _trend as report

    report.check(form)
    readers = several(runs, folder) if runs else all_runs(folder)
    found = trend(readers, allow_different=allow_different, baseline=baseline, only=only)
    _deliver(report.FORMATS[form](found), out, form)
    return 1 if found.problems else 0


def _deliver(rendered: str | bytes, out: Path | None, form: str) -> None:
    """Into the file ``out``, else on stdout."""
    if out is not None:
        write(out, rendered)
        click.echo(f"report: {out}", err=True)
    elif isinstance(rendered, str):
        click.echo(rendered, nl=False)
    elif sys.stdout.isatty():
        raise UsageError(f"{form} is binary and stdout is a terminal", "name a file with --out")
    else:
        print_bytes(rendered)
