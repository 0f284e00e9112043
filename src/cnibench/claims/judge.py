"""Does what was measured agree with a claim? One function for each kind, over the values of one
place.

Profiles are compared by the log ratios of the same blocks, with the test and the interval of
stats/. A claim about several pairs holds when every pair agrees, each at the full level:
rejecting all of them is one decision (intersection-union test, R. L. Berger, Technometrics 24,
1982). It fails when any pair contradicts it, and as that may be any of k, each contradicts it by
its test and its interval at level / k. A difference that is not found refutes nothing by itself:
only an interval that leaves no room for one as large as ``within`` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from cnibench.claims.measured import Place, Series, counted
from cnibench.claims.model import Claim
from cnibench.claims.units import base
from cnibench.stats.inference import median_interval, signed_rank
from cnibench.stats.power import least_blocks

Vote = tuple[str, str]  # (agrees | contradicts | open, why)
_Ends = tuple[float | None, float | None]  # of an interval


@dataclass(frozen=True)
class Estimate:
    """The log ratio of two series over their common blocks: its interval is None where so few give
    none; ``p`` of the sign of it.
    """

    n: int
    centre: float
    low: float | None
    high: float | None
    p: float

    def words(self) -> str:
        """``1.23 (1.20 to 1.26)``."""
        if math.isinf(self.centre):
            return "no figure (one of them is 0 at times)"
        middle = f"{math.exp(self.centre):.3g}"
        return (
            middle
            if self.low is None or self.high is None
            else f"{middle} ({math.exp(self.low):.3g} to {math.exp(self.high):.3g})"
        )


def estimate(one: Series, other: Series, level: float, exact: bool) -> Estimate | None:
    """None where no block has both. ``exact``: a count that is alike in all blocks needs no test.
    Where a value is not positive there is no ratio: the sign of the differences is tested, the
    centre is infinite and the interval missing, unless all differences are 0.
    """
    if not (one.paired and other.paired):
        return None
    blocks = sorted(one.values.keys() & other.values.keys())
    pairs = [(one.values[block], other.values[block]) for block in blocks]
    if not pairs:
        return None
    positive = all(a > 0 and b > 0 for a, b in pairs)
    row = np.array([math.log(a / b) if positive else a - b for a, b in pairs])
    row[np.abs(row) <= 1e-12] = 0.0
    if exact and float(np.ptp(row)) == 0.0:
        value = float(row[0])
        return (
            _sign(len(row), value, 0.0 if value else 1.0)
            if value and not positive
            else Estimate(len(row), value, value, value, float(not value))
        )
    if not positive:
        found = signed_rank(row, level, interval=False)
        return _sign(len(row), float(found.effect[0]), float(found.p[0]))
    found = signed_rank(row, level)
    low, high = float(found.low[0]), float(found.high[0])
    if math.isnan(low) or math.isnan(high):
        return Estimate(len(row), float(found.centre[0]), None, None, float(found.p[0]))
    return Estimate(len(row), float(found.centre[0]), low, high, float(found.p[0]))


def _sign(n: int, value: float, p: float) -> Estimate:
    return Estimate(n, math.copysign(math.inf, value) if value else 0.0, None, None, p)


def judge(claim: Claim, place: Place, level: float) -> Vote:
    """(agrees | contradicts | open, why) at one place."""
    return _KINDS[claim.kind](claim, place, level)


def _pairs(
    claim: Claim,
    place: Place,
    pairs: Sequence[tuple[str, str]],
    vote: Callable[[Estimate, Estimate, float], str],
    level: float,
) -> Vote:
    """Every pair of profiles put to the same question: ``vote`` gets the estimate at ``level``,
    with which one agrees, the one at level / k, with which one contradicts, and that level.
    """
    strict = level / len(pairs)
    agree: list[tuple[str, int]] = []
    against: list[tuple[str, int]] = []
    undecided: list[tuple[str, int]] = []
    missing: list[tuple[str, str]] = []
    for a, b in pairs:
        if a not in place.series or b not in place.series:
            missing.append((a, b))
            continue
        one, other, exact = place.series[a], place.series[b], counted(claim)
        found, wider = (estimate(one, other, each, exact) for each in (level, strict))
        said = vote(found, wider, strict) if found and wider else "open"
        text = f"{a} / {b} = {found.words()}" if found else f"{a} and {b} share no block"
        (agree if said == "agrees" else against if said == "contradicts" else undecided).append(
            (text, found.n if found else 0)
        )
    if against:
        return (
            "contradicts",
            (
                f"{len(against)} of {len(pairs)} pairs say otherwise:"
                f" {_several(text for text, _ in against)}"
            ),
        )
    gone = sorted({name for pair in missing for name in pair if name not in place.series})
    missed = f"; not measured: {', '.join(gone)}" if gone else ""
    if undecided:
        fewest, least = min(n for _, n in undecided), least_blocks(1, level)
        few = (
            f"; {fewest} block{'s' * (fewest != 1)} cannot decide, at least {least} are needed"
            if fewest < least
            else ""
        )
        said = _several(text for text, _ in undecided)
        return (
            "open",
            f"{len(agree)} of {len(pairs)} pairs as published; undecided: {said}{few}{missed}",
        )
    if missing:
        return "open", f"as published for {len(agree)} of {len(pairs)} pairs{missed}"
    return "agrees", _several(text for text, _ in agree)


def _several(texts: Iterable[str]) -> str:
    found = list(texts)
    return "; ".join(found[:4]) + (f"; and {len(found) - 4} more" if len(found) > 4 else "")


def _above(claim: Claim, level: float) -> Callable[[Estimate, Estimate, float], str]:
    margin = math.log1p(claim.within)

    def vote(found: Estimate, wider: Estimate, strict: float) -> str:
        if found.p <= level and found.centre > 0:
            return "agrees"
        if wider.p <= strict and wider.centre < 0:
            return "contradicts"
        if (
            wider.low is not None
            and wider.high is not None
            and -margin < wider.low
            and wider.high < margin
        ):
            return "contradicts"  # no difference that would matter is left
        return "open"

    return vote


def _within(expected: float, within: float) -> Callable[[Estimate, Estimate, float], str]:
    middle, margin = math.log(expected), math.log1p(within) + 1e-9

    def vote(found: Estimate, wider: Estimate, strict: float) -> str:
        ends = (middle - margin, middle + margin)
        return _inside((found.low, found.high), (wider.low, wider.high), ends)

    return vote


def _order(claim: Claim, place: Place, level: float) -> Vote:
    return _pairs(
        claim, place, list(product(claim.higher, claim.lower)), _above(claim, level), level
    )


def _ranking(claim: Claim, place: Place, level: float) -> Vote:
    known = sorted(claim.published, key=lambda name: -claim.published[name])
    apart = [
        (a, b)
        for a, b in combinations(known, 2)
        if claim.published[a] > claim.published[b] * (1 + claim.within)
    ]
    return _pairs(claim, place, apart, _above(claim, level), level)


def _ratio(claim: Claim, place: Place, level: float) -> Vote:
    assert claim.ratio is not None
    return _pairs(
        claim,
        place,
        list(product(claim.higher, claim.lower)),
        _within(claim.ratio, claim.within),
        level,
    )


def _equality(claim: Claim, place: Place, level: float) -> Vote:
    return _pairs(
        claim, place, list(combinations(claim.profiles, 2)), _within(1.0, claim.within), level
    )


def _each(
    names: Sequence[str],
    place: Place,
    bounds: Callable[[str], tuple[float, float]],
    claim: Claim,
    level: float,
) -> Vote:
    """Is every profile's median with its interval within the ``bounds`` for it? One of k is outside
    when its interval at level / k is.
    """
    agree: list[str] = []
    against: list[str] = []
    undecided: list[str] = []
    for name in names:
        if name not in place.series:
            continue
        middle, low, high, n = interval(place.series[name], level, counted(claim))
        strict = level / len(names)
        _, least, most, _ = interval(place.series[name], strict, counted(claim))
        said = _inside((low, high), (least, most), bounds(name))
        text = f"{name}: {middle:.4g}" + (
            f" ({low:.4g} to {high:.4g})" if low is not None and high is not None else f" (n={n})"
        )
        (agree if said == "agrees" else against if said == "contradicts" else undecided).append(
            text
        )
    missing = [name for name in names if name not in place.series]
    if against:
        return (
            "contradicts",
            f"{len(against)} of {len(names)} figures say otherwise: {_several(against)}",
        )
    if undecided or missing:
        parts = [f"undecided: {_several(undecided)}"] * bool(undecided) + [
            f"not measured: {', '.join(missing)}"
        ] * bool(missing)
        return "open", f"{len(agree)} of {len(names)} as published; " + "; ".join(parts)
    return "agrees", _several(agree)


def interval(
    series: Series, level: float, exact: bool
) -> tuple[float, float | None, float | None, int]:
    """(median, low, high, n); a count that is alike in all blocks needs no interval to be known."""
    values = np.array(list(series.values.values()))
    middle = float(np.median(values))
    if exact and float(np.ptp(values)) == 0.0:
        return middle, middle, middle, len(values)
    found = median_interval(values, level)
    return middle, found.low, found.high, len(values)


def _value(claim: Claim, place: Place, level: float) -> Vote:
    def bounds(name: str) -> tuple[float, float]:
        expected = base(claim.published[name], claim.unit)
        return expected * (1 - claim.within), expected * (1 + claim.within)

    return _each(list(claim.published), place, bounds, claim, level)


def _absence(claim: Claim, place: Place, level: float) -> Vote:
    return _each(claim.profiles, place, lambda name: (-math.inf, claim.at_most), claim, level)


def _share(claim: Claim, place: Place, level: float) -> Vote:
    assert claim.between is not None
    return _all_between(claim, place, level, *claim.between)


def _range(claim: Claim, place: Place, level: float) -> Vote:
    assert claim.between is not None
    least, most = (base(bound, claim.unit) for bound in claim.between)
    return _all_between(claim, place, level, least, most)


def _all_between(claim: Claim, place: Place, level: float, least: float, most: float) -> Vote:
    return _each(claim.profiles, place, lambda name: (least, most), claim, level)


def _inside(found: _Ends, wider: _Ends, bounds: tuple[float, float]) -> str:
    least, most = bounds
    slack = 1e-9 * max(1.0, abs(most) if math.isfinite(most) else 1.0)
    low, high = found
    if low is not None and high is not None and least - slack <= low and high <= most + slack:
        return "agrees"
    low, high = wider
    if low is not None and high is not None and (high < least - slack or low > most + slack):
        return "contradicts"
    return "open"


def _trend(claim: Claim, place: Place, level: float) -> Vote:
    """Each profile's value at the end of the sweep over that at its start."""
    ends = Place(
        place.conditions, {f"{name} at the start": one for name, one in place.series.items()}
    )
    ends.series |= {f"{name} at the end": one for name, one in place.at_end.items()}
    pairs = [(f"{name} at the end", f"{name} at the start") for name in claim.profiles]
    if claim.ratio is not None:
        return _pairs(claim, ends, pairs, _within(claim.ratio, claim.within), level)
    if claim.direction == "stays":
        return _pairs(claim, ends, pairs, _within(1.0, claim.within), level)
    if claim.direction == "falls":
        pairs = [(b, a) for a, b in pairs]
    return _pairs(claim, ends, pairs, _above(claim, level), level)


_KINDS: dict[str, Callable[[Claim, Place, float], Vote]] = {
    "order": _order,
    "ranking": _ranking,
    "ratio": _ratio,
    "value": _value,
    "range": _range,
    "equality": _equality,
    "absence": _absence,
    "share": _share,
    "trend": _trend,
}
