"""The results as CSV (RFC 4180), one a line, in SI base units."""

from __future__ import annotations

import csv
import io

from cnibench.analysis.model import Analysis
from cnibench.reports._escape import cell
from cnibench.reports._flat import COLUMNS, rows


class CsvReport:
    """What cannot be computed is an empty field; a name that a spreadsheet would take for a formula
    gets an apostrophe before it.
    """

    name = "csv"
    suffix = ".csv"

    def render(self, analysis: Analysis) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        writer.writerow(COLUMNS)
        for row in rows(analysis):
            writer.writerow(
                "" if value is None else cell(value) if isinstance(value, str) else value
                for value in row.values()
            )
        return out.getvalue()


PROVIDER = CsvReport()
