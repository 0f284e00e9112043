"""Shows the report of a run: on the screen (text or JSON) and as report.md in the run directory."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.registry import provider
from cnibench.store import RunReader


def show(path: Path, as_json: bool) -> None:
    """Analyses the run and prints it; the report file is named on stderr."""
    from cnibench.analysis import analyse

    analysis = analyse([RunReader(path)])
    click.echo(provider("reports", "json" if as_json else "text").render(analysis), nl=False)
    file = path / "report.md"
    try:
        file.write_text(provider("reports", "md").render(analysis), encoding="utf-8")
    except OSError as error:
        click.echo(f"warning: {file}: {error.strerror}", err=True)
    else:
        click.echo(f"report: {file}", err=True)
