"""Build the public board from a folder of bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cnibench.cli.options.shared import url_option
from cnibench.cli.output.printing import json_option, print_json
from cnibench.errors import UsageError
from cnibench.model.units import plural


@click.command(
    "board",
    epilog=(
        "\b\nExamples:\n  cnibench board results --out public\n  cnibench board results --check\n"
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Output directory; an older board is replaced, other files are kept.",
)
@click.option("--check", is_flag=True, help="Only verify the bundles; write nothing.")
@click.option(
    "--force", is_flag=True, help="Also replace edited pages and conflicting files of others."
)
@url_option
@json_option
def command(
    folder: Path, out: Path | None, check: bool, force: bool, url: str, as_json: bool
) -> int:
    """Build the public board from a folder of bundles.

    DIR has one directory for each testbed, with bundles in it (TESTBED/*.cnibench). Each bundle is
    verified and its figures are computed again from its samples. The board ranks the CNIs by
    weights that the reader chooses, and works offline.

    Exit status: 0 when all bundles are accepted, 1 when one is refused; the others are shown.
    """
    from cnibench.reports.board import build as board
    from cnibench.system.text import printable

    if check == (out is not None):
        raise UsageError("give either --out or --check", "--out DIR builds, --check only verifies")
    if out is None:
        count, found = board.check(folder)
        written: dict[str, Any] = {
            "schema": 1,
            "bundles": count,
            "refused": [{"path": one.path, "reason": one.reason} for one in found],
        }
    else:
        written = board.build(folder, out, force=force, url=url)
    refused = written["refused"]
    if as_json:
        print_json(written)
        return 1 if refused else 0
    for one in refused:
        click.echo(printable(f"refused: {one['path']}: {one['reason']}", newlines=False))
    for name in written.get("kept", ()):
        words = "was edited since cnibench wrote it, and is kept; --force replaces it"
        click.echo(f"warning: {name}: {words}", err=True)
    if not written["bundles"] and not refused:
        words = f"{folder} has no bundle in a directory of a testbed (TESTBED/*.cnibench)"
        click.echo(f"warning: {words}", err=True)
    words = f"{plural(written['bundles'], 'bundle')} accepted, {len(refused)} refused"
    if out is not None:
        words = f"{out / 'index.html'}: {words}; {written['bytes'] / 1e6:.1f} MB"
    click.echo(words)
    return 1 if refused else 0
