"""The report as one JSON document: every figure, pair, group, component, attestation and failure
(INTERFACE, report --format json).
"""

from __future__ import annotations

import msgspec

from cnibench.analysis.model import Analysis


class JsonReport:
    """Numbers that are not finite are null."""

    name = "json"
    suffix = ".json"

    def render(self, analysis: Analysis) -> str:
        return msgspec.json.format(msgspec.json.encode(analysis), indent=1).decode() + "\n"


PROVIDER = JsonReport()
