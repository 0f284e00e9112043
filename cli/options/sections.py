"""A command with many options, whose help has them in sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click


class Sections(click.Command):
    """``sections`` maps a title to the names of its options, the common ones first. Those that none
    names come last in the first section.
    """

    def __init__(self, *given: Any, sections: Mapping[str, Sequence[str]], **more: Any) -> None:
        super().__init__(*given, **more)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, rows in self.option_groups(ctx):
            with formatter.section(title):
                formatter.write_dl(rows)

    def option_groups(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """(title, its options with their meanings), of the sections that have any."""
        rows = {one.name: row for one in self.get_params(ctx) if (row := one.get_help_record(ctx))}
        first, *_ = self.sections
        named = {name for names in self.sections.values() for name in names}
        for title, names in self.sections.items():
            rest = [name for name in rows if name not in named] if title == first else []
            if shown := [rows[name] for name in (*names, *rest) if name in rows]:
                yield title, shown
