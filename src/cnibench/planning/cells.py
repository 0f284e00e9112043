"""The cells of a plan: each workload with each combination of its parameters, at each place,
for each profile that supports it.
"""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cnibench.errors import UsageError
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile, explain
from cnibench.planning.method import with_method
from cnibench.planning.plan import Plan, Work

if TYPE_CHECKING:
    from cnibench.run.workload import Workload

MOST = 1_000_000  # cells of a run; a sweep that explodes is refused, not expanded


def cells(
    plan: Plan, workloads: Mapping[str, Workload], profiles: Mapping[str, Profile]
) -> tuple[list[Cell], list[str]]:
    """All cells of one block, and in words what was left out because a profile does not support it.

    ``profiles`` maps labels to profiles. Raises UsageError for unknown workloads and parameters.
    """
    works = list(_works(plan.workload, workloads))
    most = sum(
        len(work.placement or plan.placement)
        * len(work.windows or plan.windows)
        * len(work.ip or plan.ip)
        for work, _ in works
    )
    total = len(profiles) * len(plan.path) * plan.pairs * most
    if total > MOST:
        raise UsageError(f"the plan has {total} cells", f"at most {MOST}; sweep fewer values")
    found, notes = [], []
    longest = plan.number_of_blocks(len(profiles))
    for label, profile in profiles.items():
        families = [ip for ip in plan.families if ip in profile.features.ip]
        notes += [
            f"{label}: no IPv{ip}, the profile does not support it"
            for ip in plan.families
            if ip not in families
        ]
        for work, params in works:
            if work.only and not any(fnmatch.fnmatchcase(label, name) for name in work.only):
                continue
            blocks = plan.own_blocks(work, len(profiles), longest)
            for placement, path, ip, window, pair in itertools.product(
                work.placement or plan.placement,
                plan.path,
                [ip for ip in work.ip or plan.ip if ip in families],
                [w for w in plan.windows if w in (work.windows or plan.windows)],
                range(plan.pairs),
            ):
                if window == "cpp" and not workloads[work.name].cpp:
                    continue
                cell = Cell(
                    label=label,
                    profile=profile.name,
                    placement=placement,
                    workload=work.name,
                    params=params,
                    window=window,
                    path=path,
                    ip=ip,
                    mtu=plan.mtu,
                    cpus=plan.cpus,
                    pair=pair,
                    duration=work.duration,
                    blocks=blocks,
                    priority=plan.priority or None,
                )
                if plan.method == "slices":
                    cell, note = with_method(cell, plan, workloads[work.name])
                    notes += [note] if note and note not in notes else []
                found.append(cell)
    unique: dict[str, Cell] = {}
    for cell in found:
        first = unique.setdefault(cell.id, cell)
        if (first.duration or plan.duration) != (cell.duration or plan.duration):
            raise _twice(
                cell,
                f"for {first.duration or plan.duration:g} s and"
                f" {cell.duration or plan.duration:g} s",
            )
        if first.blocks != cell.blocks:
            raise _twice(cell, f"in {first.blocks or 'all'} and {cell.blocks or 'all'} blocks")
    return list(unique.values()), notes


def _twice(cell: Cell, how: str) -> UsageError:
    """Figures of one cell are one figure: what it was measured in must not depend on which of its
    entries came last.
    """
    return UsageError(
        f"the plan has {cell.workload} {cell.placement} of {cell.label} twice, {how}",
        "make two runs of it, or name it once",
    )


def _works(
    asked: Sequence[Work], workloads: Mapping[str, Workload]
) -> Iterator[tuple[Work, dict[str, Any]]]:
    for work in asked:
        if work.name not in workloads:
            near = difflib.get_close_matches(work.name, workloads, n=3, cutoff=0.4)
            hint = f"nearest: {', '.join(near)}" if near else f"there are: {', '.join(workloads)}"
            raise UsageError(f"there is no workload '{work.name}'", hint)
        if (many := math.prod(len(values) for values in work.sweep.values())) > MOST:
            raise UsageError(
                f"the sweep of '{work.name}' has {many} combinations",
                f"at most {MOST}; sweep fewer values",
            )
        for given in work.combinations():
            try:
                own, around = conditions.split(given)
                yield work, {**workloads[work.name].params(own), **around}
            except ValidationError as error:
                said = explain(f"workload {work.name}", error)
                known = (
                    conditions.NAMES
                    if conditions.wrong(error)
                    else tuple(workloads[work.name].Params.model_fields)
                )
                what = "the conditions of a cell" if conditions.wrong(error) else "its parameters"
                raise UsageError(
                    said.message, f"{what} are: {', '.join(known) or 'none'}"
                ) from None
