"""Shows the report of a run: on the screen (text or JSON) and as report.md in the run directory."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.registry import provider
from cnibench.rundir.reader import RunReader
from cnibench.system.files import replace_beneath


def show(path: Path, as_json: bool) -> int:
    """Analyses the run and prints it; the report file is named on stderr. 1 when the run directory
    is damaged, else 0.
    """
    from cnibench.analysis import analyse

    analysis = analyse([RunReader(path)])
    click.echo(provider("reports", "json" if as_json else "text").render(analysis), nl=False)
    file = path / "report.md"
    try:
        replace_beneath(
            path, file.name, provider("reports", "md").render(analysis).encode("utf-8", "replace")
        )
    except OSError as error:
        click.echo(f"warning: {file}: {error.strerror}", err=True)
    else:
        click.echo(f"report: {file}", err=True)
    return 1 if analysis.problems else 0
