"""The answer in about ten lines: who is best in each place and by how much, how certain that is,
where the difference comes from, and what disturbed the measurement. ``run`` ends with it.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from cnibench.analysis.model import Analysis
from cnibench.analysis.text import costs, in_brief
from cnibench.analysis.text.narrative import cost_places, primary_places, problems, selected, unheld
from cnibench.analysis.text.notes import disturbances
from cnibench.reports import _standing
from cnibench.reports._escape import plain

_WIDTH = 80
_PLACES = 6  # that are shown; the report has all


class BriefReport:
    """``name`` is the format's name of ``report --format``."""

    name = "brief"
    suffix = ".txt"

    def render(self, analysis: Analysis, width: int | None = None) -> str:
        """Lines of at most ``width`` characters where its names allow it; None: as wide as the
        terminal, else 80.
        """
        if width is None:
            width = (
                shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
            )
        width = max(60, width)
        places = primary_places(analysis)
        shown, resolution = places[:_PLACES], analysis.run.resolution
        before = [*problems(analysis), in_brief.setting(analysis)]
        before += [f"{label}: {what}" for label, what in analysis.current.items()]
        before += [*unheld(analysis), *selected(analysis)]
        after = []
        if len(places) > _PLACES:
            after.append(f"{len(places) - _PLACES} more comparisons are in the report.")
        if places:
            after.append(in_brief.certainty(analysis, places))
        if analysis.independence:
            after.append(analysis.independence)
        after += [*in_brief.why(analysis, places), *in_brief.failed(analysis)]
        after += [*disturbances.brief(analysis), *in_brief.not_tested(analysis)]
        base = analysis.baseline if analysis.family == "baseline" else ""
        cost = costs.title(base), costs.cells(cost_places(analysis))
        ranking = _standing.table(shown, cost, analysis.labels, resolution, width) or _filled(
            _standing.sentences(shown, cost, len(analysis.labels), resolution), width
        )
        lines = [*_filled(before, width), *ranking, *_filled(after, width)]
        return "".join(f"{line}\n" for line in lines)


def _filled(texts: Sequence[str], width: int) -> list[str]:
    return [
        line
        for text in texts
        for line in textwrap.wrap(
            plain(text, 4000), width, subsequent_indent="  ", break_on_hyphens=False
        )
    ]


PROVIDER = BriefReport()
