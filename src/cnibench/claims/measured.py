"""The values of a run that a claim speaks of, gathered by the place where they were measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cnibench.analysis.model import Analysis, Cpp, Result
from cnibench.claims.model import Claim, Sweep
from cnibench.model import context
from cnibench.model.context import OF_RECORD
from cnibench.model.metrics import METRICS

Values = dict[int, float]  # block to value

_POLICY = (  # the conditions of a cell that say which policy entries are loaded (conditions.py)
    "policy."
)
_PATHS = ("pod", "not recorded")  # the studies connect Pod to Pod
_ALIKE = (*(name for name in OF_RECORD if name != "params"), "environment")


@dataclass
class Series:
    """One profile's values by block. ``paired`` is False when several runs were pooled and a
    block's number does not tell which it is.
    """

    label: str
    fidelity: str
    cycles_source: str
    values: Values
    paired: bool = True


@dataclass
class Place:
    """All profiles of a claim that were measured under the same conditions. ``conditions`` are
    those that preconditions ask for.
    """

    conditions: dict[str, Any]
    series: dict[str, Series] = field(
        default_factory=dict
    )  # profile to values; at the end of a sweep too: ``at_end``
    at_end: dict[str, Series] = field(default_factory=dict)


def places(analysis: Analysis, claim: Claim) -> list[Place]:
    """Where the claim was measured, the places with most of its profiles first."""
    found: dict[str, Place] = {}
    for row, series in _rows(analysis, claim):
        where = _where(row)
        params = dict(row.params)
        ends = _ends(params, claim.sweep)
        if not ends or not _met(
            params, claim.params, row.reading if isinstance(row, Result) else {}
        ):
            continue
        params = _comparable(params, claim)
        key = json.dumps([where, params], sort_keys=True, default=str)
        place = found.setdefault(key, Place({**where, "params": params}))
        profile = row.profile
        for end in ends:
            kept = place.series if end == "start" else place.at_end
            if (
                profile not in kept or row.label == profile
            ):  # of several labels of one profile, that of its own name
                kept[profile] = series
    return sorted(found.values(), key=lambda place: -len(place.series))


def _rows(analysis: Analysis, claim: Claim) -> Iterator[tuple[Result | Cpp, Series]]:
    wanted = set(claim.named)
    if claim.components or claim.kind == "share":
        for row in analysis.cpp:
            if row.profile in wanted and row.workload in claim.workload and _placed(row, claim):
                yield row, _of_cycles(row, claim)
        return
    for result in analysis.results:
        if (
            result.profile in wanted
            and result.metric == claim.metric
            and result.workload in claim.workload
            and _placed(result, claim)
        ):
            yield result, _series(result, result.blocks, result.values)


def _placed(row: Result | Cpp, claim: Claim) -> bool:
    return claim.placement in ("", row.placement) and row.path in _PATHS


def _of_cycles(row: Cpp, claim: Claim) -> Series:
    """The components added up; for a share, divided by the total."""
    totals = row.by_block.get("total", [])
    parts = [row.by_block.get(name, [0.0] * len(totals)) for name in claim.components]
    values = [sum(block) for block in zip(*parts, strict=True)] if parts else list(totals)
    if claim.kind == "share":
        values = [value / total for value, total in zip(values, totals, strict=True) if total]
    return _series(row, row.blocks, values)


def _series(row: Result | Cpp, blocks: list[int], values: list[float]) -> Series:
    paired = len(set(blocks)) == len(blocks) == len(values)
    numbers = blocks if paired else range(len(values))
    return Series(
        row.label, row.fidelity, row.cycles_source, dict(zip(numbers, values, strict=True)), paired
    )


def _where(row: Result | Cpp) -> dict[str, Any]:
    found = {name: getattr(row, name) for name in _ALIKE}
    if isinstance(row, Result):
        found |= {name: value for name, value in context.place(row).items() if name != "params"}
    return found


def _ends(params: Mapping[str, Any], sweep: Sweep | None) -> list[str]:
    """``start`` where there is no sweep; else the end of it that these parameters are at, if
    any.
    """
    if sweep is None:
        return ["start"]
    return [
        name
        for name, wanted in (("start", sweep.start), ("end", sweep.end))
        if _is(params, sweep.param, wanted)
    ]


def _met(params: Mapping[str, Any], asked: Mapping[str, Any], reading: Mapping[str, Any]) -> bool:
    """Has the claim's parameters; a reading that is only a part of the whole (one direction, one
    node) counts where it is asked for.
    """
    return all(key in asked for key in reading) and all(
        _is(params, key, value) for key, value in asked.items()
    )


def _is(params: Mapping[str, Any], key: str, wanted: Any) -> bool:
    return bool(params.get(key, 0 if wanted == 0 else None) == wanted)


def _comparable(params: Mapping[str, Any], claim: Claim) -> dict[str, Any]:
    """What two profiles must share: not the parameter that the claim sweeps, and not the setting of
    policies where there are none.
    """
    swept = claim.sweep.param if claim.sweep else ""
    kept = {key: value for key, value in params.items() if key != swept}
    if (
        swept.startswith(_POLICY)
        or params.get(f"{_POLICY}entries")
        or params.get(f"{_POLICY}restrictions")
    ):
        return kept
    return {key: value for key, value in kept.items() if not key.startswith(_POLICY)}


def complete(place: Place, analysis: Analysis) -> None:
    """Adds to a place of the table of cycles what only results say: testbed and wire."""
    if "testbed" in place.conditions:
        return
    for result in analysis.results:
        alike = all(getattr(result, name) == place.conditions[name] for name in _ALIKE)
        if alike and _wire(result.params) == _wire(place.conditions["params"]):
            place.conditions |= {
                name: getattr(result, name)
                for name in context.PLACE_NAMES
                if name not in place.conditions
            }
            return


def _wire(params: Mapping[str, Any]) -> Any:
    return params.get("offload.wire", "default")


def counted(claim: Claim) -> bool:
    """Is the metric a count that a machine's speed cannot change?"""
    return claim.metric in ("rules", "chains", "hooks") and METRICS[claim.metric].unit == "1"
