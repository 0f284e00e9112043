"""Pairs with too few blocks for a test without a model: what the additive model says of them."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cnibench.analysis.model import Evidence, FewRepeats
from cnibench.stats.additive import Contrasts, contrasts
from cnibench.stats.inference import Array

if TYPE_CHECKING:
    from cnibench.analysis.comparison.contexts import Context


@dataclass(frozen=True)
class Effect:
    """Log ratio of a pair with its simultaneous interval of level 1 - alpha of the family."""

    centre: float
    low: float
    high: float
    evidence: Evidence


def table_of(context: Context) -> Array:
    """Labels x blocks, NaN where a block lacks a label."""
    blocks = sorted({block for member in context.members.values() for block in member.values})
    place = {block: i for i, block in enumerate(blocks)}
    table = np.full((len(context.members), len(place)), np.nan)
    for row, member in zip(table, context.members.values(), strict=True):
        row[[place[block] for block in member.values]] = list(member.values.values())
    return table


def effects(
    context: Context, few: Collection[tuple[str, str]], family: int, level: float
) -> tuple[dict[tuple[str, str], Effect], FewRepeats | None]:
    """Those of the pairs ``few`` of which the model knows something, and what it assumed.

    ``family`` is the number of pairs that are compared in the context. The pairs share its error
    rate by their number: the rest of it is that of the tests of the others.
    """
    names = [
        label
        for label, member in context.members.items()
        if all(value > 0 for value in member.values.values())
    ]
    if not few or len(names) < 2:
        return {}, None
    rows = [list(context.members).index(label) for label in names]
    found = contrasts(
        np.log(table_of(context)[rows]),
        paired=context.paired,
        alpha=level * len(few) / family,
        family=len(few),
    )
    if not found.df:
        return {}, None
    at = {label: i for i, label in enumerate(names)}
    known = {}
    for a, b in few:
        if a in at and b in at and (one := _effect(found, at[a], at[b], level)):
            alone = min(len(context.members[label].values) for label in (a, b)) < 2
            if alone and one.evidence == "proven":  # no single value proves anything
                one = replace(one, evidence="suggestive")
            known[a, b] = one
    model = FewRepeats(
        noise=found.noise,
        df=found.df,
        prior=None if math.isinf(found.prior) else found.prior,
        paired=context.paired,
        replicate=context.replicate,
    )
    return known, model if known else None


def _effect(found: Contrasts, i: int, j: int, level: float) -> Effect | None:
    centre, low, high = (float(part[i, j]) for part in (found.difference, found.low, found.high))
    if math.isnan(low) or math.isnan(high):
        return None
    alone = bool(found.p[i, j] <= level)
    evidence: Evidence = "proven" if low > 0 or high < 0 else "suggestive" if alone else "none"
    return Effect(centre, low, high, evidence)
