"""The figures that a bundle states, so that they can be cited, and their comparison with what its
samples give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import msgspec

from cnibench.analysis.model import Analysis, Where

# Of how figures are computed. Raise it when the same samples give others: the figures of older
# bundles are then not compared, and published bundles stay valid.
VERSION = 2
_CLOSE = 1e-9  # relative: what other versions of numpy and scipy may round differently
_FIELDS = tuple(name for name in Where.__struct_fields__ if name != "params")
_values = attrgetter(*_FIELDS)
_SHOWN = 5  # differences that are named


def of(analysis: Analysis) -> list[dict[str, Any]]:
    """One object for each place and metric: ``where``, the figures of each label (n, mean, median,
    low, high, coverage) and of each pair (n, ratio, low, high, p, Holm's p, verdict), and for
    cycles per packet those of each component.
    """
    places = _Places()
    for one in analysis.results:
        row = (one.n, one.mean, one.median, one.ci_low, one.ci_high, one.confidence)
        places.of(one)["labels"][one.label] = row
    for pair in analysis.pairs:
        figures = (pair.n, pair.ratio, pair.ci_low, pair.ci_high, pair.p, pair.p_holm, pair.verdict)
        places.of(pair)["pairs"].append((pair.a, pair.b, *figures))
    cycles = [
        {
            "where": [one.label, one.placement, one.path, one.workload, one.params, one.ip],
            "n": one.n,
            "total": one.total,
            "components": one.components,
        }
        for one in analysis.cpp
    ]
    plain: list[dict[str, Any]] = msgspec.json.decode(
        msgspec.json.encode([*places.found.values(), *cycles])
    )
    return plain


class _Places:
    """``found`` has an object for each place and metric."""

    def __init__(self) -> None:
        self.found: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._last: list[int] = []
        self._here: dict[str, Any] = {}

    def of(self, one: Where) -> dict[str, Any]:
        values = _values(one)
        same = list(map(id, (*values, one.params)))
        if same != self._last:  # those of one place follow each other
            self._last, self._here = same, self._object(values, one.params)
        return self._here

    def _object(self, values: tuple[Any, ...], params: Any) -> dict[str, Any]:
        key = (*(value if value.__hash__ else str(value) for value in values), str(params))
        if key not in self.found:
            where = {**dict(zip(_FIELDS, values, strict=True)), "params": params}
            self.found[key] = {"where": where, "labels": {}, "pairs": []}
        return self.found[key]


def count(figures: list[dict[str, Any]]) -> int:
    """How many estimates of labels and pairs, and of cycles per packet, these are."""
    return sum(len(one["labels"]) + len(one["pairs"]) if "labels" in one else 1 for one in figures)


def differences(stated: Any, recomputed: list[dict[str, Any]]) -> list[str]:
    """Where the figures that a bundle states are not those of its samples, in words."""
    if stated == recomputed:
        return []
    found = list(_differing(stated, recomputed, "figures"))
    more = [f"and {len(found) - _SHOWN} more figures"] if len(found) > _SHOWN else []
    return [*found[:_SHOWN], *more]


def _differing(stated: Any, ours: Any, where: str) -> Iterator[str]:
    if isinstance(stated, dict) and isinstance(ours, dict):
        for name in [*ours, *(name for name in stated if name not in ours)]:
            if name in stated and name in ours:
                yield from _differing(stated[name], ours[name], f"{where}.{name}")
            else:
                missing = "missing" if name in ours else "not among those of the samples"
                yield f"{where}.{str(name)[:80]}: it is {missing}"
    elif isinstance(stated, list) and isinstance(ours, list):
        if len(stated) != len(ours):
            yield f"{where}: {len(stated)} are stated, the samples give {len(ours)}"
        for number, (one, other) in enumerate(zip(stated, ours, strict=False)):
            yield from _differing(one, other, f"{where}[{number}]")
    elif not _same(stated, ours):
        yield f"{where}: {str(stated)[:60]} is stated, the samples give {str(ours)[:60]}"


def _same(stated: Any, ours: Any) -> bool:
    if type(stated) in (int, float) and type(ours) in (int, float):
        return math.isclose(stated, ours, rel_tol=_CLOSE)
    return bool(type(stated) is type(ours) and stated == ours)
