"""A place in one sentence where each profile was compared with the baseline only."""

from __future__ import annotations

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.text.standings import Place
from cnibench.analysis.text.wording import figure, names, times


def sentence(one: Place) -> str:
    """Without its full stop; the baseline has a figure there."""
    base = one.base
    own = next(result for result in one.results if result.label == base)
    found: dict[str, list[str]] = {"better": [], "worse": [], "close": [], "untested": []}
    for result in one.sound:
        pair = one.pair(base, result.label)
        if pair is None:
            continue
        if pair.verdict in PROVEN:
            better = (pair.verdict == "a-better") == (pair.a == result.label)
            said = f"{result.label} {times(pair, result.label)}".strip()
            found["better" if better else "worse"].append(said)
        else:
            found["close" if pair.basis else "untested"].append(result.label)
    text = f"{one.name}: compared with {base} ({figure(own)}) only, as ratios to it"
    for kind, words in (
        ("better", "better"),
        ("worse", "worse"),
        ("close", "not significantly different"),
        ("untested", "not tested"),
    ):
        if found[kind]:
            text += f"; {words}: {names(found[kind])}"
    return text
