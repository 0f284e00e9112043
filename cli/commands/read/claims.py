"""Check the findings of published studies against a run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnibench.cli import completion
from cnibench.cli.options.runs import one_run, run_argument
from cnibench.cli.options.shared import folder_option
from cnibench.cli.output.integrity import first_lines
from cnibench.cli.output.printing import json_option, print_json, print_table

if TYPE_CHECKING:
    from cnibench.analysis import Analysis
    from cnibench.claims import Judgement

_SILENT = ("not-measured",)


@click.command("claims", epilog=("\b\nExamples:\n  cnibench claims --study qi2021\n"))
@run_argument
@click.option(
    "--study",
    "studies",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.studies,
    help="Only this study: qi2021, bruijn2017 or makowski2018.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Include claims that this run has no result for."
)
@folder_option
@json_option
def command(
    run: str | None, studies: tuple[str, ...], everything: bool, folder: Path, as_json: bool
) -> int:
    """Check the findings of published studies against a run, the last one by default.

    The verdict on a claim is one of: holds; does-not-hold (its preconditions are met and the test
    is significant); inconclusive; by-construction (the lab's model implies it); not-testable-here
    (with the reason); not-measured.
    """
    from cnibench.analysis import analyse
    from cnibench.claims import evaluate
    from cnibench.system.text import printable

    names = tuple(name.strip() for entry in studies for name in entry.split(",") if name.strip())
    analysis = analyse([one_run(run, folder)])
    problems = [printable(problem) for problem in analysis.problems]
    status = first_lines(problems, err=as_json)
    found = evaluate(analysis, names)
    counts = Counter(one.verdict for one in found)
    if as_json:
        print_json(
            {
                "schema": 1,
                "problems": problems,
                "run": analysis.run.id,
                "counts": counts,
                "claims": found,
            }
        )
        return status
    for study in dict.fromkeys(one.study for one in found):
        _show(study, [one for one in found if one.study == study], everything)
    click.echo(
        ", ".join(
            f"{count} {verdict}"
            for verdict, count in sorted(counts.items(), key=lambda item: -item[1])
        )
    )
    for line in _conditions(analysis):
        click.echo(line)
    return status


def _show(study: str, found: list[Judgement], everything: bool) -> None:
    from cnibench.claims import studies
    from cnibench.reports._escape import plain
    from cnibench.reports._judgement import ours

    shown = [
        one
        for one in found
        if everything or (one.verdict not in _SILENT and (one.kind != "statement" or one.figures))
    ]
    title = f"{study}: {studies()[study].title} ({studies()[study].published})"
    if shown:
        rows = [
            (
                one.verdict,
                f"{one.id}: {one.sentence}",
                one.published,
                plain(ours(one)),
                plain(one.reason, 2000),
            )
            for one in shown
        ]
        print_table(("verdict", "claim", "published", "here", "why"), rows, title)
    else:
        click.echo(title)
    if len(shown) < len(found):
        click.echo(
            f"{len(found) - len(shown)} more claims have no figure in this run: --all shows them\n"
        )


def _conditions(analysis: Analysis) -> list[str]:
    """What the figures of this run are, so that nobody takes a model for a CNI."""
    from cnibench.reports._escape import plain

    found = []
    for title, values in (
        ("testbed", {result.testbed for result in analysis.results}),
        (
            "wire",
            {f"{result.wire} (offload: {result.wire_offload})" for result in analysis.results},
        ),
        ("fidelity", {result.fidelity for result in analysis.results}),
        ("cycles", {result.cycles_source for result in analysis.results} - {""}),
    ):
        if values:
            found.append(f"{title}: {plain(', '.join(sorted(values)))}")
    return found
