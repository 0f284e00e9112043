"""The first sentence of the overview: which CNI leads, and which needs the fewest cycles."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.model.metrics import COUNTED
from cnibench.reports.site.places import Place


def headline(places: Sequence[Place], baselines: frozenset[str]) -> str:
    """The overview's first sentence."""
    places = [one for one in places if one.group.metric not in COUNTED] or list(
        places
    )  # rules are a reason, not a need
    decided = [one for one in places if one.answer.kind in ("decided", "tie")]
    if not places:
        return "Nothing was measured, so nothing can be recommended."
    if not decided:
        if any(one.answer.kind == "none" for one in places):
            return "The results do not support a recommendation; the reasons follow."
        return (
            "Not decided: no CNI is significantly different from the others in a way that helps"
            f" to choose.{_cost(places, baselines)}"
        )
    count: dict[str, int] = {}
    for one in decided:
        for label in one.answer.labels:
            count[label] = count.get(label, 0) + 1
    most = max(count.values())
    best = [label for label in count if count[label] == most]
    names = best[0] if len(best) == 1 else f"{', '.join(best[:-1])} and {best[-1]}"
    undecided = sum(one.answer.kind in ("open", "inconclusive") for one in places)
    verb, whole = ("is" if len(best) == 1 else "are each"), len(decided)
    where = (
        f"in {'all ' if most == whole else f'{most} of '}{whole} comparisons"
        if whole > 1
        else "in the one comparison"
    )
    text = f"{names} {verb} in the leading group {where} that could be decided."
    if undecided:
        text += f" {undecided} remain{'s' * (undecided == 1)} open."
    return f"{text}{_cost(places, baselines)}"


def _cost(places: Sequence[Place], baselines: frozenset[str]) -> str:
    """Who needs the fewest cycles most often: means over the blocks, without a test."""
    lots = [[row for row in one.cycles if row.label not in baselines] for one in places]
    lots = [rows for rows in lots if len(rows) > 1]
    if not lots:
        return ""
    least = [min(rows, key=lambda row: row.total).label for rows in lots]
    best = max(dict.fromkeys(least), key=least.count)
    estimated = any(row.cycles_source == "estimated" for rows in lots for row in rows)
    return (
        f" Fewest cycles per packet{' (estimated)' * estimated}: {best} in {least.count(best)} of"
        f" {len(lots)}, by the mean, not tested."
    )
