"""Who ranks where in a context, by the estimates of its pairs, and the groups without significant
differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cnibench.analysis.model import FewRepeats, Group, Pair
from cnibench.stats.inference import groups, letters
from cnibench.stats.order import ranked, scores

if TYPE_CHECKING:
    from cnibench.analysis.comparison.contexts import Context

PROVEN = ("a-better", "b-better")


def group(
    context: Context, pairs: Sequence[Pair], model: FewRepeats | None, *, every: bool
) -> Group:
    """``every``: all pairs were compared, so that there are groups."""
    failing = context.failing
    ranking = _ranking(context, pairs)
    sound = [label for label in ranking if label not in failing]
    apart = {(pair.a, pair.b) for pair in pairs if pair.verdict in PROVEN}
    order = groups(sound, {one for one in apart if set(one) <= set(sound)}) if every else []
    return Group(
        **context.where,
        order=order,
        letters=letters(order),
        failed=context.failed,
        ranking=[*sound, *(label for label in ranking if label in failing)],
        failing=failing,
        model=model,
    )


def _ranking(context: Context, pairs: Sequence[Pair]) -> list[str]:
    names = list(context.members)
    sign = 1.0 if context.where["better"] == "higher" else -1.0
    found = scores(len(names), _estimates(names, pairs))
    beats = {
        (pair.a, pair.b) if pair.verdict == "a-better" else (pair.b, pair.a)
        for pair in pairs
        if pair.verdict in PROVEN
    }
    # 1e-12: rounding of the least squares does not rank what is equal; the order of the plan does.
    return ranked(
        {name: round(sign * float(one), 12) for name, one in zip(names, found, strict=True)}, beats
    )


def _estimates(names: Sequence[str], pairs: Sequence[Pair]) -> list[tuple[int, int, float, int]]:
    """Log ratios; where one of them is not known, since a value is 0, the effects of all."""
    at: Mapping[str, int] = {name: i for i, name in enumerate(names)}
    shared = [pair for pair in pairs if pair.n or pair.ratio is not None]
    logs = all(pair.ratio is not None for pair in shared)
    return [
        (
            at[pair.a],
            at[pair.b],
            math.log(pair.ratio) if logs and pair.ratio is not None else pair.effect or 0.0,
            max(1, pair.n),
        )
        for pair in shared
    ]
