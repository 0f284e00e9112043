"""Shows what a run found: in brief, or as JSON, on the screen; all of it as report.md in the run
directory.
"""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.cli.output.integrity import first_lines
from cnibench.registry import provider
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import REPORT
from cnibench.rundir.writing import report_file
from cnibench.system.files import working_directory_is_gone
from cnibench.system.text import printable


def show(path: Path, as_json: bool, quiet: bool) -> int:
    """Analyses the run and prints the answer; stderr says where the rest is. If ``quiet``, the path
    of the run directory is all of it, unless the answer is a JSON document. 1 when the run
    directory is damaged, else 0.
    """
    from cnibench.analysis import analyse

    analysis = analyse([RunReader(path)])
    if quiet and not as_json:
        click.echo(str(path))
        first_lines([printable(problem) for problem in analysis.problems], err=True)
    else:
        click.echo(provider("reports", "json" if as_json else "brief").render(analysis), nl=False)
    file = _from_here(path / REPORT)
    try:
        kept = report_file.store(path, provider("reports", "md").render(analysis))
    except OSError as error:
        click.echo(f"warning: {file}: {error.strerror}", err=True)
    else:
        if kept:
            click.echo(f"warning: {file} was not as a run wrote it; kept as {kept}", err=True)
        if not quiet:
            click.echo(elsewhere(file), err=True)
    return 1 if analysis.problems else 0


def elsewhere(file: Path) -> str:
    """The last line of a run: where the rest of the report is; ``file`` as the user may name it."""
    return f"everything else: cnibench report {file.parent} (or its {file.name})"


def _from_here(file: Path) -> Path:
    """``file`` as the current directory has it, where it lies below it."""
    here = None if working_directory_is_gone() else Path.cwd()
    return file.relative_to(here) if here and file.is_relative_to(here) else file
