"""The section of turning points."""

from __future__ import annotations

from cnibench.analysis.model import Analysis, Turning
from cnibench.reports.document.parts import Section, Table, text_of


def turning(analysis: Analysis) -> list[Section]:
    """Where two profiles change places while a parameter grows; where they do not, up to which
    value that was seen.
    """
    if not analysis.turning:
        return []
    rows = []
    for item in analysis.turning:
        params = " ".join(f"{key}={text_of(value)}" for key, value in item.params.items())
        where = (
            f"{item.workload} {item.placement}"
            + (f" IPv{item.ip}" if item.ip != 4 else "")
            + (f" {params}" if params else "")
        )
        rows.append([item.first, item.then, where, item.swept, turning_words(item), str(item.n)])
    heads = ["better at first", "against", "where", "swept", "turning point", "n"]
    lines = [
        "the value of the swept parameter at which the second becomes the better one, with its"
        " interval (exact test, inverted)"
    ]
    return [Section("Turning points", [Table(heads, rows, numbers=False)], lines)]


def turning_words(item: Turning) -> str:
    """``180 (120 to 195)``, ``none up to 200``, or why it cannot be said."""
    if item.verdict == "none":
        return f"none up to {item.up_to:g}"
    if item.at is None or item.low is None or item.high is None:
        return f"inconclusive: {item.reason}"
    return f"{item.at:.3g} ({item.low:.3g} to {item.high:.3g})"
