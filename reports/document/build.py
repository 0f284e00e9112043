"""A report as sections, before any format."""

from __future__ import annotations

from cnibench.analysis.model import Analysis
from cnibench.analysis.text.narrative import conditions, primary_groups
from cnibench.analysis.text.places import describe
from cnibench.analysis.text.standings import named
from cnibench.reports.document.comparison import place
from cnibench.reports.document.cycles_per_packet import cycles
from cnibench.reports.document.evidence import attested, disturbed, failed
from cnibench.reports.document.origin import environment
from cnibench.reports.document.parts import Document, Section
from cnibench.reports.document.turning import turning


def document(analysis: Analysis, *, whole: bool) -> Document:
    """``whole``: with every attestation and fact of the environment, as a file has room for; else
    as much as a terminal bears.
    """
    groups = primary_groups(analysis)
    sections = [
        place(analysis, group, name, whole)
        for group, name in zip(groups, named(groups, describe), strict=True)
    ]
    sections += turning(analysis)
    sections += cycles(analysis)
    sections += attested(analysis, whole)
    sections += failed(analysis)
    sections += disturbed(analysis)
    if analysis.notes:
        sections.append(Section("Notes", lines=list(analysis.notes)))
    sections += environment(analysis, whole)
    names = ", ".join(run.name or run.id for run in analysis.runs)
    return Document(f"cnibench report: {names}", conditions(analysis), analysis.summary, sections)
