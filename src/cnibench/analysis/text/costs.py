"""CPU time per transaction or byte of all places together: by how much each profile takes more
than the one that takes least there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.comparison.outcome import outcome
from cnibench.analysis.model import Analysis, Pair
from cnibench.analysis.text.standings import Place
from cnibench.analysis.text.wording import figure
from cnibench.model.units import plural

UNDECIDED = "~ "
_LEAST, _UNKNOWN = "least", "~ undecided"
Interval = tuple[float, float]


def title(base: str = "") -> str:
    """Of the line, where all were compared with the ``base`` or with the least of each place."""
    return f"CPU time against {base}" if base else "CPU time above the least"


def cells(places: Sequence[Place]) -> dict[str, str]:
    """``+13.8 to +17.2 %`` by label, the least first: from the lowest to the highest end of its
    intervals at all places, with a mark where not each of these differences is proven.
    """
    every: list[dict[str, Interval | None]] = []
    unproven: set[str] = set()
    for one in filter(lambda place: place.sound, places):
        first, *others = sorted(one.sound, key=lambda result: result.label != one.base)
        here: dict[str, Interval | None] = {first.label: (1.0, 1.0)}
        for other in others:
            pair = one.pair(first.label, other.label)
            here[other.label] = _interval(pair, other.label)
            if pair is None or pair.verdict not in PROVEN:
                unproven.add(other.label)
        every.append(here)
    found = {
        label: UNDECIDED * (label in unproven and said not in (_LEAST, _UNKNOWN)) + said
        for label, said in words(every).items()
    }
    if len(places) == 1 and places[0].sound:  # there is one figure to say
        found = {
            one.label: f"{found[one.label]} {figure(one)}"
            if found[one.label] == _LEAST
            else found[one.label]
            for one in places[0].sound
        }
    return found


def words(places: Sequence[Mapping[str, Interval | None]]) -> dict[str, str]:
    """The same of ratios to the least at each place, None where nothing is known; without marks."""
    known: dict[str, list[Interval | None]] = {}
    for one in places:
        for label, interval in one.items():
            known.setdefault(label, []).append(interval)
    hulls = {label: _hull(all_) for label, all_ in known.items()}
    order = sorted(hulls, key=lambda label: _middle(hulls[label]))
    return {label: _said(hulls[label]) for label in order}


def decided(analysis: Analysis, places: Sequence[Place]) -> list[str]:
    """How many of its pairs are decided: one sentence, none without pairs."""
    pairs = [pair for one in places for pair in one.pairs]
    if not pairs:
        return []
    found = outcome(pairs, 0, analysis.run.resolution, analysis.level)
    return [
        f"CPU time per transaction or byte: {len(found.different)} of"
        f" {plural(len(pairs), 'pair')} significantly different, {len(found.equal)} equal within"
        f" {100 * found.resolution:.3g} %, {len(found.undecided)} undecided. It does not decide"
        " when a run ends."
    ]


def _interval(pair: Pair | None, label: str) -> Interval | None:
    """Of the ratio of ``label`` to the other one."""
    if pair is None or not pair.ci_low or not pair.ci_high:
        return None
    if pair.a == label:
        return pair.ci_low, pair.ci_high
    return 1 / pair.ci_high, 1 / pair.ci_low


def _hull(intervals: Sequence[Interval | None]) -> Interval | None:
    known = [one for one in intervals if one is not None]
    if len(known) < len(intervals):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _middle(hull: Interval | None) -> float:
    return math.inf if hull is None else sum(hull)


def _said(hull: Interval | None) -> str:
    if hull is None:
        return _UNKNOWN
    if hull == (1.0, 1.0):
        return _LEAST
    low, high = (100 * (end - 1) for end in hull)
    return f"{low:+.1f} to {high:+.1f} %"
