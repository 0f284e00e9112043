"""What the tests take for granted, checked: outliers, drift over the run, dependence from block to
block. Nothing is ever dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from cnibench.stats.inference import Array

LEAST = 8  # values below which neither drift nor dependence can be tested with any use
_SHORTEST = 5  # blocks whose order can tell anything
_ORDERS = 1999  # of the blocks, that are compared with the one seen
# A lag-1 correlation with which two profiles differ falsely in 12 % of all comparisons, 16 in 38 %.
_HARMFUL = 0.3
_LIMIT = 2.0  # standard errors; those are of independent blocks, and too small for others
_FAR = (
    3.5  # B. Iglewicz and D. C. Hoaglin, How to Detect and Handle Outliers, 1993: modified z score
)


def outliers(rows: Array) -> NDArray[np.bool_]:
    """True for values far from their row's median (shape: series x blocks): modified z score above
    3.5; where the median deviation is 0, the mean deviation is used. Rows of fewer than 5 values
    have none.
    """
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    if rows.shape[1] < 5:
        return np.zeros(rows.shape, dtype=np.bool_)
    away = np.abs(rows - np.median(rows, axis=1, keepdims=True))
    median = np.median(away, axis=1, keepdims=True)
    scale = np.where(median > 0, 1.4826 * median, 1.2533 * away.mean(axis=1, keepdims=True))
    # Rounding alone makes no outlier: what differs by 1e-9 of the value is equal.
    return away > np.maximum(_FAR * scale, 1e-9 * np.abs(np.median(rows, axis=1, keepdims=True)))


def _ranks(rows: Array) -> Array:
    """Ranks along each row; ties are broken by a fixed shuffle of the columns, not by time, which
    would look like drift.
    """
    count, n = rows.shape
    shuffle = np.random.default_rng(n).permutation(n)
    order = np.argsort(rows[:, shuffle], kind="stable")
    ranks = np.empty((count, n))
    np.put_along_axis(
        ranks, shuffle[order], np.broadcast_to(np.arange(1.0, n + 1), (count, n)), axis=1
    )
    return ranks


def drift(rows: Array) -> tuple[Array, Array]:
    """(rho, p): Spearman's rank correlation of each row with time, two-sided p by Student's t; p is
    NaN below 8 values or for constants.
    """
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    count, n = rows.shape
    if n < LEAST:
        return np.full(count, np.nan), np.full(count, np.nan)
    time = np.arange(1.0, n + 1) - (n + 1) / 2
    rho = (_ranks(rows) * time).sum(axis=1) / (time**2).sum()
    t = np.abs(rho) * np.sqrt((n - 2) / np.maximum(1 - rho**2, 1e-300))
    p = 2 * scipy.special.stdtr(n - 2, -t)
    constant = rows.max(axis=1) == rows.min(axis=1)
    return np.where(constant, np.nan, rho), np.where(constant, np.nan, p)


def dependence(rows: Array) -> tuple[Array, Array]:
    """(lag-1 rank correlation, p): the rank von Neumann ratio (R. Bartels, JASA 77, 1982),
    two-sided, normal approximation; p is NaN below 8 values or for constants."""
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    count, n = rows.shape
    if n < LEAST:
        return np.full(count, np.nan), np.full(count, np.nan)
    ranks = _ranks(rows)
    ratio = (np.diff(ranks) ** 2).sum(axis=1) / ((ranks - (n + 1) / 2) ** 2).sum(axis=1)
    variance = 4 * (n - 2) * (5 * n * n - 2 * n - 9) / (5 * n * (n + 1) * (n - 1) ** 2)
    p = 2 * scipy.special.ndtr(-np.abs(ratio - 2) / np.sqrt(variance))
    constant = rows.max(axis=1) == rows.min(axis=1)
    return np.where(constant, np.nan, 1 - ratio / 2), np.where(constant, np.nan, p)


class Dependence(NamedTuple):
    """The lag-1 ``correlation``, its one-sided ``p``, and whether a correlation of 0.3 or more is
    ``excluded``: two standard errors above what is seen.
    """

    correlation: float
    p: float
    excluded: bool


def dependence_together(tables: Sequence[Array]) -> Dependence | None:
    """Of what each profile has beyond its block and its own level, over all tables of logs
    (profiles x blocks) of a run: single series of 6 or 8 blocks show none.

    Under independence every order of the blocks is as likely; the p counts random orders, the same
    for all tables. Their scatter is the standard error, and so tables that have their noise in
    common count as the few that they are. None where no table has 5 blocks of two profiles that
    vary. Only tables with the most blocks count.
    """
    usable = [table for table in tables if min(table.shape) > 1 and table.shape[1] >= _SHORTEST]
    n = max((table.shape[1] for table in usable), default=0)
    products = np.zeros((n, n))
    for table in usable:
        if table.shape[1] < n:
            continue
        rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        size = np.sqrt((rest**2).sum(axis=1, keepdims=True))
        if (size > 1e-12).all():
            products += (rest / size).T @ (rest / size)
    if not products.any():
        return None
    orders = _orders(n)
    seen = float(np.trace(products, 1))
    chance = products[orders[:, :-1], orders[:, 1:]].sum(axis=1)
    p = (1 + int((chance >= seen - 1e-12).sum())) / (1 + _ORDERS)
    limit = seen + _LIMIT * float(chance.std())
    total = float(np.trace(products))
    return Dependence(seen / total + 1 / n, p, limit < _expected(n, _HARMFUL) * total)


@lru_cache(maxsize=16)
def _orders(n: int) -> NDArray[np.int64]:
    """Random orders of so many blocks, the same ones each time."""
    return np.random.default_rng(n).permuted(np.tile(np.arange(n), (_ORDERS, 1)), axis=1)


def _expected(n: int, correlation: float) -> float:
    """What the lag-1 correlation of ``n`` values is about their own mean where the true one of
    neighbours is ``correlation``, and that of values k apart its k-th power: ratio of expectations.
    """
    at = np.arange(n)
    true = correlation ** np.abs(at[:, None] - at)
    rest = true - true.mean(axis=0) - true.mean(axis=1, keepdims=True) + true.mean()
    return float(np.trace(rest, 1) / np.trace(rest))


def dependence_over_time(table: Array) -> tuple[float, float] | None:
    """(lag-1 correlation, one-sided p) of several series (series x time, NaN where one has no
    value) about their levels, which are taken out already.

    By the lag-1 correlation of differences, mean over the series, which a level that was missed
    hardly moves. The p counts random orders, the same for all series. None where no series has 8
    values that vary.
    """
    keys = np.random.default_rng(table.shape[1]).random((_ORDERS, table.shape[1]))
    seen, chance, count = 0.0, np.zeros(_ORDERS), 0
    for row in table:
        there = ~np.isnan(row)
        values = row[there]
        if len(values) < LEAST or values.std() <= 1e-9:
            continue
        seen += float(_of_differences(values[None, :])[0])
        chance += _of_differences(values[np.argsort(keys[:, there], axis=1)])
        count += 1
    if not count:
        return None
    p = (1 + int((chance >= seen - 1e-12).sum())) / (1 + _ORDERS)
    return 1 + 2 * seen / count, p


def _of_differences(rows: Array) -> Array:
    """The lag-1 correlation of each row's differences: -1/2 where values are independent."""
    steps = np.diff(rows, axis=1)
    found: Array = (steps[:, :-1] * steps[:, 1:]).sum(axis=1) / (steps**2).sum(axis=1)
    return found
