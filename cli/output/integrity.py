"""Says what is wrong with the run directories that a command reads, before it says anything
else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cnibench.system.text import printable

if TYPE_CHECKING:
    from cnibench.rundir.reader import RunReader

_SHOWN = 10


def check(readers: Sequence[RunReader], *, raw: bool = False) -> list[str]:
    """What is lost, changed, doubled, out of order or not chained in these runs, in words."""
    from cnibench.rundir.verification import verify

    found = []
    for reader in readers:
        found += [
            printable(f"{reader.path.name}: {problem}") for problem in verify(reader, raw=raw)
        ]
    return found


def later(readers: Sequence[RunReader], problems: list[str], *, err: bool = False) -> int:
    """Adds to ``problems``, and prints, what was found since ``check``: in lines that were decoded
    and raw files that were read. The exit status that the command has at least.
    """
    found = [
        words
        for reader in readers
        for problem in reader.problems
        if (words := printable(f"{reader.path.name}: {problem}")) not in problems
    ]
    problems += found
    first_lines(found, err=err)
    return 1 if problems else 0


def warn(readers: Sequence[RunReader]) -> None:
    """Says on stderr what is usual in a run that was cut off, and what is of an older version."""
    for warning in dict.fromkeys(text for reader in readers for text in reader.warnings):
        click.echo(f"warning: {printable(warning)}", err=True)


def first_lines(problems: Sequence[str], *, err: bool = False) -> int:
    """Prints the problems as the first lines of a result; the exit status that the command has at
    least.
    """
    for line in lines(problems):
        click.echo(line, err=err)
    return 1 if problems else 0


def lines(problems: Sequence[str]) -> list[str]:
    """The first problems, each as a line, and how many more there are."""
    shown = [f"problem: {problem}" for problem in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        shown.append(f"problem: and {len(problems) - _SHOWN} more: 'cnibench verify RUN' names all")
    return shown
