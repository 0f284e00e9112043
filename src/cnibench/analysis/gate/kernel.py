"""Which kernel functions take other cycles per packet in the candidate than in the base, at the
places of cells that did not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnibench.analysis.gate.verdict import Verdict
from cnibench.analysis.model import Where
from cnibench.cpp.summary import Group
from cnibench.model import context

_FUNCTIONS = 5  # those whose own cycles differ most


@dataclass(frozen=True)
class Function:
    """Its own cycles per packet, without those of what it calls; 0 where it is not among the
    functions that the record keeps.
    """

    name: str
    base: float
    candidate: float


@dataclass(frozen=True)
class Changed:
    """One cell's cycles per packet, means over the blocks that were measured with perf. Nothing of
    this is tested. ``estimated``: cycles are samples of cpu-clock times the TSC's frequency.
    """

    cell: str
    base: float
    candidate: float
    base_blocks: int
    candidate_blocks: int
    estimated: bool
    functions: list[Function]


def changes(verdict: Verdict, base: Sequence[Group], candidate: Sequence[Group]) -> list[Changed]:
    """Of the cells that are worse; of those that are undecided if none is. Places without cycles on
    both sides are left out. ``base`` and ``candidate`` have one group a place.
    """
    outcomes = {one.outcome for one in verdict.cells}
    wanted = next((one for one in ("worse", "undecided") if one in outcomes), "")
    found: dict[str, Changed] = {}
    for cell, where in zip(verdict.cells, verdict.places, strict=True):
        if cell.outcome != wanted:
            continue
        ours, theirs = _at(base, where), _at(candidate, where)
        if ours is not None and theirs is not None:
            found.setdefault(
                context.key(ours.where, context.OF_RECORD), _changed(cell.cell, ours, theirs)
            )
    return list(found.values())


def _at(groups: Sequence[Group], where: Where) -> Group | None:
    names = context.OF_RECORD
    return next(
        (one for one in groups if all(one.where[name] == getattr(where, name) for name in names)),
        None,
    )


def _changed(cell: str, base: Group, candidate: Group) -> Changed:
    rows = [
        Function(
            name,
            base.functions.get(name, (0.0, 0.0))[0],
            candidate.functions.get(name, (0.0, 0.0))[0],
        )
        for name in {*base.functions, *candidate.functions}
    ]
    rows.sort(key=lambda one: (-abs(one.candidate - one.base), one.name))
    return Changed(
        cell,
        base.total,
        candidate.total,
        len(base.blocks),
        len(candidate.blocks),
        "estimated" in (base.source, candidate.source),
        [one for one in rows[:_FUNCTIONS] if one.base != one.candidate],
    )
