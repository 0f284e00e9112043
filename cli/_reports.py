"""Shows what a run found: in brief, or as JSON, on the screen; all of it as report.md in the run
directory.
"""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.registry import provider
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import REPORT
from cnibench.rundir.writing import report_file


def show(path: Path, as_json: bool) -> int:
    """Analyses the run and prints the answer; stderr says where the rest is. 1 when the run
    directory is damaged, else 0.
    """
    from cnibench.analysis import analyse

    analysis = analyse([RunReader(path)])
    click.echo(provider("reports", "json" if as_json else "brief").render(analysis), nl=False)
    file = path / REPORT
    try:
        kept = report_file.store(path, provider("reports", "md").render(analysis))
    except OSError as error:
        click.echo(f"warning: {file}: {error.strerror}", err=True)
    else:
        if kept:
            click.echo(f"warning: {file} was not as a run wrote it; kept as {kept}", err=True)
        click.echo(f"report: {file}", err=True)
    return 1 if analysis.problems else 0
