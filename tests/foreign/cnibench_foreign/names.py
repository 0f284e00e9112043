"""A report format: the labels of a run, one a line."""

from __future__ import annotations

from cnibench.analysis.model import Analysis


class Names:
    name = "names"
    suffix = ".txt"

    def render(self, analysis: Analysis) -> str:
        return "\n".join(analysis.labels) + "\n"


PROVIDER = Names()
