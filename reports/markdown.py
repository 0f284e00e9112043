"""The report as Markdown: tables for a pull request, a wiki or a file."""

from __future__ import annotations

from cnibench.analysis.model import Analysis
from cnibench.reports._escape import markdown
from cnibench.reports.document.build import document
from cnibench.reports.document.parts import Document, Table


class MarkdownReport:
    """GitHub's Markdown; nothing from a run can be taken for markup."""

    name = "md"
    suffix = ".md"

    def render(self, analysis: Analysis) -> str:
        return shown(document(analysis, whole=True))


def shown(whole: Document) -> str:
    """A document as Markdown."""
    lines = [f"# {markdown(whole.title)}", ""]
    lines += [f"- {markdown(line)}" for line in whole.conditions]
    lines += ["", *(text for line in whole.summary for text in (markdown(line), ""))]
    for section in whole.sections:
        lines += [f"## {markdown(section.title)}", ""]
        lines += [f"- {markdown(line)}" for line in section.lines]
        lines += [""] * bool(section.lines)
        for table in section.tables:
            lines += [*table_lines(table), ""]
    return "\n".join(lines).rstrip() + "\n"


def table_lines(table: Table) -> list[str]:
    """A table as lines of Markdown."""
    rule = ["---"] + ["--:" if table.numbers else "---"] * (len(table.heads) - 1)
    rows = [table.heads, *table.rows]
    lines = [f"| {' | '.join(markdown(cell) or ' ' for cell in row)} |" for row in rows]
    return [lines[0], f"|{'|'.join(rule)}|", *lines[1:]]


PROVIDER = MarkdownReport()
