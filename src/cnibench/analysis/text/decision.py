"""What a run decided, and what the undecided pairs need."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cnibench.analysis.comparison.outcome import Decided, needed, outcome
from cnibench.analysis.model import Analysis, Pair
from cnibench.analysis.text.places import describe
from cnibench.model.units import plural
from cnibench.stats.power import MOST_BLOCKS, POWER

_LISTED = 6  # undecided pairs that are named


def settled(analysis: Analysis, pairs: Sequence[Pair]) -> Decided | None:
    """What these pairs of one run are; None for several runs together, which end by no rule."""
    if len(analysis.runs) != 1:
        return None
    done = 1 + max((block for one in analysis.results for block in one.blocks), default=-1)
    return outcome(pairs, done, analysis.run.resolution, analysis.level)


def lines(found: Decided) -> list[str]:
    """None where there was no pair."""
    if not found.pairs:
        return []
    known = len(found.different) + len(found.equal)
    said = [
        f"Decided after {plural(found.blocks, 'block')}: {known} of {plural(found.pairs, 'pair')}"
        f" ({len(found.different)} significantly different, {len(found.equal)} equal within"
        f" {100 * found.resolution:.3g} %)."
    ]
    modelled = sum(
        pair.basis == "additive model" and pair.evidence == "proven" for pair in found.undecided
    )
    if modelled:
        verb = "is" if modelled == 1 else "are"
        said.append(
            f"Of the undecided pairs, {modelled} {verb} significantly different by the model of few"
            " repeats; what ends a run assumes no model."
        )
    if not found.undecided:
        return said
    shown = sorted(found.undecided, key=lambda pair: _effort(found, pair), reverse=True)[:_LISTED]
    numbers = [needed(found, pair) for pair in shown]
    said += [
        f"Undecided: {pair.a} / {pair.b}, {describe(pair)}: {_more(found, number)}."
        for pair, number in zip(shown, numbers, strict=True)
    ]
    if len(found.undecided) > len(shown):
        said.append(f"Undecided: {len(found.undecided) - len(shown)} more, which need fewer.")
    most = max(numbers)
    if most > MOST_BLOCKS:
        said.append("A longer --duration or a coarser --resolution may decide them.")
    elif most > found.blocks:
        said.append(
            f"A new run with --blocks {most} would decide each of them with a power of {POWER:.0%};"
            " a longer --duration or a coarser --resolution takes fewer."
        )
    return said


def _effort(found: Decided, pair: Pair) -> float:
    """Grows with the number of blocks that the pair needs; infinite where nobody can tell."""
    if pair.ratio is None or pair.ratio <= 0 or not pair.scale:
        return math.inf
    away = abs(math.log(pair.ratio))
    return pair.scale * pair.family / max(away, math.log1p(found.resolution) - away)


def _more(found: Decided, number: int) -> str:
    if number > found.blocks:
        return f"needs about {plural(number - found.blocks, 'more block')}"
    if number:
        return "a run of this many blocks usually decides such a pair; measure again"
    return "too little is known to say how many blocks it needs"
