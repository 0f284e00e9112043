"""Figures, ratios and lists in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cnibench.analysis.model import FewRepeats, Group, Pair, Result
from cnibench.model.units import human

SEVERAL = 6  # names listed before the rest is counted


def names(labels: Sequence[str]) -> str:
    """``a, b, c and 4 more``."""
    shown = list(labels[:SEVERAL])
    more = len(labels) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def more_in_brackets(name: str, more: str) -> str:
    """``tcp-rr between nodes (IPv6, request 64)``: more in the brackets that may be there."""
    if not more:
        return name
    return f"{name[:-1]}, {more})" if name.endswith(")") else f"{name} ({more})"


def replicate(counted: Iterable[Result | Pair | FewRepeats]) -> str:
    """What their numbers count: blocks, runs, or both."""
    kinds = {one.replicate for one in counted}
    return kinds.pop() if len(kinds) == 1 else "block or run"


def replicates(number: int | str, counted: Iterable[Result | Pair | FewRepeats]) -> str:
    """``12 blocks``, ``3 runs``, ``3 to 12 blocks or runs``."""
    several = "s" * (str(number) != "1")
    return f"{number} {replicate(counted).replace(' or', several + ' or')}{several}"


def figure(result: Result) -> str:
    return f"{human(result.median, result.unit)}"


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


def few_figures(results: Sequence[Result]) -> dict[str, str]:
    """``x rests on 2 of 12 blocks``, by label: those at a place with fewer than half of its blocks
    (or runs).
    """
    most = max(one.n if one.replicate == "run" else one.tried + one.disturbed for one in results)
    return {
        one.label: f"{one.label} rests on {one.n} of {replicates(most, [one])}"
        for one in results
        if 2 * one.n < most
    }


def times(pair: Pair, label: str) -> str:
    """``0.85 to 0.88``: the interval of ``label`` against the other one, with as many digits
    as its ends need to differ, ``0.85`` where eight do not; '' where there is none.
    """
    if pair.ci_low is None or pair.ci_high is None:
        return ""
    low, high = (
        (pair.ci_low, pair.ci_high) if pair.a == label else (1 / pair.ci_high, 1 / pair.ci_low)
    )
    shown = _digits(low), _digits(high)
    if shown[0] == shown[1]:
        more = ((f"{low:.{n}g}", f"{high:.{n}g}") for n in range(4, 9))
        shown = next((both for both in more if both[0] != both[1]), shown)
    return " to ".join(dict.fromkeys(shown))


def _digits(ratio: float) -> str:
    """Three digits, and more where they would turn what is not 1 into 1."""
    return next((said for n in range(3, 9) if float(said := f"{ratio:.{n}g}") != 1), f"{ratio:.3g}")
