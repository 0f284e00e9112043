"""One figure a label and metric: median, mean, interval, and what is odd about the values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from cnibench.analysis.model import Result
from cnibench.analysis.samples.series import CPP_METRICS
from cnibench.stats.diagnostics import dependence, drift, outliers
from cnibench.stats.inference import Array, holm, median_interval

if TYPE_CHECKING:
    from cnibench.analysis.comparison.contexts import Context, Member

_Odd = tuple[list[int], float | None, float | None, float | None, float | None]
_NOTHING: _Odd = ([], None, None, None, None)
_Moments = tuple[float, float, float | None]


def results(
    contexts: Sequence[Context],
    level: float,
    sources: Mapping[str, str],
    *,
    diagnostics: bool = True,
) -> list[Result]:
    """A Result for each label of each context; ``sources`` says for each label where its cycles
    come from. Without ``diagnostics`` nobody looks for outliers, drift and dependence.
    """
    members = [
        (context, label, member)
        for context in contexts
        for label, member in context.members.items()
    ]
    rows = [
        np.array([member.values[block] for block in sorted(member.values)])
        for _, _, member in members
    ]
    odd = _odd(rows) if diagnostics else [_NOTHING] * len(rows)
    found = []
    for (context, label, member), row, what, moments in zip(
        members, rows, odd, _moments(rows), strict=True
    ):
        interval = median_interval(row, level)
        source = sources.get(label, "") if context.where["metric"] in CPP_METRICS else ""
        found.append(
            _result(
                context,
                label,
                member,
                row,
                moments,
                (interval.low, interval.high, interval.coverage or None),
                what,
                source,
            )
        )
    return found


def _result(
    context: Context,
    label: str,
    member: Member,
    row: Array,
    moments: _Moments,
    interval: tuple[float | None, float | None, float | None],
    what: _Odd,
    source: str,
) -> Result:
    positions, rho, rho_p, lag, lag_p = what
    blocks = sorted(member.values)
    mean, median, deviation = moments
    return Result(
        **context.where,
        profile=member.first.profile,
        label=label,
        fidelity=member.first.fidelity,
        proxy=member.first.proxy,
        n=len(row),
        mean=mean,
        median=median,
        ci_low=interval[0],
        ci_high=interval[1],
        confidence=interval[2],
        spread=deviation / abs(mean) if deviation is not None and mean else None,
        cycles_source=source,
        failed=len(member.tally.failed),
        tried=len(member.tally.tried),
        disturbed=len(member.tally.disturbed),
        blocks=[block for _, block in blocks],
        values=row.tolist(),
        outliers=[blocks[i][1] for i in positions],
        replicate=context.replicate,
        drift=rho,
        drift_p=rho_p,
        dependence=lag,
        dependence_p=lag_p,
    )


def _moments(rows: Sequence[Array]) -> list[_Moments]:
    """(mean, median, standard deviation) of each row; a single value has no standard deviation."""
    found: list[_Moments] = [(math.nan, math.nan, None)] * len(rows)
    for indices in by_length(rows):
        table = np.array([rows[i] for i in indices])
        deviations = table.std(axis=1, ddof=1).tolist() if table.shape[1] > 1 else repeat(None)
        means, medians = table.mean(axis=1).tolist(), np.median(table, axis=1).tolist()
        for i, *moments in zip(indices, means, medians, deviations, strict=False):
            found[i] = (moments[0], moments[1], moments[2])
    return found


def _odd(rows: Sequence[Array]) -> list[_Odd]:
    """Outliers, drift and dependence of each row; both p values are Holm's over all rows of the
    run.
    """
    found = [_NOTHING] * len(rows)
    rho, rho_p, lag, lag_p = (np.full(len(rows), np.nan) for _ in range(4))
    flags: dict[int, list[int]] = {}
    for indices in by_length(rows):
        table = np.array([rows[i] for i in indices])
        rho[indices], rho_p[indices] = drift(table)
        lag[indices], lag_p[indices] = dependence(table)
        for i, row in zip(indices, outliers(table), strict=True):
            flags[i] = np.flatnonzero(row).tolist()
    for p in (rho_p, lag_p):
        tested = ~np.isnan(p)
        p[tested] = holm(p[tested])
    for i in range(len(rows)):
        found[i] = (
            flags.get(i, []),
            *(None if np.isnan(x) else float(x) for x in (rho[i], rho_p[i], lag[i], lag_p[i])),
        )  # type: ignore[assignment]
    return found


def by_length(rows: Sequence[Array]) -> list[list[int]]:
    """Indices of rows of equal length together, so that each lot is one table; at most about 4
    million values a lot.
    """
    lots: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        lots.setdefault(len(row), []).append(i)
    found = []
    for length, indices in lots.items():
        step = max(1, 4_000_000 // max(1, length))
        found += [indices[i : i + step] for i in range(0, len(indices), step)]
    return found
