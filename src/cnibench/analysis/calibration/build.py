"""A calibration of one or more A/A runs: the rate of false alarms and what to measure with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnibench.analysis.calibration.floors import LEAST, Floor, floors_of
from cnibench.errors import UsageError
from cnibench.rundir.reader import RunReader
from cnibench.stats.inference import ALPHA
from cnibench.stats.power import MOST_BLOCKS


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
    """What A/A runs of two labels that must be equal say about the tool. Raises UsageError for a
    run without exactly two labels.
    """
    floors = []
    for reader in readers:
        if len(reader.plan.profiles) != 2:
            message = (
                f"{reader.id}: an A/A run has two labels that must be equal, this one has"
                f" {len(reader.plan.profiles)}"
            )
            raise UsageError(message, "make one with 'cnibench calibrate'")
        floors += floors_of(reader, resolution)
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
        2 / 2**LEAST,
        resolution,
        _recommended(floors, resolution),
    )


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
