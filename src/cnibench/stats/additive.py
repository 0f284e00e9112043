"""Differences of all pairs by an additive model, for so few repeats that no test without one could
decide anything.

The model: the log of a value is the profile's level, plus (``paired``) what the block adds to all
profiles, plus normal noise of one size, or of sizes that scatter around a common one where the
repeats show it. Intervals hold together, for all pairs: by the studentized range (J. W. Tukey,
1953; C. Y. Kramer, Biometrics 12, 1956) or by Bonferroni's inequality, whichever is narrower.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from cnibench.stats.inference import Array

_LEAST = 1e-4  # of the pooled variance: less is rounding, and would stand for all noise
_BEYOND = 0.1  # chance of so large a variance: such a profile is judged by its own
_FEWEST = 3  # variances that say how far they scatter
_QUIET = 1e-9  # relative noise that is rounding


@dataclass(frozen=True)
class Contrasts:
    """Square tables, row minus column. NaN where two are not connected by any block, or nothing is
    known of the noise: then ``df`` is 0, too.

    ``low`` to ``high`` are the simultaneous intervals of level 1 - alpha, ``p`` that of the pair
    alone, two-sided. ``noise`` is the standard deviation of the log, ``prior`` the degrees of
    freedom that the noise of the others adds to a profile's own: infinite where all have the same.
    """

    difference: Array
    low: Array
    high: Array
    p: Array
    noise: float
    df: float
    prior: float


def contrasts(table: Array, *, paired: bool, alpha: float, family: int) -> Contrasts:
    """All differences of a table of labels x blocks, NaN where there is no value.

    ``family`` is the number of pairs whose intervals hold together: k (k - 1) / 2 for all.
    """
    table = np.asarray(table, dtype=np.float64)
    k = len(table)
    difference, unit, residuals, df = _two_way(table) if paired else _one_way(table)
    squares = float(np.nansum(residuals**2))
    noise = float(np.sqrt(squares / df)) if df > 0 else 0.0
    if noise <= _QUIET:
        nothing = np.full((k, k), np.nan)
        return Contrasts(difference, nothing, nothing, nothing, noise, 0.0, np.inf)
    error, freedom, prior = _moderated(residuals, unit, df)
    pooled = bool(np.isinf(prior))
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(difference) / error
        p = 2 * scipy.special.stdtr(freedom, -t)
        reach = scipy.special.stdtrit(freedom, 1 - alpha / (2 * max(1, family)))
        if pooled and family == k * (k - 1) // 2 and k > 2:
            reach = np.minimum(reach, critical_range(k, df, alpha) / np.sqrt(2))
        low, high = difference - reach * error, difference + reach * error
    return Contrasts(difference, low, high, p, noise, df, prior)


def levels(table: Array, *, paired: bool) -> Array:
    """Each label's mean over the blocks, ``paired`` without what each block adds to all labels:
    where a label lacks blocks, those that it shares some with are used. NaN without any value.
    """
    itself = np.where(np.eye(len(table)) > 0, 0.0, np.nan)
    apart = _two_way(table)[0] if paired else itself
    found = np.full(len(table), np.nan)
    for i in np.flatnonzero((~np.isnan(table)).any(axis=1)):
        shifted = table + apart[i][:, None]  # as this label, by each other one's value
        blocks = shifted[:, (~np.isnan(shifted)).any(axis=0)]
        found[i] = np.nanmean(blocks, axis=0).mean()
    return found


def _one_way(table: Array) -> tuple[Array, Array, Array, float]:
    """(differences, their standard errors in units of the noise, residuals, degrees of freedom)."""
    there = ~np.isnan(table)
    counts = there.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(there, table, 0.0).sum(axis=1) / counts
        unit = np.sqrt(1 / counts[:, None] + 1 / counts[None, :])
    return means[:, None] - means, unit, table - means[:, None], float((counts - 1).clip(0).sum())


def _two_way(table: Array) -> tuple[Array, Array, Array, float]:
    """The same with the blocks taken out: least squares of the incomplete two-way layout, the
    blocks eliminated first."""
    there = ~np.isnan(table)
    table = table[:, there.any(axis=0)]
    there = there[:, there.any(axis=0)]
    filled = np.where(there, table, 0.0)
    in_block = there.sum(axis=0)
    shared = (there / in_block) @ there.T.astype(np.float64)
    inverse = np.linalg.pinv(np.diag(there.sum(axis=1).astype(np.float64)) - shared, hermitian=True)
    level = inverse @ (filled - there * (filled.sum(axis=0) / in_block)).sum(axis=1)
    rest = np.where(there, table - level[:, None], 0.0)
    residuals = np.where(there, rest - rest.sum(axis=0) / in_block, np.nan)
    connected = _connected(shared > 0)
    parts = len({tuple(row) for row in connected.tolist()})
    df = float(there.sum() - table.shape[0] - table.shape[1] + parts)
    diagonal = np.diag(inverse)
    spread = np.maximum(0.0, diagonal[:, None] + diagonal - 2 * inverse)
    apart = np.where(connected, 0.0, np.nan)
    return level[:, None] - level + apart, np.sqrt(spread) + apart, residuals, max(0.0, df)


def _connected(linked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which two are linked by way of others, too."""
    found = linked | np.eye(len(linked), dtype=np.bool_)
    while True:
        wider = (found.astype(np.int64) @ found.astype(np.int64)) > 0
        if (wider == found).all():
            return found
        found = wider


def _moderated(residuals: Array, unit: Array, df: float) -> tuple[Array, Array, float]:
    """(standard error, degrees of freedom) of each difference by the noise of the two, and the
    degrees of freedom that what all have in common adds to each: infinite where the noise scatters
    no more than equal noise would.

    Each profile's variance is drawn towards the common one, as far as the variances of all agree
    with each other (G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3(1), 2004, sections 5 and 6).
    """
    counts = (~np.isnan(residuals)).sum(axis=1)
    squares = np.nansum(residuals**2, axis=1)
    share = np.where(counts > 1, df * (counts - 1) / (counts - 1).clip(0).sum(), 0.0)
    rows = share > 0
    common, prior = _prior(squares[rows], share[rows])
    if np.isinf(prior):
        return np.sqrt(common) * unit, np.full_like(unit, df), prior
    with np.errstate(invalid="ignore", divide="ignore"):
        # So large a variance is no such scatter: the profile is judged by its own alone.
        added = np.where(
            scipy.special.fdtrc(share, prior, squares / share / common) < _BEYOND, 0.0, prior
        )
        own = (added * common + squares) / (added + share)
        freedom = np.minimum(added + share, df)
        error = np.sqrt(unit**2 / 2 * (own[:, None] + own))
        total = (own[:, None] + own) ** 2 / (
            own[:, None] ** 2 / freedom[:, None] + own**2 / freedom
        )
    return error, np.minimum(total, df), prior


def _prior(squares: Array, share: Array) -> tuple[float, float]:
    """(common variance, degrees of freedom of the prior) by the moments of the log variances."""
    pooled = float(squares.sum() / share.sum())
    variance = np.maximum(squares / share, _LEAST * pooled)
    logs = np.log(variance) - scipy.special.digamma(share / 2) + np.log(share / 2)
    if len(logs) < _FEWEST:
        return pooled, np.inf
    excess = float(logs.var(ddof=1) - scipy.special.polygamma(1, share / 2).mean())
    if excess <= 0:
        return pooled, np.inf
    prior = 2 * _inverse_trigamma(excess)
    return float(np.exp(logs.mean() + scipy.special.digamma(prior / 2) - np.log(prior / 2))), prior


def _inverse_trigamma(y: float) -> float:
    """x with trigamma(x) = y, by Newton's method on 1 / trigamma, which is convex (Smyth)."""
    x = 0.5 + 1 / y
    for _ in range(50):
        now = float(scipy.special.polygamma(1, x))
        step = now * (1 - now / y) / float(scipy.special.polygamma(2, x))
        x += step
        if -step < 1e-8 * x:
            break
    return x


@lru_cache(maxsize=256)
def critical_range(k: int, df: float, alpha: float) -> float:
    """The 1 - alpha quantile of the studentized range of ``k`` normal means, right to 1e-4."""
    low, high = 0.0, 4.0
    while _range_cdf(high, k, df) < 1 - alpha and high < 1e6:
        low, high = high, 2 * high
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _range_cdf(middle, k, df) < 1 - alpha else (low, middle)
    return high


def _range_cdf(q: float, k: int, df: float) -> float:
    """P(range / estimated standard deviation <= q), by Gauss-Legendre quadrature over the normal
    distribution and over that of the estimate."""
    nodes, weights = _nodes()
    z = 8 * nodes
    density = 8 * weights * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    # the log of the estimate over the truth: its spread is about 1 / sqrt(2 df)
    reach = min(12.0, 12 / np.sqrt(df))
    x = reach * (nodes - 1) / 2 + reach / 4  # from -3/4 to 1/4 of it: the lower tail is longer
    log = (
        (df / 2) * np.log(df / 2)
        - scipy.special.gammaln(df / 2)
        + np.log(2)
        + df * x
        - df * np.exp(2 * x) / 2
    )
    chance = reach / 2 * weights * np.exp(log)
    inner = scipy.special.ndtr(z) - scipy.special.ndtr(z - q * np.exp(x)[:, None])
    return float(chance @ (k * (inner ** (k - 1)) @ density))


@lru_cache(maxsize=1)
def _nodes() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(160)
    return nodes, weights
