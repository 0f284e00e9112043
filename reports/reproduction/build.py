"""Writes the pages of a study's figures, and the list of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cnibench.analysis.model import Analysis
from cnibench.analysis.text.narrative import conditions, unheld
from cnibench.analysis.text.notes import disturbances
from cnibench.claims import evaluate, studies
from cnibench.model.units import plural
from cnibench.reports._escape import markdown
from cnibench.reports.document.parts import Table
from cnibench.reports.markdown import table_lines
from cnibench.reports.reproduction.page import Page, page
from cnibench.reports.site.pages.verdicts import WORDS
from cnibench.reports.site.publication.folder import check, drafted, place
from cnibench.reproduction import Figure, Figures

INDEX = "README.md"


def build(
    study: Figures,
    chosen: Sequence[Figure],
    analysis: Analysis | None,
    notes: Sequence[str],
    out: Path,
    *,
    force: bool = False,
) -> tuple[list[Page], list[str]]:
    """A page for each of the figures, their pictures and a list of them in ``out``; and the names
    of earlier pages that somebody edited, which stay unless ``force``. ``notes`` are those of the
    run's plan: what it gave up. Raises InputError, and UsageError where a file of somebody else
    has the name of one of these.
    """
    found = evaluate(analysis, (study.name,)) if analysis else []
    said = [*_conditions(analysis), *notes] if analysis else []
    pages = [page(studies()[study.name], one, analysis, found, said) for one in chosen]
    files = {INDEX: _index(study, pages, said)}
    for one in pages:
        files |= {one.file: one.text, **one.pictures}
    check(out)
    with drafted(out) as draft:
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8")
        placed = place(draft, out, [analysis.run.id] if analysis else [], force=force)
    return pages, placed.kept


def _conditions(analysis: Analysis) -> list[str]:
    run = analysis.run
    said = [*unheld(analysis), *disturbances.summary(analysis), *conditions(analysis)]
    return [f"run: {run.id}, started {run.started}", *said]


def measured(one: Page) -> str:
    """How many points of a page were measured: ``24 of 24``."""
    every = [point for _, values in one.panels for point in values]
    return f"{sum(point.ours is not None for point in every)} of {len(every)}" if every else "-"


def verdicts(one: Page) -> str:
    """``holds here: 3, inconclusive: 1``."""
    counts = Counter[str](judgement.verdict for judgement in one.verdicts)
    return (
        ", ".join(f"{words}: {counts[key]}" for key, words in WORDS.items() if counts[key]) or "-"
    )


def _index(study: Figures, pages: Sequence[Page], said: Sequence[str]) -> str:
    about = studies()[study.name]
    rows = [
        [f"{one.figure.called}: {one.figure.title}", measured(one), verdicts(one)] for one in pages
    ]
    table = Table(["figure", "points measured", "claims"], rows, numbers=False)
    lines = [f"# {markdown(f'{study.name}: {about.title}')}", ""]
    lines += [markdown(f"{about.authors}, {about.published}."), ""]
    lines += [*table_lines(table), ""]
    lines += [
        "Pages:",
        "",
        *(f"- [{markdown(one.figure.called)}]({one.file})" for one in pages),
        "",
    ]
    if drawings := [f"{number}: {what}" for number, what in study.drawings.items()]:
        lines += [f"{plural(len(drawings), 'figure')} without data:", ""]
        lines += [*(f"- {markdown(text)}" for text in drawings), ""]
    if said:
        lines += ["## What the figures are", "", *(f"- {markdown(text)}" for text in said), ""]
    return "\n".join(lines).rstrip() + "\n"
