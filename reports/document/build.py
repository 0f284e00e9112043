"""A report as sections, before any format."""

from __future__ import annotations

from cnibench.analysis.model import Analysis
from cnibench.analysis.text import costs
from cnibench.analysis.text.decision import lines, settled
from cnibench.analysis.text.narrative import conditions, cost_places, primary_groups, primary_places
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
    sections += _decision(analysis)
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


def _decision(analysis: Analysis) -> list[Section]:
    """What one run decided, and what the undecided pairs need."""
    pairs = [pair for place in primary_places(analysis) for pair in place.pairs]
    found = settled(analysis, pairs)
    said = [*lines(found), *costs.decided(analysis, cost_places(analysis))] if found else []
    return [Section("Decision", lines=said)] if said else []
