"""The noise that ``--blocks auto`` plans with: a number that was given; what ``cnibench calibrate``
(or any earlier run that is named) found on this machine at the same place with the same method,
pinning and settings, and a duration no longer than the planned one; what the workload assumes, and
then it is called assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cnibench.errors import UsageError
from cnibench.planning.calibrations import REMEDY, Here, Known, calibrations, named
from cnibench.planning.fitting import fitting
from cnibench.planning.plan import Plan
from cnibench.system.text import printable

if TYPE_CHECKING:
    from cnibench.run.workload import Workload


@dataclass(frozen=True)
class Noise:
    """``value`` is a standard deviation of logs; ``source`` in words."""

    value: float
    source: str
    assumed: bool = False


Ask = Callable[
    ["Workload", str, str, float], Noise
]  # of a workload, a placement, a method, and so many seconds in a block


def noise_of(plan: Plan, here: Here | None) -> Ask:
    """Where the plan's noise comes from. Raises UsageError when it names a run that is not there or
    was made elsewhere or with other settings; the answer does when that run lacks the place.
    """
    if isinstance(plan.noise, float):
        given = Noise(plan.noise, "given")
        return lambda workload, placement, method, duration: given
    if plan.noise != "auto":
        return _of_run(plan.noise, plan, here)
    known = calibrations(plan, here) if here else []

    def ask(workload: Workload, placement: str, method: str, duration: float) -> Noise:
        refused = ""
        for one in known:
            found, lacks = _found(one, workload, placement, method, plan.cpus, duration)
            if found is not None:
                return found
            refused = refused or f"; {one.reader.id} does not apply: {lacks}"
        sliced = method == "slices" and workload.slices_noise
        return Noise(sliced or workload.noise, printable(f"assumed{refused}"), True)

    return ask


def _of_run(name: str, plan: Plan, here: Here | None) -> Ask:
    known = named(name, plan, here)

    def ask(workload: Workload, placement: str, method: str, duration: float) -> Noise:
        found, lacks = _found(known, workload, placement, method, plan.cpus, duration)
        if found is None:
            raise UsageError(f"--noise {name}: {lacks}", REMEDY)
        return found

    return ask


def _found(
    known: Known, workload: Workload, placement: str, method: str, cpus: str, duration: float
) -> tuple[Noise | None, str]:
    """The noise of that place, or in words why there is none."""
    if known.refused:
        return None, known.refused
    value = fitting(known.floors, workload, placement, method, cpus, duration)
    if value is None:
        return None, (
            f"it has no {workload.name} {placement} with --cpus {cpus} in {method} of at most"
            f" {duration:g} s"
        )
    return Noise(value, printable(f"measured by {known.reader.id}, {known.origin}")), ""
