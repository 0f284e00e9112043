"""The report for a terminal: plain text as wide as asked for, legible from 80 columns on."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence

from cnibench.analysis.model import Analysis
from cnibench.reports._document import Section, Table, document
from cnibench.reports._escape import plain

_WIDTH = 100


class TextReport:
    """``name`` is the format's name of ``report --format``."""

    name = "text"
    suffix = ".txt"

    def render(self, analysis: Analysis, width: int | None = None) -> str:
        """The report in lines of at most ``width`` characters where its names allow it; None: as wide as the terminal, else 100."""
        from rich.console import Console

        if width is None:
            width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
        width = max(60, width)
        out = io.StringIO()
        console = Console(file=out, width=width, no_color=True, highlight=False, markup=False, emoji=False, force_terminal=False)
        whole = document(analysis, whole=False)
        console.print(plain(whole.title))
        for line in whole.conditions:
            console.print(plain(line))
        console.print()
        for line in whole.summary:
            console.print(plain(line, 4000))
        for section in whole.sections:
            _print(console.print, section, width)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _print(write: object, section: Section, width: int) -> None:
    from rich.text import Text

    assert callable(write)
    write()
    write(Text(plain(section.title)))
    write(Text("-" * min(width, len(plain(section.title)))))
    for line in section.lines:
        write(Text(plain(line, 2000)))
    for table in section.tables:
        for part in _parts(table, width):
            write()
            write(_rich(part))


def _rich(table: Table) -> object:
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=True)
    for number, head in enumerate(table.heads):
        right = table.numbers and number > 0
        shown.add_column(Text(plain(head)), justify="right" if right else "left", overflow="fold", no_wrap=False)
    for row in table.rows:
        shown.add_row(*(Text(plain(cell)) for cell in row))
    return shown


def _parts(table: Table, width: int) -> Sequence[Table]:
    """A table of numbers that is wider than the terminal in several, each with the names; other tables wrap in their cells.

    A heading may wrap between its words, so a column is as wide as its widest number or its longest word.
    """
    if not table.numbers or not table.rows:
        return [table]

    def wide(column: int) -> int:
        words = max((len(word) for word in plain(table.heads[column]).split()), default=0)
        return max([words, *(len(plain(row[column])) for row in table.rows)]) + 2

    room = width - wide(0)
    lots: list[list[int]] = [[]]
    used = 0
    for column in range(1, len(table.heads)):
        if lots[-1] and used + wide(column) > room + 2:
            lots.append([])
            used = 0
        lots[-1].append(column)
        used += wide(column)
    return [
        Table([table.heads[0], *(table.heads[i] for i in lot)], [[row[0], *(row[i] for i in lot)] for row in table.rows], True)
        for lot in lots
    ]


PROVIDER = TextReport()
