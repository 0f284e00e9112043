"""``--blocks auto``: how many blocks each workload takes, from the number of pairs, the noise and
the wished resolution.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cnibench.errors import UsageError
from cnibench.model.units import plural
from cnibench.planning import schedule
from cnibench.planning.method import method_of
from cnibench.planning.noise import Ask
from cnibench.planning.plan import Plan, Work
from cnibench.rundir.schema import Planned
from cnibench.stats.looks import left
from cnibench.stats.power import MOST_BLOCKS, POWER, detectable, planned_blocks

if TYPE_CHECKING:
    from cnibench.run.workload import Workload

COUNTED = (  # the source of what needs no test where it is alike in every block
    "counted, not measured"
)
_COUNTS = 2  # blocks of it: enough to see whether it is


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
    two the last look has to find the difference at the level that they leave (ADR 13).
    """
    try:
        n = planned_blocks(pairs, noise, resolution)
        while pairs == 1 and (found := _at_last_look(n, noise, resolution)) > n:
            n = found
    except UsageError:
        return 0
    return n


def _at_last_look(n: int, noise: float, resolution: float) -> int:
    return planned_blocks(1, noise, resolution, left(n))


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
