"""Which of the places of a calibration says something about a planned one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from cnibench.run.workload import Workload

_ROUNDING = 1e-9


def fitting(
    floors: Iterable[Mapping[str, Any]],
    workload: Workload,
    placement: str,
    method: str,
    cpus: str,
    duration: float,
) -> float | None:
    """The main metric's noise at that place, the largest where there are several; of the longest
    measurement that is no longer than the planned one, for shorter ones are noisier. None where
    there is none.
    """
    here = [
        one
        for one in floors
        if (one.get("workload"), one.get("placement"), one.get("cpus"))
        == (workload.name, placement, cpus)
        and one.get("method", "windows") == method
        and one.get("metric", workload.primary) == workload.primary
        and all(_is_amount(one.get(name)) for name in ("noise", "duration"))
        and one["duration"] <= duration + _ROUNDING
    ]
    if not here:
        return None
    longest = max(one["duration"] for one in here)
    return max(_noise(one, duration) for one in here if one["duration"] == longest)


def _noise(one: Mapping[str, Any], duration: float) -> float:
    """Of blocks of that duration: more slices lower the slices' part of the noise, of which the
    lower limit is taken, so that the noise is not too low.
    """
    noise = float(one["noise"])
    spread = one.get("spread")
    slices = spread.get("slices") if isinstance(spread, Mapping) else None
    low = slices.get("low") if isinstance(slices, Mapping) else None
    if not _is_amount(low) or not duration > one["duration"] + _ROUNDING:
        return noise
    gone = low**2 * (1 - one["duration"] / duration)
    return math.sqrt(max(0.0, noise**2 - gone))


def _is_amount(value: object) -> TypeGuard[float]:
    return isinstance(value, float) and math.isfinite(value) and value >= 0
