"""From the cycles per packet of one profile to those of another: a step for each component."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Cpp, Pair
from cnibench.cpp import colors
from cnibench.reports._looks import Look
from cnibench.reports.document.parts import Table
from cnibench.reports.site.figures import pairs
from cnibench.reports.site.figures.charts import Chart

_STEPS = 8  # components with a step of their own; the others share one
_NAMED = ("ebpf", "vxlan", "conntrack", "bridge")  # always have their own: CNIs differ in these


def sentence(one: Cpp, other: Cpp, pair: Pair | None) -> str:
    """Who takes more, how certain that is, and where the other one saves and pays most."""
    most, least = (one, other) if one.total >= other.total else (other, one)
    proven = pair is not None and pair.verdict in PROVEN
    certainty = "a significant difference" if proven else "not proven to differ"
    if proven and pair and pair.basis == "additive model":
        certainty += ", assuming normal noise"
    text = (
        f"{most.label} takes {most.total:,.0f} cycles per packet, {least.label} {least.total:,.0f}"
        f" ({certainty if pair else 'not tested'})"
    )
    steps = _steps(least, most)
    if not proven or not steps:
        return f"{text}."
    saved, paid = max(steps, key=steps.__getitem__), min(steps, key=steps.__getitem__)
    text += f": {least.label} saves {steps[saved]:,.0f} cycles of {saved}"
    if steps[paid] < 0:
        text += f" and pays {-steps[paid]:,.0f} of {paid}"
    return f"{text}."


def chart(one: Cpp, other: Cpp, where: str, known: Sequence[Look]) -> Chart:
    """The steps from ``one`` to ``other``, the largest first; ``known`` are their looks."""
    steps = _steps(one, other)
    largest = sorted(steps.keys() - {colors.OTHER}, key=lambda name: (-abs(steps[name]), name))
    own = sorted(largest, key=lambda name: name not in _NAMED)[:_STEPS]
    shown = {name: steps[name] for name in largest if name in own}
    if rest := sum(steps[name] for name in steps if name not in shown):
        shown[colors.OTHER] = rest
    shades = {name: colors.color(name) for name in shown} | {
        row.label: look.color for row, look in zip((one, other), known, strict=True)
    }
    estimated = "estimated" in (one.cycles_source, other.cycles_source)
    axis = "cycles per packet" + (" (estimated)" if estimated else "")
    title = f"{where}: from {one.label} to {other.label}"
    before, after = _parts(one), _parts(other)
    names = [name for name in colors.stacking() if name in before or name in after]
    values = [
        *((name, before.get(name, 0.0), after.get(name, 0.0)) for name in names),
        ("total", one.total, other.total),
    ]
    table = [[name, f"{x:,.1f}", f"{y:,.1f}", f"{y - x:+,.1f}"] for name, x, y in values]
    return Chart(
        title,
        f"{title}: the difference in cycles per packet of each component, the largest first.",
        pairs.waterfall([(row.label, row.total) for row in (one, other)], shown, shades, axis),
        Table(["component", one.label, other.label, "difference"], table),
        pictured=False,
    )


def _steps(one: Cpp, other: Cpp) -> dict[str, float]:
    """What each component contributes to the difference of ``other``."""
    before, after = _parts(one), _parts(other)
    found = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {*before, *after}}
    return {name: found[name] for name in sorted(found) if found[name]}


def _parts(row: Cpp) -> dict[str, float]:
    return colors.grouped(row.components, row.unclassified)
