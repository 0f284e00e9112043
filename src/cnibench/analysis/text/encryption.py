"""What encryption costs: each profile that encrypts beside the same mode without it, in a sentence
with its figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Analysis, Group, Pair, Result, Where
from cnibench.analysis.text.places import describe
from cnibench.model import context
from cnibench.model.metrics import METRICS
from cnibench.model.units import human

_COSTS = ("cpu_per_byte", "cpu_per_transaction")
_CYCLES = ("cycles_per_byte", "cycles_per_packet")


def encryption(analysis: Analysis, groups: Sequence[Group]) -> list[str]:
    """One line for each place between nodes and each profile that encrypts, where the same mode
    was measured without encryption; on one node nothing is encrypted.
    """
    return [
        line
        for group in groups
        if group.placement == "inter"
        for label, clear in analysis.clear.items()
        if (line := _line(analysis, group, label, clear))
    ]


def _line(analysis: Analysis, group: Group, label: str, clear: str) -> str:
    here = _key(group)
    pairs = {
        pair.metric: pair
        for pair in analysis.pairs
        if {pair.a, pair.b} == {label, clear} and not pair.reading and _key(pair) == here
    }
    ratios = [
        words
        for metric in (group.metric, *_COSTS)
        if metric in pairs and (words := _ratio(pairs[metric], label))
    ]
    if not ratios:
        return ""
    said = f"Encryption, {describe(group)}: {label} has {' and '.join(ratios)} of {clear}"
    results: dict[tuple[str, str], Result] = {
        (one.metric, one.label): one
        for one in analysis.results
        if one.metric in _CYCLES and _place(one) == _place(group)
    }
    for metric in _CYCLES:
        both = [results.get((metric, name)) for name in (label, clear)]
        if both[0] is not None and both[1] is not None:
            with_it, without = (human(one.median, "1") for one in both if one is not None)
            said += f"; {METRICS[metric].title}: {with_it}, without encryption {without}"
            break
    return said


def _key(where: Where) -> tuple[object, ...]:
    return where.environment, context.key(context.place(where))


def _place(where: Where) -> tuple[object, ...]:
    """Without how long it was measured: cycles have turns of their own."""
    return where.environment, repr([getattr(where, name) for name in context.OF_RECORD])


def _ratio(pair: Pair, label: str) -> str:
    """``0.310 times (0.305 to 0.316) the throughput``; '' without a ratio."""
    if not pair.ratio:
        return ""
    inverse = pair.b == label
    value = 1 / pair.ratio if inverse else pair.ratio
    words = f"{value:.3g} times"
    if pair.ci_low and pair.ci_high:
        low, high = pair.ci_low, pair.ci_high
        low, high = (1 / high, 1 / low) if inverse else (low, high)
        words += f" ({low:.3g} to {high:.3g})"
    words += f" the {METRICS[pair.metric].title}"
    return words if pair.verdict in PROVEN else f"{words} (not proven to differ)"
