"""Which runs a command is about: those that were named, else the last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cnibench.cli import completion
from cnibench.errors import UsageError
from cnibench.system.text import printable

if TYPE_CHECKING:
    from cnibench.rundir.reader import RunReader

F = TypeVar("F", bound=Callable[..., Any])


def run_argument(function: F) -> F:
    """One run, which may be left out."""
    return click.argument("run", required=False, shell_complete=completion.runs)(function)


def runs_argument(function: F) -> F:
    """Runs, which may be left out."""
    return click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=completion.runs)(
        function
    )


def one_run(run: str | None, folder: Path) -> RunReader:
    """The run that was named, else the last one. Raises as ``several``."""
    (reader,) = several([run] if run is not None else [], folder)
    return reader


def several(runs: Sequence[str], folder: Path) -> list[RunReader]:
    """The runs that were named, else the last one in ``folder``; stderr says which that is, and
    which could not be considered. Raises UsageError when there is none, InputError for what is no
    run.
    """
    from cnibench.rundir.index import find
    from cnibench.rundir.reader import RunReader

    if runs:
        return [RunReader(find(name, folder)) for name in runs]
    found = all_runs(folder)
    click.echo(f"run: {printable(str(found[-1].path))} (the last one)", err=True)
    return found[-1:]


def all_runs(folder: Path) -> list[RunReader]:
    """All runs in ``folder``; stderr says which could not be read. Raises UsageError when there is
    none.
    """
    from cnibench.rundir.index import runs as every

    unreadable: list[str] = []
    found = every(folder, unreadable)
    for message in unreadable:
        click.echo(f"warning: {printable(message)}", err=True)
    if not found:
        raise UsageError(
            f"there is no run in {folder}",
            "name one, or the directory of the runs with --folder; 'cnibench run' makes one",
        )
    return found
