"""The noise floor, the false alarms and the spread at each place of an A/A run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cnibench.analysis.calibration.advice import advice, blocks_for
from cnibench.analysis.calibration.deployments import Deployments, deployments
from cnibench.analysis.calibration.noise import main_of_places
from cnibench.analysis.calibration.spread import Spread, spread
from cnibench.analysis.comparison.contexts import Context
from cnibench.model.units import is_number
from cnibench.rundir.reader import RunReader
from cnibench.stats.diagnostics import dependence
from cnibench.stats.inference import ALPHA, Array, signed_rank
from cnibench.stats.power import least_blocks
from cnibench.stats.scale import scale

LEAST = least_blocks(1, ALPHA)  # blocks of one A/A comparison that can raise an alarm at all
SLICED = 2  # blocks of a deployment that tell deployments and blocks apart

Logs = Mapping[int, float]


@dataclass(frozen=True)
class Floor:
    """One place with one method, pinning and duration. ``noise`` is the standard deviation of the
    log of one label's value between the blocks of a run, what the blocks have in common taken out;
    ``alarms`` of ``rounds`` comparisons of 6 blocks each called a difference; ``ratio`` is the two
    labels' over all blocks, with its interval; ``dependence_p`` is of neighbouring blocks.
    ``blocks`` gives each resolution's cost for a run of two profiles, ``blocks_ten`` for one of
    ten. ``spread`` says what the noise consists of, ``advice`` what follows from it.
    """

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
    spread: Spread
    advice: str


def floors_of(reader: RunReader, resolution: float) -> list[Floor]:
    """Of each place whose main metric has two blocks with a value of both labels."""
    measured = deployments(reader)
    halves = _halves(reader)
    found = (
        _floor(reader, context, halves, measured, resolution)
        for context in main_of_places(reader)
        if len(context.members) == 2
    )
    return [floor for floor in found if floor is not None]


def _floor(
    reader: RunReader,
    context: Context,
    halves: Mapping[tuple[str, int], tuple[float, int]],
    measured: Deployments,
    resolution: float,
) -> Floor | None:
    ratios = _ratios(context)
    if len(ratios) < 2:
        return None
    one, other = (member.first.cell for member in context.members.values())
    of_ratios = {
        block: (halves[one, block][0] + halves[other, block][0], halves[one, block][1])
        for block in ratios
        if (one, block) in halves and (other, block) in halves
    }
    kept = reader.plan.deployment_blocks
    sliced = any(cell.method == "slices" for cell in reader.plan.cells)
    groups = measured.grouped(list(ratios)) if kept else [sorted(ratios)]
    series = [[ratios[block] for block in group] for group in groups]
    means = np.array([np.mean(group) for group in series]) if kept else np.array(series[0])
    if kept and (sliced or max(map(len, series)) < 2):  # as 'cnibench run' deploys
        series = [[group[0] for group in series]]
    tests: Array = np.array(
        [
            group[at : at + LEAST]
            for group in series
            for at in range(0, len(group) - LEAST + 1, LEAST)
        ]
    )
    alarms = int((signed_rank(tests, interval=False).p <= ALPHA).sum()) if len(tests) else 0
    whole = signed_rank(means)
    noise = _noise(series) / math.sqrt(2)
    lag = float(dependence(np.array(series[0]))[1][0]) if len(series) == 1 else math.nan
    where = context.where
    duration, warmup = where["duration"], where["warmup_time"]
    two, ten = blocks_for(1, noise, resolution), blocks_for(45, noise, resolution)
    low, high = float(whole.low[0]), float(whole.high[0])
    found = spread(ratios, of_ratios, measured)
    return Floor(
        workload=where["workload"],
        placement=where["placement"],
        cpus=where["cpus"],
        metric=where["metric"],
        method=where["method"],
        duration=duration,
        warmup=warmup,
        n=len(ratios),
        noise=noise,
        rounds=len(tests),
        alarms=alarms,
        ratio=math.exp(float(whole.centre[0])),
        low=None if math.isnan(low) else math.exp(low),
        high=None if math.isnan(high) else math.exp(high),
        dependence_p=None if math.isnan(lag) else lag,
        blocks=two,
        blocks_ten=ten,
        seconds=None if two is None else two * 2 * (duration + warmup),
        spread=found,
        advice=advice(
            noise, found, duration, resolution, measured, len(reader.plan.cells), per_block=sliced
        ),
    )


def _ratios(context: Context) -> dict[int, float]:
    """Block to the log ratio of the two labels, where both have a value."""
    one, other = (member.values for member in context.members.values())
    return {
        key[1]: math.log(one[key] / other[key])
        for key in sorted(one.keys() & other.keys())
        if one[key] > 0 and other[key] > 0
    }


def _noise(series: Sequence[Sequence[float]]) -> float:
    """The standard deviation between the values of one series, by ``scale``, which an outlier
    hardly moves; what the values of each series have in common taken out.
    """
    if len(series) == 1:
        return float(scale(np.array(series[0]))[0])
    rest = [
        (value - np.mean(group)) * math.sqrt(len(group) / (len(group) - 1))
        for group in series
        if len(group) > 1
        for value in group
    ]
    return float(scale(np.array(rest))[0]) if rest else 0.0


def _halves(reader: RunReader) -> dict[tuple[str, int], tuple[float, int]]:
    """(cell, block) to (half width of the log of its value, slices that count)."""
    return {
        (record["cell"], record["block"]): (
            float(record["half_width"]),
            int(record["rounds"]) - int(record["left_out"]),
        )
        for record in reader.records("slices")
        if all(is_number(record.get(name)) for name in ("half_width", "rounds", "left_out"))
    }
