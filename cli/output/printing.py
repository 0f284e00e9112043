"""What commands print: one JSON document, or tables for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])
_SHORT = 20  # characters, of the 80 of a terminal


def json_option(function: F) -> F:
    """The option --json of every command that prints results."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document to stdout."
    )(function)


def print_json(document: Any) -> None:
    """``document`` on stdout, with structs and mappings as objects."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    print(text)


def print_bytes(content: bytes) -> None:
    """A binary document on stdout, whose errors are those of text."""
    from cnibench.system.text import Stream

    stdout: Any = sys.stdout
    Stream(getattr(stdout, "raw", stdout)).write_bytes(content)


def console() -> Console:
    """Where tables go: stdout, with colours only on a terminal and without NO_COLOR; wide enough
    for a table when it is a file.
    """
    from cnibench.system import text

    terminal = sys.stdout.isatty()
    plain = not terminal or "NO_COLOR" in os.environ
    return text.console(
        sys.stdout, no_color=plain, width=None if terminal else 160, soft_wrap=not terminal
    )


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """A table of plain text; a newline within a cell is shown as an escape, for it could imitate
    another row. Short words of the first column, which rows are found by, are never broken.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from cnibench.system.text import printable

    def plain(words: str) -> Text:
        return Text(printable(words, newlines=False))

    table = Table(
        box=SIMPLE_HEAD, title=plain(title) if title else None, title_justify="left", pad_edge=False
    )
    written = [tuple(row) for row in rows]
    whole = max((len(row[0]) for row in written), default=0) <= _SHORT
    for number, head in enumerate(heads):
        table.add_column(plain(head), overflow="fold", no_wrap=whole and not number)
    for row in written:
        table.add_row(*map(plain, row))
    console().print(table)


def fancy() -> bool:
    """Is there a terminal that may be written on with colours and a bar?"""
    return (
        sys.stderr.isatty()
        and sys.stdout.isatty()
        and "NO_COLOR" not in os.environ
        and os.environ.get("TERM") != "dumb"
    )
