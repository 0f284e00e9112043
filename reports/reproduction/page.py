"""The page of a figure: its pictures, their numbers, the verdicts of its claims, and what differs
from the study.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cnibench.analysis.model import Analysis
from cnibench.claims import Judgement, Study
from cnibench.reports._escape import markdown
from cnibench.reports._judgement import ours
from cnibench.reports.document.parts import Table
from cnibench.reports.markdown import table_lines
from cnibench.reports.reproduction import pictures
from cnibench.reports.reproduction.tables import missing, table
from cnibench.reports.site.figures.charts import Chart, drawing
from cnibench.reports.site.pages.verdicts import WORDS
from cnibench.reproduction import Figure, Panel, Point, points

_WIDTH = 480  # pixels: its text is still legible on a telephone


@dataclass(frozen=True)
class Page:
    """A page and its pictures, by the names of their files; ``panels`` are its points."""

    figure: Figure
    file: str
    text: str
    pictures: dict[str, str]
    panels: list[tuple[Panel, list[Point]]]
    verdicts: list[Judgement]


def page(
    study: Study,
    figure: Figure,
    analysis: Analysis | None,
    found: Sequence[Judgement],
    conditions: Sequence[str],
) -> Page:
    """The page of a figure; without an analysis nothing was measured. ``found`` has the judgements
    on all claims of the study, ``conditions`` say what the figures are.
    """
    stem = figure.called.lower().replace(" ", "-").replace(".", "-")
    verdicts = [one for one in found if one.id in figure.claims]
    panels = [(one, points(one, analysis)) for one in figure.panels] if analysis else []
    drawn: dict[str, str] = {}
    lines = [f"# {markdown(f'{study.name}, {figure.called}: {figure.title}')}", ""]
    lines += [f"{markdown(f'{study.title} ({study.authors}, {study.published}).')}", ""]
    if figure.also:
        lines += [markdown(f"Also: {figure.also}."), ""]
    if figure.missing:
        lines += [f"**Not measured:** {markdown(figure.missing.rstrip('.'))}.", ""]
    if figure.printed:
        heads, rows = list(figure.printed.heads), [list(row) for row in figure.printed.rows]
        lines += ["## As published", "", *table_lines(Table(heads, rows, numbers=False)), ""]
    for number, (panel, values) in enumerate(panels, 1):
        chart = pictures.chart(panel, values)
        name = f"{stem}-{number}.svg"
        if chart:
            drawn[name] = drawing(chart, _WIDTH)
        lines += _panel(panel, values, chart, name)
    lines += _list("What the study says", figure.findings)
    lines += _verdicts(verdicts)
    lines += _list("What the figures are", [*([figure.model] if figure.model else []), *conditions])
    text = "\n".join(lines).rstrip() + "\n"
    return Page(figure, f"{stem}.md", text, drawn, panels, verdicts)


def _panel(panel: Panel, values: Sequence[Point], chart: Chart | None, name: str) -> Iterator[str]:
    yield from (f"## {markdown(panel.title)}", "")
    if chart:
        yield from (f"![{markdown(chart.about)}]({name})", "", markdown(chart.notes[0]) + ".", "")
    if panel.differs:
        yield from (f"What differs: {markdown(panel.differs)}.", "")
    if values:
        yield from (markdown(f"{panel.y}:"), "", *table_lines(table(panel, values)), "")
    else:
        yield from (f"No point of {markdown(panel.y)} was measured.", "")
    yield from (f"- {markdown(line)}" for line in missing(values))
    for one in panel.series:
        level = one.level.words() if one.level else ""
        if said := ", ".join(filter(None, (level, one.words))):
            yield f"- {markdown(f'{one.name}, as published: {said}')}"
    yield ""


def _list(title: str, entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    return [f"## {title}", "", *(f"- {markdown(entry)}" for entry in entries), ""]


def _verdicts(found: Sequence[Judgement]) -> list[str]:
    if not found:
        return []
    rows = [
        [
            WORDS[one.verdict],
            f"{one.id}: {one.sentence}",
            one.published or "-",
            ours(one),
            one.reason,
        ]
        for one in found
    ]
    heads = ["verdict", "claim", "published", "here", "why"]
    return ["## Claims", "", *table_lines(Table(heads, rows, numbers=False)), ""]
