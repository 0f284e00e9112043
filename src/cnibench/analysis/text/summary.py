"""The first sentences of a report: what was found at each place, places with the same outcome
together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cnibench.analysis.model import Analysis, Group, Pair, Result, Where
from cnibench.model import context
from cnibench.model.units import human, plural

W = TypeVar("W", bound=Where)
SEVERAL = 6  # names listed before the rest is counted
_EACH = 4  # settings of one sweep that get a sentence each; more get one together


@dataclass(frozen=True)
class Place:
    """``results`` has the best first; ``pairs`` are all of the place. ``name`` says where, in
    words, ``plain`` without its parameters.
    """

    name: str
    plain: str
    group: Group
    results: list[Result]
    pairs: list[Pair]

    @property
    def sweep(self) -> Hashable:
        """What the settings of one sweep share."""
        place = context.place(self.group) | {"params": tuple(self.group.params), "wire_offload": ""}
        return self.group.environment, context.key(place)


def places_of(
    analysis: Analysis,
    shown: Sequence[Group],
    describe: Callable[[Group], str],
    place_of: Callable[[Any], Hashable],
) -> list[Place]:
    """One for each of these groups, in their order. ``describe`` names a place, ``place_of`` gives
    each place a key of its own.
    """
    results: dict[Hashable, list[Result]] = {}
    pairs: dict[Hashable, list[Pair]] = {}
    for result in analysis.results:
        if not result.reading:
            results.setdefault((place_of(result), result.metric), []).append(result)
    for pair in analysis.pairs:
        if not pair.reading:
            pairs.setdefault((place_of(pair), pair.metric), []).append(pair)
    places = []
    for name, plain, group in zip(named(shown, describe), map(describe, shown), shown, strict=True):
        key = (place_of(group), group.metric)
        ranked = sorted(
            results[key], key=lambda result: result.median, reverse=group.better == "higher"
        )
        places.append(Place(name, plain, group, ranked, pairs.get(key, [])))
    return places


def sentences(places: Sequence[Place]) -> list[str]:
    """One for each outcome, in the order of the places."""
    lots: dict[Hashable, list[Place]] = {}
    for one in places:
        lots.setdefault(_outcome(one), []).append(one)
    return [text for lot in lots.values() for text in _sentences_of(lot)]


def named(shown: Sequence[W], describe: Callable[[W], str]) -> list[str]:
    """Each place's name, with those parameters in which places of that name differ."""
    plain = [describe(group) for group in shown]
    lots: dict[str, list[W]] = {}
    for name, group in zip(plain, shown, strict=True):
        lots.setdefault(name, []).append(group)
    return [
        _with(name, _differing(group.params, lots[name]))
        for name, group in zip(plain, shown, strict=True)
    ]


def _differing(own: Mapping[str, Any], alike: Sequence[Where]) -> str:
    keys = [
        key
        for key in own
        if len({json.dumps(group.params.get(key), sort_keys=True) for group in alike}) > 1
    ]
    return ", ".join(f"{key} {own[key]}" for key in keys)


def _with(name: str, more: str) -> str:
    """``tcp-rr between nodes (IPv6, request 64)``: more in the brackets that may be there."""
    if not more:
        return name
    return f"{name[:-1]}, {more})" if name.endswith(")") else f"{name} ({more})"


def _outcome(one: Place) -> Hashable:
    """Places with the same outcome share a sentence."""
    if not one.pairs:
        return "alone", one.results[0].label, one.sweep
    if all(pair.verdict == "inconclusive" for pair in one.pairs):
        return (
            "inconclusive",
            one.pairs[0].n,
            len(one.results),
            max(pair.blocks_needed for pair in one.pairs),
        )
    if len(one.group.order) == 1:
        return "none", len(one.results)
    return "decided", one.sweep


def _sentences_of(lot: Sequence[Place]) -> list[str]:
    kind, one = str(_outcome(lot[0])[0]), lot[0]  # type: ignore[index]
    where = names(_together(lot))
    if kind == "inconclusive":
        needed = max(pair.blocks_needed for pair in one.pairs)
        return [
            f"{where}: inconclusive; {plural(one.pairs[0].n, 'block')}"
            f" {'is' if one.pairs[0].n == 1 else 'are'} too few to compare"
            f" {len(one.results)} profiles, at least {needed} are needed{_failed(lot)}."
        ]
    if kind == "none":
        figure = f" ({one.results[0].label}: {_figure(one.results[0])})" if len(lot) == 1 else ""
        return [
            f"{where}: no significant difference among the {len(one.results)}"
            f" profiles{figure}{_failed(lot)}."
        ]
    if len(lot) > _EACH:
        return [_swept(lot, kind)]
    return [_alone(place) if kind == "alone" else _decided(place) for place in lot]


def _together(lot: Sequence[Place]) -> list[str]:
    """Their names; settings of one sweep are counted."""
    found: dict[str, list[str]] = {}
    for one in lot:
        found.setdefault(one.plain, []).append(one.name)
    return [
        every[0] if len(every) == 1 else _with(plain, f"{len(every)} settings")
        for plain, every in found.items()
    ]


def _alone(one: Place) -> str:
    said = (
        f"{one.name}: {one.results[0].label} reached {_figure(one.results[0])}; there was"
        " no other profile to compare it with"
    )
    return f"{said}{_failed([one])}."


def _decided(one: Place) -> str:
    best, worst, rest = one.results[0], one.results[-1], one.group.order[0][1:]
    pair = next(p for p in one.pairs if {p.a, p.b} == {best.label, worst.label})
    together = (
        f"; not significantly different from it: {names(rest)}"
        if rest
        else ", significantly different from all others"
    )
    last = f"worst {worst.label} ({_figure(worst)}){_against(pair, worst.label)}"
    return f"{one.name}: best {best.label} ({_figure(best)}){together}; {last}{_failed([one])}."


def _swept(lot: Sequence[Place], kind: str) -> str:
    """A sweep in one sentence: who leads how often."""
    first = lot[0]
    where = _with(first.plain, f"{len(lot)} settings")
    figures = [place.results[0].median for place in lot]
    span = f"{human(min(figures), first.group.unit)} to {human(max(figures), first.group.unit)}"
    if kind == "alone":
        return (
            f"{where}: {first.results[0].label} reached {span}; there was no other profile to"
            f" compare it with{_failed(lot)}."
        )
    leads: dict[str, int] = {}
    for place in lot:
        for label in place.group.order[0]:
            leads[label] = leads.get(label, 0) + 1
    counts = [
        f"{label} in {number}" for label, number in sorted(leads.items(), key=lambda item: -item[1])
    ]
    return f"{where}: in the leading group {names(counts)}; the best reached {span}{_failed(lot)}."


def _failed(lot: Sequence[Place]) -> str:
    said = failures([one.group for one in lot])
    return f"; {said}" if said else ""


def failures(groups: Sequence[Group]) -> str:
    """``fast failed in 9 of 16 blocks``: who of a ranking gave no figure at times, over all places;
    '' when nobody did.
    """
    found: dict[str, tuple[int, int]] = {}
    for group in groups:
        for label, (failed, tried) in group.failed.items():
            before = found.get(label, (0, 0))
            found[label] = before[0] + failed, before[1] + tried
    return names(
        [
            f"{label} failed in {failed} of {tried} blocks"
            for label, (failed, tried) in found.items()
        ]
    )


def _against(pair: Pair, label: str) -> str:
    """``, at 0.85 to 0.88 times the best``: the interval of ``label`` against the other one."""
    if pair.ci_low is None or pair.ci_high is None or pair.verdict not in ("a-better", "b-better"):
        return ""
    low, high = (
        (pair.ci_low, pair.ci_high) if pair.a == label else (1 / pair.ci_high, 1 / pair.ci_low)
    )
    return (
        f", {low:.3g} times the best"
        if low == high
        else f", at {low:.3g} to {high:.3g} times the best"
    )


def _figure(result: Result) -> str:
    return f"{human(result.median, result.unit)}"


def names(labels: Sequence[str]) -> str:
    """``a, b, c and 4 more``."""
    shown = list(labels[:SEVERAL])
    more = len(labels) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
