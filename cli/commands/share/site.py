"""Build a static web site of the comparison that works offline."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.cli.options.runs import runs_argument, several
from cnibench.cli.options.shared import pooling_options, url_option
from cnibench.cli.output.integrity import check, first_lines, later, warn
from cnibench.cli.output.printing import json_option, print_json


@click.command(
    "site", epilog=("\b\nExamples:\n  cnibench site\n  cnibench site last --out public\n")
)
@runs_argument
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("site"),
    show_default=True,
    metavar="DIR",
    help="Output directory; an older site is replaced, other files are kept.",
)
@click.option(
    "--raw",
    is_flag=True,
    help="Publish raw data and real names; by default names and addresses are pseudonyms.",
)
@click.option(
    "--force", is_flag=True, help="Also replace edited pages and conflicting files of others."
)
@url_option
@pooling_options
@json_option
def command(
    runs: tuple[str, ...],
    out: Path,
    raw: bool,
    baseline: str,
    allow_different: bool,
    force: bool,
    url: str,
    folder: Path,
    as_json: bool,
) -> int:
    """Build a static web site of the comparison that works offline.

    RUN is a path to a run directory, an id, the beginning of one, or 'last'; without one, the site
    shows the last run. Several runs are pooled where they are comparable, and shown over time. Open
    DIR/index.html; the pages load nothing from a network.
    """
    from cnibench.reports.site.build import build

    readers = several(runs, folder)
    problems = check(readers, raw=raw)
    first_lines(problems, err=as_json)
    written = build(
        readers,
        out,
        raw=raw,
        allow_different=allow_different,
        baseline=baseline,
        force=force,
        url=url,
    )
    status = later(readers, problems, err=as_json)
    warn(readers)
    for name in written["kept"]:
        click.echo(
            f"warning: {out / name}: was edited since cnibench wrote it, and is kept; --force"
            " replaces it",
            err=True,
        )
    if as_json:
        print_json({**written, "problems": problems})
        return status
    click.echo(
        f"{out / 'index.html'}: {len(written['pages'])} pages, {written['charts']} charts,"
        f" {written['bytes'] / 1e6:.1f} MB"
    )
    return status
