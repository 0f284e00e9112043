"""Writes the pages of a study's figures, and the list of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cnibench.analysis.model import Analysis
from cnibench.analysis.text import disturbances
from cnibench.analysis.text.narrative import conditions, unheld
from cnibench.claims import evaluate, studies
from cnibench.errors import OutputError
from cnibench.model.units import plural
from cnibench.reports._escape import markdown
from cnibench.reports.document.parts import Table
from cnibench.reports.markdown import table_lines
from cnibench.reports.reproduction.page import Page, page
from cnibench.reports.site.pages.verdicts import WORDS
from cnibench.reproduction import Figure, Figures
from cnibench.system.files import replace_beneath

INDEX = "README.md"


def build(
    study: Figures,
    chosen: Sequence[Figure],
    analysis: Analysis | None,
    notes: Sequence[str],
    out: Path,
) -> list[Page]:
    """A page for each of the figures, their pictures and a list of them in ``out``. ``notes`` are
    those of the run's plan: what it gave up. Raises OutputError.
    """
    found = evaluate(analysis, (study.name,)) if analysis else []
    said = [*_conditions(analysis), *notes] if analysis else []
    pages = [page(studies()[study.name], one, analysis, found, said) for one in chosen]
    files = {INDEX: _index(study, pages, said)}
    for one in pages:
        files |= {one.file: one.text, **one.pictures}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            replace_beneath(out, name, text.encode())
    except OSError as error:
        raise OutputError(f"{out}: {error.strerror}", "name another directory with --out") from None
    return pages


def _conditions(analysis: Analysis) -> list[str]:
    run = analysis.run
    said = [*unheld(analysis), *disturbances.summary(analysis), *conditions(analysis)]
    return [f"run: {run.id}, started {run.started}", *said]


def measured(one: Page) -> str:
    """How many points of a page were measured: ``24 of 24``."""
    every = [point for _, values in one.panels for point in values]
    return f"{sum(point.ours is not None for point in every)} of {len(every)}" if every else "-"


def verdicts(one: Page) -> str:
    """``3 holds here, 1 inconclusive``."""
    counts = Counter[str](judgement.verdict for judgement in one.verdicts)
    return ", ".join(f"{counts[key]} {words}" for key, words in WORDS.items() if counts[key]) or "-"


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
