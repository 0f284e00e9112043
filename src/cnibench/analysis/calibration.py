"""What the tool finds where there is nothing to find: false alarms, the noise floor, and what a
wished resolution costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnibench.analysis.build import contexts_of, main_of
from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.model import Where
from cnibench.analysis.text.narrative import place_of
from cnibench.errors import UsageError
from cnibench.model.metrics import main_metric
from cnibench.rundir.reader import RunReader
from cnibench.stats.diagnostics import dependence
from cnibench.stats.inference import ALPHA, Array, signed_rank
from cnibench.stats.power import MOST_BLOCKS, least_blocks, planned_blocks
from cnibench.stats.scale import scale

ROUND = least_blocks(
    1, ALPHA
)  # blocks of one A/A comparison: the least that can raise an alarm at all


@dataclass(frozen=True)
class Floor:
    """One place with one method, pinning and duration. ``noise`` is the standard deviation of the
    log of one label's value between blocks, what the blocks have in common taken out; ``alarms`` of
    ``rounds`` comparisons of 6 blocks each called a difference; ``ratio`` is the two labels' over
    all blocks, with its interval; ``dependence_p`` is of neighbouring blocks. ``blocks`` gives each
    resolution's cost for a run of two profiles, ``blocks_ten`` for one of ten."""

    workload: str
    placement: str
    cpus: str
    metric: str
    method: str
    duration: float
    warmup: float
    n: int
    noise: float
    rounds: int
    alarms: int
    ratio: float
    low: float | None
    high: float | None
    dependence_p: float | None
    blocks: int | None
    blocks_ten: int | None
    seconds: float | None


@dataclass(frozen=True)
class Calibration:
    """``rate`` = alarms / comparisons with its exact 95 % interval (C. J. Clopper and E. S.
    Pearson, Biometrika 26, 1934).
    """

    floors: list[Floor]
    comparisons: int
    alarms: int
    rate: float | None
    low: float
    high: float
    expected: float
    resolution: float
    recommended: list[str]


def calibration(readers: Sequence[RunReader], resolution: float) -> Calibration:
    """What A/A runs, each of two labels that must tie, say about the tool. Raises UsageError when a
    run has other than two labels.
    """
    floors = []
    for reader in readers:
        if len(reader.plan.profiles) != 2:
            message = (
                f"{reader.id}: an A/A run has two labels that must tie, this one has"
                f" {len(reader.plan.profiles)}"
            )
            raise UsageError(message, "make one with 'cnibench calibrate'")
        floors += _floors(reader, resolution)
    comparisons, alarms = (
        sum(floor.rounds for floor in floors),
        sum(floor.alarms for floor in floors),
    )
    low, high = _clopper_pearson(alarms, comparisons)
    rate = alarms / comparisons if comparisons else None
    return Calibration(
        floors,
        comparisons,
        alarms,
        rate,
        low,
        high,
        2 / 2**ROUND,
        resolution,
        _recommended(floors, resolution),
    )


def scatter(reader: RunReader) -> list[dict[str, Any]]:
    """The noise at each place of any run with two labels or more: {workload, placement, cpus,
    metric, method, duration, n, noise}.

    ``noise`` is the root mean square of that of each two labels, by ``scale``, which an outlier
    hardly moves: the standard deviation of the logs that neither label nor block explains.
    """
    found = []
    for context in _main(reader):
        values = [member.values for member in context.members.values()]
        both = sorted(
            block
            for block in set.intersection(*(set(one) for one in values))
            if all(one[block] > 0 for one in values)
        )
        if len(values) < 2 or len(both) < 2:
            continue
        logs: Array = np.log([[one[block] for block in both] for one in values])
        first, second = np.triu_indices(len(logs), 1)
        noise = math.sqrt(float(np.mean(scale(logs[first] - logs[second]) ** 2)) / 2)
        where = context.where
        found.append(
            {
                "workload": where["workload"],
                "placement": where["placement"],
                "cpus": where["cpus"],
                "metric": where["metric"],
                "method": where["method"],
                "duration": where["duration"],
                "n": len(both),
                "noise": noise,
            }
        )
    return found


def _main(reader: RunReader) -> list[Context]:
    """The contexts of each place's main metric."""
    contexts = [
        context
        for context in contexts_of(reader)
        if context.members and not context.where["reading"]
    ]
    main = main_of([reader])
    places: dict[tuple[object, ...], list[str]] = {}
    for context in contexts:
        places.setdefault(place_of(Where(**context.where)), []).append(context.where["metric"])
    return [
        one
        for one in contexts
        if one.where["metric"]
        == main_metric(one.where["workload"], places[place_of(Where(**one.where))], main)
    ]


def _floors(reader: RunReader, resolution: float) -> list[Floor]:
    main = [context for context in _main(reader) if len(context.members) == 2]
    found = [_floor(context, resolution) for context in main]
    return [floor for floor in found if floor is not None]


def _floor(context: Context, resolution: float) -> Floor | None:
    one, other = context.members.values()
    both = sorted(
        block
        for block in one.values.keys() & other.values.keys()
        if one.values[block] > 0 and other.values[block] > 0
    )
    if len(both) < 2:
        return None
    ratios: Array = np.log([one.values[block] for block in both]) - np.log(
        [other.values[block] for block in both]
    )
    rounds = len(ratios) // ROUND
    alarms = (
        int(
            (
                signed_rank(ratios[: rounds * ROUND].reshape(rounds, ROUND), interval=False).p
                <= ALPHA
            ).sum()
        )
        if rounds
        else 0
    )
    whole = signed_rank(ratios)
    noise = float(scale(ratios)[0]) / math.sqrt(2)
    lag = float(dependence(ratios)[1][0])
    where = context.where
    duration, warmup = where["duration"], where["warmup_time"]
    two, ten = _blocks(1, noise, resolution), _blocks(45, noise, resolution)
    low, high = float(whole.low[0]), float(whole.high[0])
    return Floor(
        workload=where["workload"],
        placement=where["placement"],
        cpus=where["cpus"],
        metric=where["metric"],
        method=where["method"],
        duration=duration,
        warmup=warmup,
        n=len(both),
        noise=noise,
        rounds=rounds,
        alarms=alarms,
        ratio=math.exp(float(whole.centre[0])),
        low=None if math.isnan(low) else math.exp(low),
        high=None if math.isnan(high) else math.exp(high),
        dependence_p=None if math.isnan(lag) else lag,
        blocks=two,
        blocks_ten=ten,
        seconds=None if two is None else two * 2 * (duration + warmup),
    )


def _blocks(pairs: int, noise: float, resolution: float) -> int | None:
    try:
        return planned_blocks(pairs, noise, resolution)
    except UsageError:
        return None


def _clopper_pearson(found: int, of: int, alpha: float = ALPHA) -> tuple[float, float]:
    from scipy.special import betaincinv

    low = 0.0 if found == 0 else float(betaincinv(found, of - found + 1, alpha / 2))
    high = 1.0 if found == of else float(betaincinv(found + 1, of - found, 1 - alpha / 2))
    return low, high


def _recommended(floors: Sequence[Floor], resolution: float) -> list[str]:
    """For each place the pinning and duration that reach the resolution in the least time."""
    places: dict[tuple[str, str], list[Floor]] = {}
    for floor in floors:
        places.setdefault((floor.workload, floor.placement), []).append(floor)
    found = []
    for (workload, placement), choices in places.items():
        usable = [
            floor for floor in choices if floor.blocks is not None and floor.blocks <= MOST_BLOCKS
        ]
        if not usable:
            found.append(
                f"{workload} {placement}: too noisy to find {100 * resolution:.3g} % in"
                f" {MOST_BLOCKS} blocks; use a longer --duration"
            )
            continue
        best = min(usable, key=lambda floor: floor.seconds or 0.0)
        found.append(
            f"{workload} {placement}: --cpus {best.cpus} --method {best.method}"
            f" --duration {best.duration:g}s --blocks {best.blocks} finds"
            f" {100 * resolution:.3g} % between two profiles ({best.blocks_ten} blocks among ten)"
        )
    return found
