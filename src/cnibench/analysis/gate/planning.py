"""How many blocks, or runs, a candidate needs to pass the gate in all of its cells.

The noise of a cell is the standard deviation of the log ratio of candidate and base from block to
block. It is taken from blocks that have both; where there is no candidate yet, from the profiles
that the base was measured with (what label and block explain is taken out, and the rest times the
square root of 2); where the base was measured alone, from its own blocks, which is too much, for
what a block shares does not cancel. Plans use the upper 80 % confidence limit of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.gate.evidence import between_runs
from cnibench.analysis.gate.judgement import Key, Side
from cnibench.analysis.gate.noninferiority import RUNS, margin
from cnibench.analysis.text.places import describe
from cnibench.analysis.text.standings import named
from cnibench.errors import InputError, UsageError
from cnibench.model import context
from cnibench.model.metrics import COUNTED
from cnibench.stats.gate_power import (
    all_pass,
    blocks_to_pass,
    proves,
    repeats_pass,
    repeats_to_pass,
    runs_to_pass,
    upper_spread,
)
from cnibench.stats.power import MOST_BLOCKS

Table = list[np.ndarray[Any, np.dtype[np.float64]]]  # of each run: logs, labels x blocks


@dataclass(frozen=True)
class Noise:
    """``spread`` of the log ratio between blocks, ``upper`` its 80 % limit, both with ``freedom``
    degrees of freedom. ``source`` in words.
    """

    spread: float
    upper: float
    freedom: int
    source: str


@dataclass(frozen=True)
class Planned:
    """One cell. ``alone`` are the blocks that it would need if it were the only one, None above
    1000. ``between`` is the standard deviation of the base's mean logs from run to run, of ``runs``
    runs; None below 3.
    """

    cell: str
    metric: str
    noise: Noise
    alone: int | None
    between: float | None
    runs: int


@dataclass(frozen=True)
class GatePlan:
    """``blocks`` of each side in the same runs, None above 1000: with them an equal candidate
    passes all cells with the probability ``passes``, and one whose log ratio is twice the margin in
    a single cell is proven worse with at least ``finds``. ``have`` blocks are in the history.
    ``repeats``: the (runs, blocks of each) that a candidate of a history needs for that, whose
    ``passes`` and ``finds`` these are; None without a history, or above 1000 blocks a run.

    ``runs`` are the (base, candidate) runs that the same takes where runs are compared with runs;
    None where that is not known (fewer than 3 base runs) or above 200 in total.
    """

    threshold: float
    power: float
    level: float
    look: int
    cells: list[Planned]
    blocks: int | None
    passes: float
    finds: float
    have: int
    base_runs: int
    runs: tuple[int, int] | None
    repeats: tuple[int, int] | None = None


def noise_of_pairs(base: Side, candidate: Side, key: Key) -> Noise | None:
    """From blocks that have both, run by run; None with fewer than three of them."""
    if key not in base or key not in candidate:
        return None
    values = {block: [run[block]] for run in base[key].runs for block in run}
    for run in candidate[key].runs:
        for block in run.keys() & values.keys():
            values[block].append(run[block])
    tables: dict[int, list[list[float]]] = {}
    for (run_number, _), both in sorted(values.items()):
        if len(both) == 2:
            tables.setdefault(run_number, []).append(both)
    return _noise([np.array(table).T for table in tables.values()], "base and candidate")


def noise_of_base(runs: Sequence[tuple[Sequence[Context], str]], key: Key) -> Noise | None:
    """From the base's runs, each as its contexts and the base's label."""
    tables, alone = [], []
    for contexts, label in runs:
        for one in contexts:
            where = (context.key(one.where, context.IDENTITY), one.where["metric"])
            if where != key or one.where["reading"] or label not in one.members:
                continue
            members = [member.values for member in one.members.values() if member.values]
            blocks = sorted(set.intersection(*(set(values) for values in members)))
            if len(members) > 1 and len(blocks) > 1:
                tables.append(np.array([[values[b] for b in blocks] for values in members]))
            own = list(one.members[label].values.values())
            alone += [np.array([own])] if len(own) > 1 else []
    return _noise(tables, "the base's profiles") or _noise(alone, "the base alone, too much")


def _noise(tables: Sequence[Any], source: str) -> Noise | None:
    """Pooled over runs; what labels and blocks explain is taken out, of a single label its mean."""
    squares, freedom, blocks = 0.0, 0, 0
    for values in tables:
        if not (values > 0).all():
            return None
        logs = np.log(values)
        labels, count = logs.shape
        rest = logs - logs.mean(axis=1, keepdims=True)
        if labels > 1:
            rest = rest - rest.mean(axis=0)
        squares += float((rest**2).sum())
        freedom += max(1, labels - 1) * (count - 1)
        blocks += count
    if freedom < 2:
        return None
    spread = math.sqrt(2 * squares / freedom)
    spread = 0.0 if spread < 1e-12 else spread  # rounding is no noise
    return Noise(spread, upper_spread(spread, freedom), freedom, f"{blocks} blocks of {source}")


def plan(
    base: Side,
    keys: Sequence[Key],
    noises: Mapping[Key, Noise | None],
    threshold: float,
    *,
    power: float,
    level: float,
    look: int = 1,
    have: int = 0,
    freedom: int | None = None,
) -> GatePlan:
    """``keys`` are the cells that the gate judges, ``base`` all that is known of the base.
    ``level`` is that of each one-sided test at the next ``look``. ``freedom``: the degrees of
    freedom between runs of other candidates in a history, None without one. Raises
    InputError for a cell whose noise is not known, UsageError when the threshold or the power is no
    fraction between 0 and 1.
    """
    if not 0 < threshold < 1:
        raise UsageError(
            f"the threshold must be above 0 and below 1, not {threshold:g}", "write --threshold 5%"
        )
    names = named([base[key].where for key in keys], describe)
    between = between_runs(base, keys)
    cells, effects, apart = [], [], []
    for key, name in zip(keys, names, strict=True):
        where = base[key].where
        if (
            where.metric in COUNTED
            and len({x for run in base[key].runs for x in run.values()}) == 1
        ):
            continue  # alike in all blocks: that takes no test
        if (noise := noises.get(key)) is None:
            raise InputError(
                f"{name}: {where.metric or 'no figure'} has too few values above 0 to know its"
                " noise",
                "name a run with at least 3 blocks in which this cell did not fail",
            )
        reach = abs(margin(where.better, threshold))
        effects.append(reach / noise.upper if noise.upper else math.inf)
        spread, count = between.get(key, (math.nan, 0))
        known = count >= RUNS
        if known:
            limit = upper_spread(spread, count - 1)
            apart.append(reach / limit if limit else math.inf)
        alone = blocks_to_pass(effects[-1:], level, power)
        cells.append(Planned(name, where.metric, noise, alone, spread if known else None, count))
    blocks = blocks_to_pass(effects, level, power)
    planned = MOST_BLOCKS if blocks is None else blocks
    passes = all_pass(planned, effects, level)
    finds = [proves(planned, one, level / len(cells)) for one in effects]
    repeats = None if freedom is None else repeats_to_pass(effects, level, power, freedom)
    if repeats and freedom is not None:
        passes = repeats_pass(*repeats, effects, level, freedom)
        finds = [repeats_pass(*repeats, [one], level / len(cells), freedom) for one in effects]
    several = len(cells) and len(apart) == len(cells)
    base_runs = max((one.runs for one in cells), default=0)
    return GatePlan(
        threshold,
        power,
        level,
        look,
        cells,
        blocks,
        passes,
        min(finds, default=1.0),
        have,
        base_runs,
        runs_to_pass(apart, level, power, max(RUNS, base_runs)) if several else None,
        repeats,
    )
