"""The first sentence of the overview: which CNI leads, where that is proven."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.model.metrics import COUNTED
from cnibench.reports.site.places import Place


def headline(places: Sequence[Place]) -> str:
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
            " to choose."
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
    return text
