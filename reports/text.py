"""The report for a terminal: plain text as wide as asked for, legible from 80 columns on."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence

from cnibench.analysis.model import Analysis
from cnibench.reports._escape import plain
from cnibench.reports.document.build import document
from cnibench.reports.document.parts import Document, Section, Table

_WIDTH = 100
_HEAD = 22  # a heading up to so long stays in one line
_GAP = 2  # blanks between columns


class TextReport:
    """``name`` is the format's name of ``report --format``."""

    name = "text"
    suffix = ".txt"

    def render(self, analysis: Analysis, width: int | None = None, *, full: bool = False) -> str:
        """The report in lines of at most ``width`` characters where its names allow it; None: as
        wide as the terminal, else 100. ``full``: with every attestation and every fact of the
        environment, as in report.md.
        """
        return shown(document(analysis, whole=full), width)


def shown(whole: Document, width: int | None = None) -> str:
    """A document as text of that width; None: as wide as the terminal, else 100."""
    from rich.console import Console

    if width is None:
        width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    width = max(60, width)
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        no_color=True,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=False,
    )
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


def _wide(table: Table, column: int) -> int:
    """The width of a column of numbers: a long heading wraps between its words, the rows do not."""
    head = plain(table.heads[column])
    words = max((len(word) for word in head.split()), default=0)
    return max([words, min(len(head), _HEAD), *(len(plain(row[column])) for row in table.rows)])


def _rich(table: Table) -> object:
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=True)
    for number, head in enumerate(table.heads):
        right = table.numbers and number > 0
        width = _wide(table, number) if table.numbers else None
        shown.add_column(
            Text(plain(head)), justify="right" if right else "left", overflow="fold", width=width
        )
    for row in table.rows:
        shown.add_row(*(Text(plain(cell)) for cell in row))
    return shown


def _parts(table: Table, width: int) -> Sequence[Table]:
    """A table of numbers that is wider than the terminal in several, each with the names; other
    tables wrap in their cells.
    """
    if not table.numbers or not table.rows:
        return [table]
    room = width - _wide(table, 0)
    lots: list[list[int]] = [[]]
    used = 0
    for column in range(1, len(table.heads)):
        wide = _GAP + _wide(table, column)
        if lots[-1] and used + wide > room:
            lots.append([])
            used = 0
        lots[-1].append(column)
        used += wide
    return [
        Table(
            [table.heads[0], *(table.heads[i] for i in lot)],
            [[row[0], *(row[i] for i in lot)] for row in table.rows],
            True,
        )
        for lot in lots
    ]


PROVIDER = TextReport()
