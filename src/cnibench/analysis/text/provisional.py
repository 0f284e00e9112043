"""A provisional ranking in words."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.analysis.provisional import Ranking, Standing
from cnibench.analysis.text import costs
from cnibench.model.units import plural

_PLACES = 6  # that get a line
_OTHERS = 4  # profiles of a place after the best one


def title(rankings: Sequence[Ranking], finished: int, blocks: int, level: float) -> str:
    """``provisional, 2 of 12 blocks finished, 95 % intervals within blocks``"""
    said = f"provisional, {finished} of {plural(blocks, 'block')} finished"
    if not any(one.low is not None for ranking in rankings for one in ranking.standings):
        return said
    if all(ranking.of_blocks for ranking in rankings):
        return f"{said}, {100 * (1 - level):.3g} % intervals between blocks"
    if any(ranking.of_blocks for ranking in rankings):
        return f"{said}, intervals within or between blocks"
    return f"{said}, 95 % intervals within blocks"


def lines(rankings: Sequence[Ranking], cpu_time: Sequence[Ranking] = ()) -> list[str]:
    """``tcp-rr on one node: cilium 121 k/s; flannel -16.4 to -15.1 %``, one for each place, and one
    for the CPU time at all of them.
    """
    found = [f"{one.place}: {_standings(one)}" for one in rankings[:_PLACES]]
    if len(rankings) > _PLACES:
        found.append(f"{len(rankings) - _PLACES} more in the report")
    return found + _cost(cpu_time)


def _cost(rankings: Sequence[Ranking]) -> list[str]:
    """None before there is an interval of each profile."""
    places = [
        {
            one.label: (1.0, 1.0) if one is ranking.standings[0] else _interval(one)
            for one in ranking.standings
        }
        for ranking in rankings
    ]
    known = [interval for place in places for interval in place.values()]
    if len(known) <= len(places) or None in known:
        return []
    (least, said), *others = costs.words(places).items()
    words = [f"{least} {said}", *(f"{label} {said}" for label, said in others[:_OTHERS])]
    if len(others) > _OTHERS:
        words.append(f"{len(others) - _OTHERS} more")
    return [f"{costs.title()}: {'; '.join(words)}"]


def _interval(one: Standing) -> tuple[float, float] | None:
    return None if one.low is None or one.high is None else (one.low, one.high)


def _standings(ranking: Ranking) -> str:
    best, *others = ranking.standings
    words = [f"{best.label} {best.figure}", *map(_words, others[:_OTHERS])]
    if len(others) > _OTHERS:
        words.append(f"{len(others) - _OTHERS} more")
    return "; ".join(words)


def _words(one: Standing) -> str:
    if one.low is None or one.high is None:
        return f"{one.label} {one.figure}"
    return f"{one.label} {100 * (one.low - 1):+.1f} to {100 * (one.high - 1):+.1f} %"
