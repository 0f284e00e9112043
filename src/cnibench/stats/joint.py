"""All pairs of a family tested together: Holm's correction, sharpened where blocks are few.

Each block's vector of log ratios keeps or changes its sign as a whole. If the profiles of some
pairs do not differ, all 2^n such flips are equally likely for these pairs, however much each
profile scatters and however the pairs depend on each other. A pair's adjusted p is the share of
flips in which any pair that is not rejected yet is as extreme: the step-down procedure of P. H.
Westfall and S. S. Young (Resampling-Based Multiple Testing, 1993; J. P. Romano and M. Wolf, JASA
100, 2005), which limits the probability of any false difference, whichever pairs really differ.
Extreme is first the signed-rank statistic and then, among equal ones, Student's t. So an adjusted p
is never above Holm's, and can be as small as 2/2^n for any number of pairs.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cnibench.stats.inference import Array, holm, signed_rank

MOST = 12  # blocks up to which all flips are enumerated; beyond, Holm's correction is about as good


def adjusted(rows: Array, p: Array | None = None) -> Array:
    """The adjusted two-sided p of each row (shape: pairs x blocks, finite values, a column is a
    block). ``p`` are those of ``signed_rank``, where they are known.

    Holm's, where there are more than 12 blocks, and where zeros or ties make ranks of different
    rows incomparable: both depend on sizes alone, which no flip changes.
    """
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    alone = signed_rank(rows, interval=False).p if p is None else p
    if not testable(rows):
        return holm(alone)
    found: Array = np.maximum(alone, _step_down(_extreme(rows[None]))[0])
    return found


def testable(rows: Array) -> bool:
    """Are there so few blocks, and neither ties nor zeros?"""
    if len(rows) < 2 or not 0 < rows.shape[1] <= MOST:
        return False
    size = np.sort(np.abs(rows), axis=1)
    return bool((size[:, 0] > 0).all() and (size[:, 1:] > size[:, :-1]).all())


def _extreme(tables: Array) -> Array:
    """How extreme each row is in each flip (shape: tables x rows x blocks to tables x flips x
    rows); the first flip is none.
    """
    n = tables.shape[2]
    flips = _flips(n)
    ranks = np.argsort(np.argsort(np.abs(tables), axis=2), axis=2) + 1.0
    # No flip changes the sum of squares, so t is in the order of this, which is 1 at most: less
    # than two different sums of ranks are apart.
    scaled = tables / np.sqrt((tables**2).sum(axis=2, keepdims=True)) / n**0.5
    signed = (np.sign(tables) * ranks).transpose(0, 2, 1)
    extreme: Array = np.abs(flips @ signed) + np.abs(flips @ scaled.transpose(0, 2, 1))
    return extreme


def _step_down(extreme: Array) -> Array:
    """The p of each row of each table."""
    observed = extreme[:, 0]
    order = np.argsort(observed, axis=1, kind="stable")
    seen = np.take_along_axis(observed, order, axis=1)[:, None]
    most = np.maximum.accumulate(np.take_along_axis(extreme, order[:, None], axis=2), axis=2)
    share = (most >= seen * (1 - 1e-12)).mean(axis=1)
    p = np.empty_like(observed)
    stepped = np.maximum.accumulate(share[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(p, order, stepped, axis=1)
    return p


def adjusted_of_many(tables: Array) -> Array:
    """The adjusted p of each row of each table (tables x rows x blocks), for simulations: no zeros,
    no ties.
    """
    count, rows, n = tables.shape
    alone = signed_rank(tables.reshape(-1, n), interval=False).p.reshape(count, rows)
    if rows < 2 or n > MOST:
        return holm(alone)
    step = max(1, 2_000_000 // (rows * 2 ** (n - 1)))  # numbers held in memory at a time
    parts = [_step_down(_extreme(tables[i : i + step])) for i in range(0, count, step)]
    return np.maximum(alone, np.concatenate(parts))


@lru_cache(maxsize=MOST + 1)
def _flips(n: int) -> Array:
    """The signs of ``n`` blocks in all ways that differ by more than all signs, the first of which
    is all plus.
    """
    bits = (np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1
    return np.where(bits, -1.0, 1.0)
