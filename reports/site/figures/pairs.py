"""The charts of a pair, as figures only: templates/pairs.js makes specifications of them. Whole
ones would be most of the weight of a site, which has a page for each pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cnibench.reports.site.figures.specs import Row, Spec

NOBODY, OPEN = "#7a7a7a", "#b07c00"  # no difference, and what is not decided
# of the verdicts: for one side, for the other, no difference, open
_SIDES = ("triangle-right", "triangle-left", "circle", "cross")


def ratios(rows: Sequence[Row], axis: str, verdicts: Sequence[str], better: Sequence[str]) -> Spec:
    """A point at ``ratio``, a line from ``low`` to ``high`` for each ``where``, a rule at 1.

    ``verdict`` is one of four ``verdicts``: the first two are for a side each, which ``better``
    gives the colours of; their marks point at that side.
    """
    said = {row["verdict"] for row in rows}
    marks = zip(verdicts, (*better, NOBODY, OPEN), _SIDES, strict=True)
    met = [list(one) for one in marks if one[0] in said]
    number = {words: at for at, (words, _, _) in enumerate(met)}
    return {
        "form": "ratios",
        "axis": axis,
        "ticks": _ticks(rows),
        "verdicts": met,
        "rows": [
            [
                row["where"],
                *(_short(row[name]) for name in ("ratio", "low", "high")),
                number[row["verdict"]],
                row["shown"],
            ]
            for row in rows
        ],
    }


def waterfall(
    ends: Sequence[tuple[str, float]],
    steps: Mapping[str, float],
    shades: Mapping[str, str],
    axis: str,
) -> Spec:
    """From the value of one of ``ends`` to that of the other, by ``steps`` of these ``shades``."""
    return {
        "form": "waterfall",
        "axis": axis,
        "ends": [[name, _short(value), shades[name]] for name, value in ends],
        "steps": [[name, _short(change), shades[name]] for name, change in steps.items()],
    }


def _ticks(rows: Sequence[Row]) -> list[float]:
    """Round ratios from the least ``low`` to the greatest ``high``, 1 among them. Those that Vega
    chooses on a logarithmic axis have no labels but close to powers of ten.
    """
    low, high = min(1.0, *(row["low"] for row in rows)), max(1.0, *(row["high"] for row in rows))
    if not 0 < low < high < 6 * low:
        first, last = (round(math.log10(one)) if one > 0 else 0 for one in (low, high))
        decades = range(max(first - 1, -12), min(last + 1, 12) + 1)
        return [float(f"{part}e{ten}") for ten in decades for part in (1, 2, 5)]
    rough = (high - low) / 4
    ten = 10.0 ** math.floor(math.log10(rough))
    step = next(part * ten for part in (1, 2, 5, 10) if part * ten >= rough)
    first, last = math.floor((low - 1) / step), math.ceil((high - 1) / step)
    return [round(1 + number * step, 9) for number in range(first, last + 1)]


def _short(value: float) -> float:
    """More digits than a picture can show."""
    return float(f"{value:.6g}")
