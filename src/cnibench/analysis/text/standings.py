"""The places of a report, each with its profiles in their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Analysis, Group, Pair, Result, Where
from cnibench.analysis.text.wording import more_in_brackets
from cnibench.model import context

W = TypeVar("W", bound=Where)


@dataclass(frozen=True)
class Place:
    """``results`` has the best first, and those that failed often last; ``sound`` are the others.
    ``pairs`` are all of the place. ``name`` says where, in words, ``plain`` without its parameters.
    ``base`` is the label that alone the others were compared with, '' where all pairs were.
    """

    name: str
    plain: str
    group: Group
    results: list[Result]
    pairs: list[Pair]
    base: str = ""

    @property
    def sweep(self) -> Hashable:
        """What the settings of one sweep share."""
        place = context.place(self.group) | {"params": tuple(self.group.params), "wire_offload": ""}
        return self.group.environment, context.key(place)

    @property
    def sound(self) -> list[Result]:
        return [one for one in self.results if one.label not in self.group.failing]

    def pair(self, a: str, b: str) -> Pair | None:
        return next((one for one in self.pairs if {one.a, one.b} == {a, b}), None)


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
    base = analysis.baseline if analysis.family == "baseline" else ""
    for name, plain, group in zip(named(shown, describe), map(describe, shown), shown, strict=True):
        key = (place_of(group), group.metric)
        ranked = sorted(results[key], key=lambda result: group.ranking.index(result.label))
        places.append(Place(name, plain, group, ranked, pairs.get(key, []), base))
    return places


def named(shown: Sequence[W], describe: Callable[[W], str]) -> list[str]:
    """Each place's name, with those parameters in which places of that name differ."""
    plain = [describe(group) for group in shown]
    lots: dict[str, list[W]] = {}
    for name, group in zip(plain, shown, strict=True):
        lots.setdefault(name, []).append(group)
    return [
        more_in_brackets(name, _differing(group.params, lots[name]))
        for name, group in zip(plain, shown, strict=True)
    ]


def _differing(own: Mapping[str, Any], alike: Sequence[Where]) -> str:
    keys = [
        key
        for key in own
        if len({json.dumps(group.params.get(key), sort_keys=True) for group in alike}) > 1
    ]
    return ", ".join(f"{key} {own[key]}" for key in keys)


def leading(one: Place) -> list[str]:
    """The best, and those that are not proven to be worse."""
    best, *others = [result.label for result in one.sound]
    pairs = {other: one.pair(best, other) for other in others}
    return [best, *(name for name, pair in pairs.items() if not pair or pair.verdict not in PROVEN)]
