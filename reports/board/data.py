"""What the board's script ranks: the effects of all bundles, and the quantiles that it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cnibench.reports.board.effects import DIMENSIONS
from cnibench.reports.board.entry import POLICIES, Cni, Entry
from cnibench.reports.board.repository import Found

LEVEL = 0.05  # of a mistake anywhere in the ranks of one ranking
MOST_FREEDOM = 60  # degrees of freedom: more are taken for that many
_DIGITS = 6
# Facts in the order of the filters.
FILTERS = {
    "division": "Division",
    "testbed": "Testbed",
    "kind": "Kind of testbed",
    "cpu": "CPU",
    "architecture": "Architecture",
    "kernel": "Kernel",
    "nic": "NIC",
    "wire": "Wire",
}


def board_data(entries: Sequence[tuple[Found, Entry, str]]) -> dict[str, Any]:
    """The document of data.js. ``places`` are [bundle, dimension, use, blocks, effects] with
    effects [CNI, mean, variance]; numbers are indices.
    """
    cnis: dict[Cni, int] = {}
    uses: dict[str, int] = {}
    places = []
    for number, (_, entry, _) in enumerate(entries):
        for place in entry.places:
            effects = [
                [
                    cnis.setdefault(entry.cnis[one.label], len(cnis)),
                    _rounded(one.mean),
                    None if one.variance is None else _rounded(one.variance),
                ]
                for one in place.effects
                if one.label in entry.cnis
            ]
            use = uses.setdefault(place.use, len(uses))
            dimension = list(DIMENSIONS).index(place.dimension)
            places.append([number, dimension, use, place.blocks, effects])
    return {
        "dimensions": list(DIMENSIONS),
        "filters": FILTERS,
        "policies": len(POLICIES),
        "uses": list(uses),
        "cnis": [
            {"title": title, "fidelity": one.fidelity, "policies": one.policies, "color": one.color}
            for title, one in zip(_titles(list(cnis)), cnis, strict=True)
        ],
        "bundles": [
            {
                "page": f"bundles/{page}.html",
                "testbed": found.testbed,
                "finished": entry.finished[:10],
                "run": entry.run[:100],
                "facts": {**entry.facts, "testbed": found.testbed},
                "failed": sum(entry.failed.values()),
            }
            for found, entry, page in entries
        ],
        "places": places,
        "quantiles": quantiles(len(cnis)),
    }


def _titles(cnis: Sequence[Cni]) -> list[str]:
    """What distinguishes them: those of the same title differ in their policies."""
    count = Counter(one.title for one in cnis)
    return [
        f"{one.title}, {one.policies} of {len(POLICIES)} policy features"
        if count[one.title] > 1
        else one.title
        for one in cnis
    ]


def quantiles(cnis: int) -> list[list[float]]:
    """Quantiles of Student's t for the intervals of ranks: one row for each number of degrees of
    freedom from 1, one column for each number of CNIs from 2. All pairs of CNIs are compared, so
    the level is divided by their number (Bonferroni).
    """
    from scipy.special import stdtrit  # scipy.stats takes longer to import than all else here

    columns = range(2, max(3, cnis + 1))
    return [
        [round(-float(stdtrit(freedom, LEVEL / (count * (count - 1)))), 4) for count in columns]
        for freedom in range(1, MOST_FREEDOM + 1)
    ]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
