"""The colours of components: those of the taxonomy, in every chart, flame graph and legend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from cnibench.cpp import taxonomy

OTHER, UNCLASSIFIED = "other", "unclassified"
_GREYS = {OTHER: "#8f8f8f", UNCLASSIFIED: "#e2e2e2"}


def color(component: str | None) -> str:
    """The colour of a component, that of OTHER where it has none of its own. None: unclassified."""
    if component is None:
        return _GREYS[UNCLASSIFIED]
    return _own().get(component) or _GREYS.get(component, _GREYS[OTHER])


def grouped(components: Mapping[str, float], unclassified: float = 0.0) -> dict[str, float]:
    """The cycles that have a colour of their own, then OTHER, then UNCLASSIFIED: in the order in
    which they are stacked, without those that are nothing.
    """
    own = _own()
    parts = {name: components.get(name, 0.0) for name in own}
    parts[OTHER] = math.fsum(value for name, value in components.items() if name not in own)
    parts[UNCLASSIFIED] = unclassified
    return {name: value for name, value in parts.items() if value}


def stacking() -> list[str]:
    """All names that ``grouped`` gives, in its order."""
    return [*_own(), *_GREYS]


@cache
def _own() -> dict[str, str]:
    return {name: one.color for name, one in taxonomy.load().components.items() if one.color}
