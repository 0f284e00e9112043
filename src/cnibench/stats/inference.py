"""The tests and intervals that every verdict rests on; docs/adr/0003-statistics.md argues the
choices.

The unit is the block. Two profiles are compared by the log ratios of their values in the same
blocks, with Wilcoxon's signed-rank test: an exact sign-flip test of the ranks (F. Wilcoxon,
Biometrics Bulletin 1(6), 1945; ties and zeros after J. W. Pratt, JASA 54, 1959). Its interval is
the test's own inversion, through the Walsh averages (J. L. Hodges and E. L. Lehmann, Ann. Math.
Stat. 34, 1963), so that interval and test never contradict each other. Arrays are float64; one row
is one comparison.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import comb

import numpy as np
import scipy  # and scipy.special when it is used: most runs need none of it, and it is slow
from numpy.typing import NDArray

Array = NDArray[np.float64]

ALPHA = 0.05
# blocks up to which the null distribution is counted out; beyond, the normal approximation of one
# tail is right to 4e-4, and to 1e-4 where it is below 5 %
_EXACT = 200
_WALSH = 400  # values up to which all Walsh averages are listed; beyond, they are counted
_AT_ONCE = 1_000_000  # Walsh averages that a thread holds in memory at a time


@lru_cache(maxsize=256)
def null_cdf(n: int) -> Array:
    """P(W <= w) for w = 0 .. n(n+1)/2 when ``n`` signs are fair coins and no ranks are tied."""
    return _cdf_of_ranks(np.arange(1, n + 1))


def _cdf_of_ranks(ranks: NDArray[np.int64]) -> Array:
    """P(sum of the ranks with a plus sign <= w), signs fair and independent, by adding one rank at
    a time.
    """
    chance = np.zeros(int(ranks.sum()) + 1)
    chance[0] = 1.0
    top = 0
    for rank in (int(r) for r in ranks):
        chance[rank : top + rank + 1] = (
            chance[rank : top + rank + 1] + chance[: top + 1] if rank else chance[: top + 1]
        )
        chance *= 0.5
        top += rank
    return np.cumsum(chance)


@lru_cache(maxsize=4096)
def _order(n: int, alpha: float) -> tuple[int, float]:
    """(k, coverage): the interval runs from the k-th smallest to the k-th largest Walsh average; k
    = 0 when there is none.
    """
    if n < 1:
        return 0, 0.0
    if n <= _EXACT:
        cdf = null_cdf(n)
        k = int(np.searchsorted(cdf, alpha / 2 * (1 + 1e-12)))
        return k, 1.0 - 2.0 * float(cdf[k - 1]) if k else 0.0
    mean, spread = n * (n + 1) / 4, (n * (n + 1) * (2 * n + 1) / 24) ** 0.5
    return int(mean + float(scipy.special.ndtri(alpha / 2)) * spread), 1.0 - alpha


def walsh_averages(rows: Array) -> Array:
    """The means of each two values of a row and of each value with itself; shape: rows x n(n+1)/2,
    the pairs in the same order in all rows.

    So many of them are below 0 as the signed-rank statistic of the negative values says (J. W.
    Tukey), if no two values are tied.
    """
    i, j = np.triu_indices(rows.shape[1])
    averages: Array = (rows[:, i] + rows[:, j]) / 2
    return averages


def walsh_needed(n: int, alpha: float = ALPHA) -> int:
    """So many Walsh averages of ``n`` values have to lie on either side of 0, or on it, for 0 to be
    in the interval of level 1 - alpha; 0 when there is no such interval."""
    return _order(n, alpha)[0]


def walsh_p(n: int, count: int) -> float:
    """The two-sided p of the signed-rank test where ``count`` Walsh averages of ``n`` values lie on
    the side of 0 that has fewer.
    """
    if n <= _EXACT:
        return min(1.0, 2.0 * float(null_cdf(n)[count]))
    mean, spread = n * (n + 1) / 4, (n * (n + 1) * (2 * n + 1) / 24) ** 0.5
    return min(1.0, 2.0 * float(scipy.special.ndtr((count + 0.5 - mean) / spread)))


@dataclass(frozen=True)
class SignedRank:
    """One entry per row: ``centre`` (Hodges-Lehmann), ``low`` and ``high`` (NaN where n is too
    small for an interval of that level), two-sided ``p``, ``upper`` = P of so much or more and
    ``lower`` = P of so little or less when the centre is 0, and ``effect``: the matched-pairs
    rank-biserial correlation, from -1 (below 0 in all blocks) to 1.
    """

    n: int
    centre: Array
    low: Array
    high: Array
    coverage: float
    p: Array
    upper: Array
    lower: Array
    effect: Array


def signed_rank(rows: Array, alpha: float = ALPHA, interval: bool = True) -> SignedRank:
    """Tests each row (shape: comparisons x blocks, finite values) for a centre of 0; the interval
    has coverage of at least 1 - alpha.
    """
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    count, n = rows.shape
    if n == 0:
        nothing = np.full(count, np.nan)
        return SignedRank(
            0,
            nothing,
            nothing,
            nothing,
            0.0,
            np.ones(count),
            np.ones(count),
            np.ones(count),
            np.zeros(count),
        )
    plus, lower, upper = _test(rows)
    total = n * (n + 1) / 2
    p = np.minimum(1.0, 2.0 * np.minimum(lower, upper))
    k, coverage = _order(n, alpha)
    centre, low, high = (
        _invert(rows, np.full(count, k)) if interval else (np.full(count, np.nan),) * 3
    )
    return SignedRank(n, centre, low, high, coverage, p, upper, lower, plus / total)


def intervals(rows: Array, alpha: float) -> tuple[Array, Array]:
    """The ends of each row's interval of ``signed_rank``, NaN where there are too few values."""
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    k = _order(rows.shape[1], alpha)[0]
    if not k:
        return np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    _, low, high = _invert(rows, np.full(len(rows), k))
    return low, high


def estimates(rows: Array, alpha: Array) -> tuple[Array, Array, Array]:
    """(centre, low, high) of each row as ``signed_rank`` gives them, with a level for each row."""
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    count, n = rows.shape
    if n == 0:
        nothing = np.full(count, np.nan)
        return nothing, nothing, nothing
    return _invert(rows, np.array([_order(n, float(one))[0] for one in alpha], dtype=np.int64))


def _test(rows: Array) -> tuple[Array, Array, Array]:
    """(W+ - W-, P(W+ <= seen), P(W+ >= seen)) for each row."""
    count, n = rows.shape
    size = np.abs(rows)
    order = np.argsort(size, axis=1, kind="stable")
    ordered = np.take_along_axis(size, order, axis=1)
    ranks = np.empty((count, n))
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(1.0, n + 1), (count, n)), axis=1)
    tied = (ordered[:, 0] == 0.0) | (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    for row in np.flatnonzero(tied):
        ranks[row] = _midranks(size[row])
    plus = np.where(rows > 0, ranks, 0.0).sum(axis=1)
    minus = np.where(rows < 0, ranks, 0.0).sum(axis=1)
    if n <= _EXACT:
        cdf = np.concatenate(([0.0], null_cdf(n)))
        at = plus.astype(np.int64)
        lower, upper = cdf[at + 1], 1.0 - cdf[at]
        # The far tail by symmetry: 1 - cdf would lose its digits there.
        upper = np.where(
            plus > minus, cdf[np.minimum(minus.astype(np.int64) + 1, len(cdf) - 1)], upper
        )
        for row in np.flatnonzero(tied):
            lower[row], upper[row] = _tied_tails(rows[row], ranks[row])
    else:
        counted = np.where(rows != 0, ranks, 0.0)
        spread = np.sqrt((counted**2).sum(axis=1) / 4)
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (plus - counted.sum(axis=1) / 2) / spread
        lower = np.where(spread > 0, scipy.special.ndtr(z + 0.5 / np.maximum(spread, 1)), 1.0)
        upper = np.where(spread > 0, scipy.special.ndtr(-z + 0.5 / np.maximum(spread, 1)), 1.0)
    return plus - minus, lower, upper


def _midranks(values: Array) -> Array:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Array = (last - (counts - 1) / 2.0)[inverse]
    return shared


def _tied_tails(row: Array, ranks: Array) -> tuple[float, float]:
    """Tails of the exact distribution, given these ties; zeros are ranked and then left out
    (Pratt).
    """
    doubled = np.rint(2 * ranks[row != 0]).astype(np.int64)
    if not len(doubled):
        return 1.0, 1.0
    cdf = _cdf_of_ranks(doubled)
    plus = int(np.rint(2 * ranks[row > 0].sum()))
    minus = int(np.rint(2 * ranks[row < 0].sum()))
    return float(cdf[plus]), float(cdf[minus])


def _invert(rows: Array, ks: NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """The Hodges-Lehmann centre and each row's k-th Walsh averages from both ends, NaN for 0."""
    count, n = rows.shape
    pairs = n * (n + 1) // 2
    centre, low, high = np.empty(count), np.full(count, np.nan), np.full(count, np.nan)
    if n > _WALSH:
        for i, (row, k) in enumerate(zip(rows, ks.tolist(), strict=True)):
            values = np.sort(row)
            centre[i] = _walsh(values, (pairs + 1) // 2)
            if k:
                low[i], high[i] = _walsh(values, k), _walsh(values, pairs + 1 - k)
        return centre, low, high
    step = max(1, _AT_ONCE // pairs)

    def listed(start: int) -> None:
        part = rows[start : start + step]
        sums = np.empty((len(part), pairs))
        at = 0
        for i in range(n):
            np.add(part[:, i : i + 1], part[:, i:], out=sums[:, at : at + n - i])
            at += n - i
        sums.sort(axis=1)  # faster than a partition at several places, which has no vector code
        here = slice(start, start + step)
        centre[here] = (sums[:, (pairs - 1) // 2] + sums[:, pairs // 2]) / 4
        k = ks[here, None]
        ends_low = np.take_along_axis(sums, np.maximum(k - 1, 0), axis=1)[:, 0] / 2
        ends_high = np.take_along_axis(sums, np.minimum(pairs - k, pairs - 1), axis=1)[:, 0] / 2
        there = k[:, 0] > 0
        low[here], high[here] = (
            np.where(there, ends_low, np.nan),
            np.where(there, ends_high, np.nan),
        )

    if count <= step:
        listed(0)
        return centre, low, high
    cpus = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(cpus) as pool:  # NumPy sorts without the GIL
        list(pool.map(listed, range(0, count, step)))  # raises what a thread raised
    return centre, low, high


def _walsh(values: Array, rank: int) -> float:
    """The ``rank``-th smallest Walsh average of sorted ``values``, exact to one rank of the very
    many that there are.

    Found by regula falsi (the Illinois variant) on their number up to a point, which is almost a
    straight line there.
    """
    pairs = len(values) * (len(values) + 1) / 2
    low, high = float(values[0]), float(values[-1])
    below, above = 1.0 - rank, pairs - rank
    for _ in range(60):
        if above <= 0.5 or high - low <= 1e-12 * max(abs(low), abs(high)):
            break
        middle = low + (high - low) * min(0.99, max(0.01, below / (below - above)))
        twice = int(np.searchsorted(values, 2 * middle - values, side="right").sum())
        found = (twice + int(np.searchsorted(values, middle, side="right"))) / 2 - rank
        if found >= 0:
            high, above, below = middle, found, below / 2
        else:
            low, below, above = middle, found, above / 2
        if -1 <= found <= 1:
            return middle
    return high


def holm(p: Array, axis: int = -1) -> Array:
    """Holm's adjusted p values along ``axis`` (S. Holm, Scand. J. Statist. 6, 1979); NaN counts as
    a test that found nothing.
    """
    p = np.asarray(p, dtype=np.float64)
    if p.size == 0:
        return p
    filled = np.where(np.isnan(p), 1.0, p)
    order = np.argsort(filled, axis=axis, kind="stable")
    shape = [1] * p.ndim
    shape[axis] = p.shape[axis]
    weight = np.arange(p.shape[axis], 0, -1).reshape(shape)
    stepped = np.maximum.accumulate(np.take_along_axis(filled, order, axis) * weight, axis=axis)
    adjusted = np.empty_like(filled)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), axis)
    return np.where(np.isnan(p), np.nan, adjusted)


@dataclass(frozen=True)
class Interval:
    """``low`` and ``high`` are None, and ``coverage`` 0, where so few values give no interval of
    the level asked for.
    """

    low: float | None
    high: float | None
    coverage: float


def median_interval(values: Array, alpha: float = ALPHA) -> Interval:
    """The distribution-free interval of the median between two order statistics, with its exact
    coverage, >= 1 - alpha (W. R. Thompson, Ann. Math. Stat. 7, 1936). From 6 values on at 95 %: the
    range of n values covers the median with 1 - 2/2^n.
    """
    n = len(values)
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    k, tail = _median_order(n, alpha)
    return (
        Interval(float(ordered[k - 1]), float(ordered[n - k]), 1.0 - 2.0 * tail)
        if k
        else Interval(None, None, 0.0)
    )


@lru_cache(maxsize=4096)
def _median_order(n: int, alpha: float) -> tuple[int, float]:
    """The largest k with P(fewer than k of n values below the median) <= alpha / 2, and that
    probability.
    """
    if n < 1:
        return 0, 0.0
    tails = _binomial_tails(n)
    k = int(np.searchsorted(tails, alpha / 2, side="right"))
    return k, float(tails[k - 1]) if k else 0.0


def _binomial_tails(n: int) -> Array:
    """P(X <= k) for k = 0 .. n // 2, X the heads of ``n`` fair coins."""
    if n <= _EXACT:
        counts = accumulate(comb(n, k) for k in range(n // 2 + 1))
        return np.array([count / 2**n for count in counts])
    return np.asarray(scipy.special.bdtr(np.arange(0, n // 2 + 1, dtype=np.float64), n, 0.5))


def groups(better_first: list[str], apart: set[tuple[str, str]]) -> list[list[str]]:
    """Those without significant differences among them, the best first: each group is as large as
    it can be, and one name can be in several.

    ``apart`` holds the pairs that differ significantly, either way round. Insert and absorb (H.-P.
    Piepho, J. Comput. Graph. Stat. 13, 2004).
    """
    columns: list[frozenset[str]] = [frozenset(better_first)] if better_first else []
    for one, other in sorted(apart):
        split: list[frozenset[str]] = []
        for column in columns:
            split += (
                [column - {one}, column - {other}]
                if one in column and other in column
                else [column]
            )
        distinct = list(dict.fromkeys(split))
        columns = [column for column in distinct if not any(column < larger for larger in distinct)]
    place = {name: i for i, name in enumerate(better_first)}
    return sorted(
        (sorted(column, key=place.__getitem__) for column in columns),
        key=lambda column: [place[name] for name in column],
    )


def letters(found: list[list[str]]) -> dict[str, str]:
    """The compact letter display of ``groups``: two that share a letter do not differ
    significantly; two that do share none.
    """
    shown: dict[str, str] = {}
    for number, column in enumerate(found):
        for name in column:
            shown[name] = shown.get(name, "") + _letter(number)
    return shown


def _letter(number: int) -> str:
    """a .. z, then A .. Z, then numbers in brackets."""
    alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return alphabet[number] if number < len(alphabet) else f"({number + 1})"
