"""The profiles of each place in as few lines as they take: a table where it fits, a line for each
place where there are few profiles, else the first and the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.comparison.outcome import equal
from cnibench.analysis.model import Pair, Result
from cnibench.analysis.text.in_brief import EQUAL, UNDECIDED
from cnibench.analysis.text.standings import Place, leading
from cnibench.analysis.text.wording import figure, names
from cnibench.reports._escape import plain

Row = tuple[str, Mapping[str, str]]  # its name, and what is said of each label
_GAP = "  "
_EACH = 4  # profiles that are all named in the line of a place


def table(
    places: Sequence[Place], cost: Row, labels: Sequence[str], resolution: float, width: int
) -> list[str]:
    """A row for each place, one for the ``cost`` of all where that is known, and a column for each
    of ``labels``; [] where that is wider than ``width``. Pairs that differ by at most
    ``resolution`` are equal.
    """
    rows = [*(_cells(one, resolution) for one in places), *([cost[1]] if cost[1] else [])]
    columns = [
        ["", *map(_name, places), *([cost[0]] if cost[1] else [])],
        *([label, *(row.get(label, "no figure") for row in rows)] for label in labels),
    ]
    columns = [[plain(cell) for cell in column] for column in columns]
    wide = [max(map(len, column)) for column in columns]
    if not places or sum(wide) + len(_GAP) * (len(wide) - 1) > width:
        return []
    return [
        _GAP.join(cell.ljust(size) for cell, size in zip(line, wide, strict=True)).rstrip()
        for line in zip(*columns, strict=True)
    ]


def sentences(places: Sequence[Place], cost: Row, profiles: int, resolution: float) -> list[str]:
    """A line for each place, one for the ``cost`` of all, and one before them where they do not
    name all ``profiles``.
    """
    name, costs = cost[0], list(cost[1].items())
    if profiles <= _EACH:
        rows = [(_name(one), _cells(one, resolution)) for one in places]
        return [_all(*row) for row in [*rows, cost] if row[1]]
    head = f"The best of {profiles} (+ how many are not proven to be worse); the last:"
    last = [_all(name, dict([costs[0], costs[-1]]))] if costs else []
    return [head] * bool(places) + [_ends(one, resolution) for one in places] + last


def _name(one: Place) -> str:
    return one.name + " (less is better)" * (one.group.better == "lower")


def _all(name: str, cells: Mapping[str, str]) -> str:
    """``tcp-rr on one node: cilium best 71.4 k/s; flannel -14.6 to -13.3 %``"""
    return f"{name}: {'; '.join(f'{label} {said}' for label, said in cells.items())}"


def _ends(one: Place, resolution: float) -> str:
    """``tcp-rr on one node: cilium 71.4 k/s (+2); weave -80.1 ±0.2 %``"""
    said = []
    if one.sound:
        first, last = one.sound[0], one.sound[-1]
        alike = f" (+{len(leading(one)) - 1})" if one.pairs else ""
        said = [f"{first.label} {figure(first)}{alike}"]
        if last is not first:
            pair = one.pair(first.label, last.label)
            said.append(f"{last.label} {_against(pair, last, resolution, short=True)}")
    if one.group.failing:
        said.append(f"failed often: {names(one.group.failing)}")
    return f"{_name(one)}: {'; '.join(said)}"


def _cells(one: Place, resolution: float) -> dict[str, str]:
    """What is said of each profile; the one that the others are compared with comes first."""
    found = {}
    if sound := sorted(one.sound, key=lambda result: result.label != one.base):
        first, *others = sound
        tested = any(pair.basis for pair in one.pairs)
        found[first.label] = "best " * (tested and not one.base) + figure(first)
        for other in others:
            found[other.label] = _against(one.pair(first.label, other.label), other, resolution)
    return found | dict.fromkeys(one.group.failing, "failed often")


def _against(pair: Pair | None, own: Result, resolution: float, *, short: bool = False) -> str:
    """``-14.6 to -13.3 %``: how much more or less it has than the first, with the interval; words
    where there is none. ``short``: its middle and half of its width, ``-14.0 ±0.7 %``.
    """
    if pair is None or not pair.basis:
        return f"{UNDECIDED} {figure(own)}"
    better = (pair.verdict == "a-better") == (pair.a == own.label)
    mark, instead = (
        ("", "better" if better else "worse")
        if pair.verdict in PROVEN
        else (f"{EQUAL} ", f"within {100 * resolution:.3g} %")
        if equal(pair, resolution)
        else (f"{UNDECIDED} ", "undecided")
    )
    if not pair.ci_low or not pair.ci_high:
        return f"{mark}{instead}"
    low, high = pair.ci_low, pair.ci_high
    if pair.a != own.label:
        low, high = 1 / high, 1 / low
    if low == high:  # counted
        return f"{mark}{100 * (low - 1):+.1f} %"
    if short:
        return f"{mark}{50 * (low + high - 2):+.1f} ±{max(0.1, 50 * (high - low)):.1f} %"
    ends = [f"{100 * (end - 1):+.1f}" for end in (low, high)]
    if ends[0] == ends[1]:
        ends = [f"{100 * (end - 1):+.3f}" for end in (low, high)]
    return f"{mark}{' to '.join(ends)} %"
