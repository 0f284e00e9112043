"""``--blocks auto``: how many blocks each workload takes, from the number of pairs, the noise and
the wished resolution.

The noise is, in this order: a number that was given; what ``cnibench calibrate`` (or any earlier
run that is named) found here at the same place with the same method, the same pinning and a
duration no longer than the planned one; what the workload assumes, and then it is called assumed.
"""

from __future__ import annotations

import fnmatch
import json
import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cnibench.errors import InputError, UsageError
from cnibench.model.units import plural
from cnibench.planning import schedule
from cnibench.planning.method import method_of
from cnibench.planning.plan import Plan, Work
from cnibench.rundir.chain import digest
from cnibench.rundir.index import find
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import CALIBRATION, LONGEST_DOCUMENT, Planned
from cnibench.stats.looks import last_level
from cnibench.stats.power import MOST_BLOCKS, POWER, detectable, planned_blocks
from cnibench.system.environment import this_cpu
from cnibench.system.files import read_beneath

if TYPE_CHECKING:
    from cnibench.run.workload import Workload

COUNTED = (  # the source of what needs no test where it is alike in every block
    "counted, not measured"
)
_COUNTS = 2  # blocks of it: enough to see whether it is


@dataclass(frozen=True)
class Here:
    """Where the planned run is measured; ``folder`` holds earlier runs. A calibration from
    elsewhere says nothing about it.

    ``testbed``, lab or vm, tells the two kinds of lab apart.
    """

    folder: Path
    cluster: str = "lab"
    testbed: str = "lab"
    kernel: str = field(default_factory=platform.release)
    cpu: str = field(default_factory=this_cpu)

    def differs(self, reader: RunReader) -> str:
        """In words what makes that run one of another machine; '' when it is one of this."""
        facts = reader.environment
        pairs: list[tuple[str, Any, str]] = [("cluster", reader.plan.cluster, self.cluster)]
        if (
            self.cluster == "lab"
        ):  # the nodes' kernels and CPUs of other clusters are not known before they are asked
            pairs += [
                ("testbed", facts.get("testbed"), self.testbed),
                ("kernel", facts.get("kernel"), self.kernel),
            ]
            pairs += [("CPU", facts.get("cpu_model"), self.cpu)] if self.testbed == "lab" else []
        return "; ".join(
            f"{name} {theirs or 'not recorded'} instead of {ours}"
            for name, theirs, ours in pairs
            if theirs != ours
        )


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
    was made elsewhere.
    """
    if isinstance(plan.noise, float):
        given = Noise(plan.noise, "given")
        return lambda workload, placement, method, duration: given
    known = _calibrations(plan.noise, here)

    def ask(workload: Workload, placement: str, method: str, duration: float) -> Noise:
        for name, floors in known:
            here = [one for one in floors if one.get("method", "windows") == method]
            if (found := _fitting(here, workload, placement, plan.cpus, duration)) is not None:
                return Noise(found, f"measured by {name}")
        sliced = method == "slices" and workload.slices_noise
        return Noise(sliced or workload.noise, "assumed", True)

    return ask


def _calibrations(asked: str, here: Here | None) -> list[tuple[str, list[dict[str, Any]]]]:
    """(run id, its places), the newest run first."""
    if asked != "auto":
        reader = RunReader(find(asked, here.folder if here else Path("runs")))
        if here and (difference := here.differs(reader)):
            raise UsageError(
                f"--noise {asked}: it was measured elsewhere: {difference}",
                "give a number, 2% say, or calibrate here",
            )
        return [(reader.id, _stored(reader) or _computed(reader))]
    if here is None:
        return []
    found = [reader for reader in _calibrated(here.folder) if not here.differs(reader)]
    return [
        (reader.id, _stored(reader))
        for reader in sorted(found, key=lambda reader: reader.plan.created, reverse=True)
    ]


def _calibrated(folder: Path) -> Iterator[RunReader]:
    """The runs of calibrate below ``folder``; no other run is read, and one that cannot be is
    passed over.
    """
    for file in sorted(folder.glob(f"*/{CALIBRATION}")):
        with suppress(InputError):
            yield RunReader(file.parent)


def _stored(reader: RunReader) -> list[dict[str, Any]]:
    """The places of a calibration; none when it is no calibration, cannot be read, or is not what
    the run's events name.
    """
    try:
        data = read_beneath(reader.path, CALIBRATION, LONGEST_DOCUMENT)
        if reader.chain.chained and digest(data) not in reader.chain.documents().get(
            CALIBRATION, ()
        ):
            return []
        found = json.loads(data)["floors"]
        return [one for one in found if isinstance(one, dict)]
    except (OSError, InputError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _computed(reader: RunReader) -> list[dict[str, Any]]:
    from cnibench.analysis.calibration import scatter

    found = scatter(reader)
    if not found:
        raise UsageError(
            f"--noise {reader.path.name}: no two profiles of it were measured in the same blocks",
            "name a run of calibrate",
        )
    return found


def _fitting(
    floors: Iterable[Mapping[str, Any]],
    workload: Workload,
    placement: str,
    cpus: str,
    duration: float,
) -> float | None:
    """The main metric's noise at that place, the largest where there are several; of the longest
    windows that are no longer than the planned ones, for shorter ones are noisier."""
    here = [
        one
        for one in floors
        if (one.get("workload"), one.get("placement"), one.get("cpus"))
        == (workload.name, placement, cpus)
        and one.get("metric", workload.primary) == workload.primary
        and all(
            isinstance(one.get(name), float) and math.isfinite(one[name]) and one[name] >= 0
            for name in ("noise", "duration")
        )
        and one["duration"] <= duration + 1e-9
    ]
    if not here:
        return None
    longest = max(one["duration"] for one in here)
    return float(max(one["noise"] for one in here if one["duration"] == longest))


def with_blocks(
    plan: Plan, labels: Sequence[str], workloads: Mapping[str, Workload], ask: Ask
) -> tuple[Plan, list[Planned]]:
    """The plan with a number wherever it says auto, and how each number came about.

    A workload with one profile has no pair to plan for: 6 blocks give its median an interval. With
    ``target_ci`` the run ends by that.
    """
    if plan.target_ci or all(
        (plan.blocks if work.blocks is None else work.blocks) != "auto" for work in plan.workload
    ):
        return plan, []
    found: list[Planned] = []
    works = []
    for work in plan.workload:
        if (plan.blocks if work.blocks is None else work.blocks) != "auto":
            works.append(work)
            continue
        one = _planned(plan, work, labels, workloads[work.name], ask)
        found += [one] if one.pairs and one not in found else []
        works.append(work.model_copy(update={"blocks": one.blocks}))
    auto = [int(work.blocks) for work in works if work.blocks is not None]
    most = max(auto) if plan.blocks == "auto" else plan.blocks
    works = [
        work.model_copy(update={"blocks": None}) if work.blocks == most else work for work in works
    ]
    return plan.model_copy(update={"blocks": most, "workload": tuple(works)}), found


def _planned(
    plan: Plan, work: Work, labels: Sequence[str], workload: Workload, ask: Ask
) -> Planned:
    own = [
        label
        for label in labels
        if not work.only or any(fnmatch.fnmatchcase(label, name) for name in work.only)
    ]
    pairs = schedule.pairs(len(own))
    if pairs and workload.noise == 0:
        return Planned(
            workload=work.name,
            pairs=pairs,
            resolution=plan.resolution,
            noise=0.0,
            source=COUNTED,
            assumed=False,
            blocks=_COUNTS,
            wished=_COUNTS,
            finds=0.0,
        )
    method, duration = method_of(plan, work, workload)
    noises = [
        ask(workload, placement, method, duration) for placement in work.placement or plan.placement
    ]
    noise = max(noises, key=lambda one: (one.value, one.assumed))
    least = schedule.blocks_needed(len(own))
    wished = wished_blocks(pairs, noise.value, plan.resolution) if pairs else least
    blocks = min(wished, max(plan.max_blocks, least)) if wished else max(plan.max_blocks, least)
    return Planned(
        workload=work.name,
        pairs=pairs,
        resolution=plan.resolution,
        noise=noise.value,
        source=noise.source,
        assumed=noise.assumed,
        blocks=blocks,
        wished=wished,
        finds=detectable(blocks, pairs, noise.value * math.sqrt(2)) if pairs else 0.0,
    )


def wished_blocks(pairs: int, noise: float, resolution: float) -> int:
    """The least number of blocks that finds the resolution in each of so many pairs, 0 where none
    does. With three or more profiles the joint test makes up for the early looks of the run; with
    two the last look has to find the difference at its own level (ADR 13).
    """
    try:
        n = planned_blocks(pairs, noise, resolution)
        while pairs == 1 and (found := _at_last_look(n, noise, resolution)) > n:
            n = found
    except UsageError:
        return 0
    return n


def _at_last_look(n: int, noise: float, resolution: float) -> int:
    return planned_blocks(1, noise, resolution, last_level(n, 2))


def words(found: Sequence[Planned]) -> list[str]:
    """``tcp-stream, tcp-rr: 12 blocks, planned to find 5 % in each of 3 pairs with a power of 80%
    at a noise of 3 % (assumed)``.
    """
    alike: dict[Planned, list[str]] = {}
    for one in found:
        alike.setdefault(replace(one, workload=""), []).append(one.workload)
    return [f"{', '.join(dict.fromkeys(names))}: {_words(one)}" for one, names in alike.items()]


def _words(one: Planned) -> str:
    if one.source == COUNTED:
        return f"{plural(one.blocks, 'block')}: {COUNTED}"
    what = "the pair" if one.pairs == 1 else f"each of {one.pairs} pairs"
    wanted = (
        f"{_percent(one.resolution)} in {what} with a power of {POWER:.0%} at a noise of"
        f" {_percent(one.noise)} ({one.source})"
    )
    if one.blocks == one.wished:
        return f"{plural(one.blocks, 'block')}, planned to find {wanted}"
    more = f"{one.wished} would find" if one.wished else "no number of blocks would find"
    mend = (
        f"--max-blocks {one.wished}, a longer --duration"
        if 0 < one.wished <= MOST_BLOCKS
        else "a longer --duration"
    )
    finds = "finds" if one.blocks == 1 else "find"
    return (
        f"{plural(one.blocks, 'block')}, which {finds} {_percent(one.finds)} or more;"
        f" {more} {wanted}: {mend} or a coarser --resolution"
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"
