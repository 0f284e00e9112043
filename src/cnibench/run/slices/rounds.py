"""Rounds as pure functions: in which order the cells come, which slices are disturbed, and what
value a block has.

A block's value of a cell is exp(mean of the logs of its rates), robust against disturbed slices:
each round's own effect (the median over the cells that are compared with each other, which all had
it within a fraction of a second) is taken off before the logs are trimmed and added again to all
cells alike. So the ratio of two values is a trimmed mean of paired ratios, and the values have the
scale of the rates.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cnibench.run.slices.slice import Slice
from cnibench.stats.robust import trimmed

WAITED = 0.25  # share of a slice, beyond what is usual for the cell
GAP = 0.25  # share of a slice for which cnibench was not woken, although it waited for no CPU
TAKEN = 0.25  # share of a slice that the host or a CPU quota took, on one CPU or on several
LATE = 0.5  # share of a slice by which it took longer than it was asked to
FEWEST = 4  # rounds of which a value can be made


@dataclass(frozen=True)
class Value:
    """What a block found for one cell. ``half`` is the half width of the 95 % interval of its log,
    from the spread within the block; ``left_out`` are its disturbed slices, and ``spoilt`` says
    that they are in the value all the same, because too few others were left.
    """

    rate: float
    cpu: float
    rounds: int
    left_out: int
    seconds: float
    half: float
    spoilt: bool = False


def disturbed(slices: Sequence[Slice]) -> list[bool]:
    """Which slices of one cell had too little of the machine: the client waited for a CPU far
    longer than is usual for it, the host (steal) or a CPU quota took much of it, a program of the
    load was stopped, another cell's load ran, cnibench was not woken for a while, the slice took
    far longer than asked, or nothing was delivered.
    """
    usual = statistics.median(one.waited / one.seconds for one in slices) if slices else 0.0
    return [
        one.units <= 0
        or bool(one.stops)
        or one.beside
        or one.gap > one.asked * GAP
        or one.waited / one.seconds > usual + WAITED
        or max(one.steal or 0.0, one.throttled or 0.0) > one.asked * TAKEN
        or one.seconds > one.asked * (1 + LATE)
        for one in slices
    ]


def undisturbed(slices: Iterable[Slice]) -> dict[str, dict[int, Slice]]:
    """Cell to round to its slice."""
    return {
        cell: {one.round: one for one, bad in zip(its, disturbed(its), strict=True) if not bad}
        for cell, its in _by_cell(slices).items()
    }


def _by_cell(slices: Iterable[Slice]) -> dict[str, list[Slice]]:
    found: dict[str, list[Slice]] = {}
    for one in slices:
        found.setdefault(one.cell, []).append(one)
    return found


def kept(slices: Sequence[Slice]) -> list[Slice]:
    """The slices of one cell that count: the undisturbed ones. When they are fewer than FEWEST,
    all that delivered something: the sample is disturbed then, and has a value nevertheless.
    """
    marks = disturbed(slices)
    good = [one for one, bad in zip(slices, marks, strict=True) if not bad]
    return good if len(good) >= FEWEST else [one for one in slices if one.units > 0]


def values(groups: Iterable[Sequence[str]], slices: Iterable[Slice]) -> dict[str, Value]:
    """Cell to its value. ``groups`` are the cells that are compared with each other; a cell with
    fewer than FEWEST slices that count has no value.
    """
    of = _by_cell(slices)
    bad = {cell: sum(disturbed(its)) for cell, its in of.items()}
    spoilt = {cell for cell, its in of.items() if len(its) - bad[cell] < FEWEST}
    found = {}
    for group in groups:
        good = {cell: kept(of[cell]) for cell in group if cell in of}
        good = {cell: its for cell, its in good.items() if len(its) >= FEWEST}
        together = [cell for cell in good if cell not in spoilt]
        for cells in (together, *([cell] for cell in good if cell in spoilt)):
            rates = _fit({cell: {s.round: math.log(s.rate) for s in good[cell]} for cell in cells})
            costs = _fit(
                {
                    cell: {s.round: math.log(s.cpu) for s in good[cell] if s.cpu > 0}
                    for cell in cells
                }
            )
            for cell in cells:
                log, half = rates[cell]
                found[cell] = Value(
                    rate=math.exp(log),
                    cpu=math.exp(costs[cell][0]) if cell in costs else 0.0,
                    rounds=len(of[cell]),
                    left_out=bad[cell],
                    seconds=math.fsum(one.seconds for one in good[cell]),
                    half=half,
                    spoilt=cell in spoilt,
                )
    return found


def modes(cpu: float, user: float | None, slices: Sequence[Slice]) -> dict[str, float]:
    """CPU time per unit in s by mode, estimated: ``user`` and ``system``, which add up to ``cpu``,
    by the share of user space, where it is known; ``softirq`` of the CPUs that the load may use, in
    these slices.

    Softirqs in the context of the load's programs are in ``system`` as well.
    """
    found = {} if user is None else {"user": cpu * user, "system": cpu * (1 - user)}
    known = [(one.softirq, one.units) for one in slices if one.softirq is not None]
    if units := math.fsum(one for _, one in known):
        found["softirq"] = math.fsum(one for one, _ in known) / units
    return found


def _fit(logs: Mapping[str, Mapping[int, float]]) -> dict[str, tuple[float, float]]:
    """Cell to (its log, half width of the 95 % interval of its difference from the rounds'
    effects).
    """
    logs = {cell: its for cell, its in logs.items() if its}
    if not logs:
        return {}
    level = {cell: statistics.median(its.values()) for cell, its in logs.items()}
    effects: dict[int, float] = {}
    for round in {round for its in logs.values() for round in its}:
        # what the round did to each cell, not which cells it had; one cell alone does not show it
        deviations = [its[round] - level[cell] for cell, its in logs.items() if round in its]
        effects[round] = statistics.median(deviations) if len(deviations) > 1 else 0.0
    whole = trimmed(list(effects.values()))[0]
    found = {}
    for cell, its in logs.items():
        mean, half = trimmed([log - effects[round] for round, log in its.items()])
        found[cell] = (mean + whole, half)
    return found
