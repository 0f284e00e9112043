"""Is a candidate no worse than its base? A non-inferiority test, for a gate in CI;
docs/adr/0003-statistics.md says why so.

Each cell is tested at the one-sided level 0.025, so that the decision agrees with the 95 % interval
beside it. The gate passes only when every cell passes, which keeps the level without any correction
(R. L. Berger, Technometrics 24, 1982: intersection-union test); one cell proven worse, after Holm's
correction over the cells, is a regression.

Failures are an outcome. A candidate that fails more often than its base in a cell is worse where an
exact test proves it (failure_rates.py); these tests and those of the figures are one Holm family;
where it is not proven the cell is undecided. Cells in which nothing failed on either side have no
such test: none could ever reject there (R. E. Tarone, Biometrics 46, 1990).

Disturbed samples are neither a figure nor a failure. A cell that they leave without a figure on the
base's side is undecided, on the candidate's side missing. Undecided is also a cell in which base
and candidate were disturbed unequally often (an exact test, two-sided), or in which fewer than half
of the pairs remain: what is left is then a selection, not a sample. That test has no correction for
the number of cells: here a correction would let more pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.gate.cell import Cell, Place
from cnibench.analysis.gate.failure_rates import Evidence, Tally, more_often, unequally_disturbed
from cnibench.analysis.gate.noninferiority import (
    LEVEL,
    Pairs,
    Tested,
    counted,
    homogeneity,
    log_ratios,
    paired_runs,
    unpaired,
)
from cnibench.analysis.gate.verdict import Verdict
from cnibench.analysis.model import Where
from cnibench.analysis.text.places import describe
from cnibench.analysis.text.standings import named
from cnibench.errors import UsageError
from cnibench.model import context
from cnibench.model.metrics import COUNTED, main_metric
from cnibench.stats.inference import holm

Key = tuple[str, str]  # what is measured, but for the metric; the metric
Side = dict[Key, Place]


def side(runs: Sequence[tuple[Sequence[Context], str]]) -> Side:
    """What one side of the gate measured: ``runs`` are the contexts of each run, and the label that
    is meant in it.
    """
    found: Side = {}
    for number, (contexts, label) in enumerate(runs):
        for one in contexts:
            member = one.members.get(label) or one.absent.get(label)
            if member is None or one.where["reading"]:
                continue
            key = (context.key(one.where, context.IDENTITY), one.where["metric"])
            place = found.setdefault(key, Place(Where(**one.where), one.window, []))
            values = {(number, block): value for (_, block), value in member.values.items()}
            place.runs += [values] if values else []
            place.tally |= member.tally.of_run(number)
    return found


def judge(
    base: Side,
    candidate: Side,
    threshold: float,
    *,
    pairwise: bool,
    metrics: Sequence[str] = (),
    main: Mapping[str, str] | None = None,
    level: float = LEVEL,
    others: Sequence[tuple[Side, Side]] = (),
    across: bool = False,
) -> Verdict:
    """Base against candidate, cell by cell: each place's main metric, and those in ``metrics``
    besides; ``main`` is what the base stored.

    ``pairwise``: both are labels of the same run, or of the same runs, and compared block by block;
    else the runs are the unit. ``level`` is that of each one-sided test. ``others`` are base and
    candidate of other candidates, whose runs say how much runs differ where blocks are compared;
    ``across``: passing takes that knowledge (``by_runs``). A cell that the base has and the
    candidate lacks is ``missing``. Raises UsageError when the threshold is no fraction between 0
    and 1.
    """
    if not 0 < threshold < 1:
        raise UsageError(
            f"the threshold must be above 0 and below 1, not {threshold:g}", "write --threshold 5%"
        )
    chosen = _chosen(base, metrics, main or {})
    rows = [(key, True) for key in chosen] + [
        (key, False) for key in _failing(base, candidate, chosen)
    ]
    tests: dict[tuple[Key, str], float] = {}
    tested: dict[Key, Tested] = {}
    failing: dict[Key, Evidence] = {}
    disturbed: dict[Key, Evidence] = {}
    ratios = {key: [_runs(one, two, key) for one, two in others] for key in chosen}
    agreement = 1.0
    if pairwise:
        families = [
            pairs for key in chosen for pairs in (_runs(base, candidate, key), *ratios[key])
        ]
        agreement = homogeneity([rows for rows in map(log_ratios, families) if rows])
    for key, figures in rows:
        if figures and key in candidate:
            test = _figures(
                base[key],
                candidate[key],
                threshold,
                level,
                partial(paired_runs, others=ratios[key], agreement=agreement, across=across)
                if pairwise
                else None,
            )
            if test is not None:
                tested[key] = test
                tests[key, "figures"] = test.p_worse
        if found := more_often(_tally(base, key), _tally(candidate, key), paired=pairwise):
            failing[key] = found
            tests[key, "failures"] = found.p
        if uneven := unequally_disturbed(
            _tally(base, key), _tally(candidate, key), paired=pairwise
        ):
            disturbed[key] = uneven
    adjusted = dict(zip(tests, map(float, holm(np.array(list(tests.values())))), strict=True))
    open_tests = sum(p > level for p in adjusted.values())
    places = [base[key] if key in base else candidate[key] for key, _ in rows]
    names = named([place.where for place in places], describe)
    cells = []
    for name, place, (key, figures) in zip(names, places, rows, strict=True):
        one = Cell(
            name,
            place,
            base.get(key),
            candidate.get(key),
            figures,
            tested.get(key),
            adjusted.get((key, "figures"), 1.0),
            failing.get(key),
            adjusted.get((key, "failures")),
            disturbed.get(key),
            pairwise,
            threshold,
            level,
            open_tests,
        )
        cells.append(one.judged())
    return Verdict(
        cells,
        threshold,
        _how(candidate) if pairwise else "runs against runs",
        [place.where for place in places],
    )


def _how(candidate: Side) -> str:
    runs = {number for place in candidate.values() for number, _ in place.tally.tried}
    return f"block by block within {f'{len(runs)} runs' if len(runs) > 1 else 'one run'}"


def judged_keys(base: Side, metrics: Sequence[str], main: Mapping[str, str]) -> list[Key]:
    """Those whose figures ``judge`` tests."""
    return _chosen(base, metrics, main)


def _tally(side: Side, key: Key) -> Tally:
    return side[key].tally if key in side else Tally()


def _figures(
    base: Place,
    candidate: Place,
    threshold: float,
    level: float,
    by_blocks: Callable[..., Tested | None] | None,
) -> Tested | None:
    better, ours, theirs = base.where.better, base.runs, candidate.runs
    if not ours or not theirs:
        return None
    if (
        base.where.metric in COUNTED
        and (known := counted(ours, theirs, better, threshold)) is not None
    ):
        return known
    if by_blocks:
        return by_blocks(_pairs(ours, theirs), better, threshold, level)
    one, other = ([np.array(list(run.values())) for run in runs] for runs in (ours, theirs))
    return unpaired(one, other, better, threshold, level)


def _runs(base: Side, candidate: Side, key: Key) -> Pairs:
    both = key in base and key in candidate
    return _pairs(base[key].runs, candidate[key].runs) if both else []


def _pairs(base: Sequence[Mapping[Any, float]], candidate: Sequence[Mapping[Any, float]]) -> Pairs:
    """(base, candidate) of each run that has both."""
    ours, theirs = _by_run(base), _by_run(candidate)
    return [(ours[run], theirs[run]) for run in ours if run in theirs]


def _by_run(runs: Sequence[Mapping[Any, float]]) -> dict[int, Mapping[Any, float]]:
    """By the number of the run, which the keys of its blocks begin with."""
    return {next(iter(values))[0]: values for values in runs}


def _chosen(base: Side, metrics: Sequence[str], main: Mapping[str, str]) -> list[Key]:
    places: dict[str, list[str]] = {}
    for where, metric in base:
        places.setdefault(where, []).append(metric)

    def chief(key: Key) -> str:
        """No other metric takes the place of one that is unknown because nothing gave a figure."""
        there = places[key[0]]
        return "" if "" in there else main_metric(base[key].where.workload, there, main)

    return [key for key in base if key[1] == chief(key) or key[1] in metrics]


def _failing(base: Side, candidate: Side, chosen: Sequence[Key]) -> list[Key]:
    """One key of each kind of window of a place that failed or was disturbed at times on either
    side and whose figures are not judged.
    """
    places = {key: side[key] for side in (candidate, base) for key in side}
    seen = {(key[0], places[key].window) for key in chosen}
    found = []
    for key, place in places.items():
        ours, theirs = _tally(base, key), _tally(candidate, key)
        if (
            (key[0], place.window) not in seen
            and ours.begun
            and theirs.begun
            and (ours.failed or theirs.failed or ours.disturbed or theirs.disturbed)
        ):
            seen.add((key[0], place.window))
            found.append(key)
    return found
