"""All pairs of a family tested together, at one look or at the last of several, by sign flips of
whole blocks.

Each block's vector of log ratios keeps or changes its sign as a whole. If the profiles of some
pairs do not differ, all such flips are equally likely for these pairs, however much each profile
scatters and however the pairs depend on each other. A pair's adjusted p is the share of flips in
which any pair that is not rejected yet is as extreme now, or would have been called different at an
earlier look: the step-down procedure of P. H. Westfall and S. S. Young (Resampling-Based Multiple
Testing, 1993; J. P. Romano and M. Wolf, JASA 100, 2005) with the exact accounting over looks of C.
R. Mehta et al. (Biometrics 50, 1994). It limits the probability of any false difference at any
look, whichever pairs really differ. What an early look costs depends on the sizes of the ratios,
which no flip changes: next to nothing where no order of their signs would have ended the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from cnibench.stats.inference import ALPHA, Array, signed_rank
from cnibench.stats.looks import NORMAL

_BITS = (
    9  # all flips of 10 blocks that differ by more than all signs; of more blocks, a group of so
)
_EARLY = 0.04  # what all early looks may spend of the level together
_AT_ONCE = 4_000_000  # numbers held in memory at a time

Looks = Sequence[int]  # numbers of blocks


def different(rows: Array, before: Looks = (), *, early: bool = False) -> Array:
    """The adjusted two-sided p of each row (shape: tables x pairs x blocks, NaN where a pair has no
    value) for a centre of 0; at most 5 % means different. Where no row is, the p leave out what
    earlier looks cost.

    ``before`` are the numbers of blocks of earlier looks. ``early``: this look is not the last. It
    asks for a larger difference, and what falls short of it has a p of 1.
    """
    return _in_parts(rows, before, early, one_sided=False)


def less(rows: Array, before: Looks = (), *, bound: float, early: bool = False) -> Array:
    """The adjusted p of each row for a centre beyond ``bound`` in either direction: two one-sided
    tests (D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987), those of all rows together.
    """
    pairs = rows.shape[1]
    p = _in_parts(
        np.concatenate([bound - rows, bound + rows], axis=1), before, early, one_sided=True
    )
    both: Array = np.maximum(p[:, :pairs], p[:, pairs:])
    return both


def _in_parts(rows: Array, before: Looks, early: bool, *, one_sided: bool) -> Array:
    tables, pairs, n = rows.shape
    if not rows.size:
        return np.ones((tables, pairs))
    step = max(1, _AT_ONCE // (pairs * len(_flips(n, one_sided))))
    parts = [
        _adjusted(rows[at : at + step], before, early, one_sided) for at in range(0, tables, step)
    ]
    found: Array = np.concatenate(parts)
    return np.maximum(found, _alone(rows, one_sided))


def _adjusted(rows: Array, before: Looks, early: bool, one_sided: bool) -> Array:
    n = rows.shape[2]
    if not early:
        extreme = _students(rows, n, one_sided) if one_sided else _ranks(rows)
        return _step_down(rows, extreme, before, -math.inf, one_sided)
    asked = _asked(n, rows.shape[1], one_sided)
    p = np.ones(rows.shape[:2])
    enough = (_students(rows, n, one_sided, flipped=False)[:, :, 0] >= asked).any(axis=1)
    if enough.any():
        rows = rows[enough]
        found = _step_down(rows, _students(rows, n, one_sided), before, asked, one_sided)
        p[enough] = np.where(found < 1, np.minimum(1.0, found + ALPHA - _EARLY), 1.0)
    return p


def _step_down(rows: Array, extreme: Array, before: Looks, asked: float, one_sided: bool) -> Array:
    """The p of each row of each table from what it is in each flip (tables x rows x flips); that of
    rows which are less than ``asked`` is 1.
    """
    observed = extreme[:, :, 0]
    order = np.argsort(observed, axis=1, kind="stable")
    seen = np.take_along_axis(observed, order, axis=1)
    most = _running(np.maximum, extreme, order)
    now = most >= (np.maximum(seen, asked) - 1e-12 * np.abs(seen))[:, :, None]
    share = now.mean(axis=2)
    if before and (share <= ALPHA).any():  # else nothing is rejected, whatever the looks have cost
        ended = _running(np.logical_or, _ended(rows, before, one_sided), order)
        share = np.minimum((now | ended).mean(axis=2), _EARLY + share)
    share = np.where(seen >= asked, np.minimum(share, 1.0), 1.0)
    p = np.empty_like(observed)
    stepped = np.maximum.accumulate(share[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(p, order, stepped, axis=1)
    return p


def _running(what: np.ufunc, values: NDArray[Any], order: NDArray[np.intp]) -> NDArray[Any]:
    """``what`` of each row in that order and all rows before it (tables x rows x flips).

    ``accumulate`` does the same along the flips one by one, and takes 18 times as long.
    """
    found = values[np.arange(len(values))[:, None], order]
    for row in range(1, found.shape[1]):
        what(found[:, row], found[:, row - 1], out=found[:, row])
    return found


def _ended(rows: Array, before: Looks, one_sided: bool) -> NDArray[np.bool_]:
    """In which flips each row would have been rejected at an earlier look (tables x rows x flips).
    The flips of so many blocks are taken to those of their first ones.
    """
    n = rows.shape[2]
    found = np.zeros((*rows.shape[:2], len(_flips(n, one_sided))), dtype=np.bool_)
    for look in before:
        enough = _students(rows[:, :, :look], n, one_sided) >= _asked(
            look, rows.shape[1], one_sided
        )
        if enough.any():
            found |= enough[:, :, _first(n, look, one_sided)]
    return found


@lru_cache(maxsize=256)
def _asked(look: int, rows: int, one_sided: bool) -> float:
    """How large Student's t has to be at an early look: a quantile under normal noise, which
    decides what the look finds and spends. The level does not rest on it.
    """
    pairs = rows // 2 if one_sided else rows
    share = NORMAL / pairs / (1 if one_sided else 2)
    return float(scipy.special.stdtrit((look - 1) * (1 if pairs == 1 else 2), 1 - share))


def _students(rows: Array, most: int, one_sided: bool, *, flipped: bool = True) -> Array:
    """Student's t of each row in each flip of the first blocks of ``most``.

    Its variance is half the row's own and half the mean of all rows. A flip changes that of rows
    that really differ, too, which the flips of those that do not would leave alone: it counts with
    what is less, so that t is at least what it is in these. Not ``flipped``: as it was seen, alone.
    """
    n = rows.shape[2]
    there = np.isfinite(rows)
    values = np.where(there, rows, 0.0)
    count = there.sum(axis=2)[:, :, None].astype(np.float64)
    squares = (values**2).sum(axis=2)[:, :, None]
    flips = _flips(n, one_sided) if n <= _full(one_sided) else _flips(most, one_sided)[:, :n]
    sums = values @ flips[: None if flipped else 1].T
    # the variance of the mean: both of its parts are so many times smaller
    freedom = np.maximum(count * (count - 1), 1)
    variance = sums**2
    variance *= -1 / (np.maximum(count, 1) * freedom)
    variance += squares / freedom
    np.maximum(variance, 1e-24 * squares + 1e-300, out=variance)
    pairs = rows.shape[1] // (2 if one_sided else 1)
    if pairs > 1:
        least = np.minimum(variance, variance[:, :, :1])
        if one_sided:  # of which the two rows have the same values, and only one may be flipped
            least = np.minimum(least[:, :pairs], least[:, pairs:])
        variance += least.mean(axis=1, keepdims=True)
        variance /= 2
    sums *= np.where(count > 1, 1 / np.maximum(count, 1), 0.0)
    sums /= np.sqrt(variance, out=variance)
    return sums if one_sided else np.abs(sums, out=sums)


def _ranks(rows: Array) -> Array:
    """The signed-rank statistic of each row in each flip and, among equal ones, Student's t."""
    there = np.isfinite(rows)
    size = np.where(there, np.abs(rows), -1.0)
    ranks = np.argsort(np.argsort(size, axis=2, kind="stable"), axis=2) + 1.0
    ranks = np.where(there, ranks - (~there).sum(axis=2, keepdims=True), 0.0)
    signed = np.where(there, np.sign(rows), 0.0) * ranks
    # No flip changes the sum of squares, so t is in the order of this, which is 1 at most: less
    # than two different sums of ranks are apart.
    values = np.where(there, rows, 0.0)
    squares = np.sqrt((values**2).sum(axis=2, keepdims=True)) + 1e-300
    scaled = values / squares / np.sqrt(np.maximum(there.sum(axis=2, keepdims=True), 1))
    flips = _flips(rows.shape[2], False).T
    extreme: Array = np.abs(signed @ flips)
    extreme += np.abs(scaled @ flips)
    # Rows with fewer blocks have smaller ranks.
    extreme /= np.sqrt((ranks**2).sum(axis=2, keepdims=True)) + 1e-300
    return extreme


def _alone(rows: Array, one_sided: bool) -> Array:
    """The p of the signed-rank test of each row by itself."""
    flat = rows.reshape(-1, rows.shape[2])
    there = np.isfinite(flat)
    found = np.ones(len(flat))
    counts = there.sum(axis=1)
    for count in np.unique(counts):
        which = counts == count
        values = flat[which][there[which]].reshape(int(which.sum()), int(count))
        tested = signed_rank(values, interval=False)
        found[which] = tested.upper if one_sided else tested.p
    return found.reshape(rows.shape[:2])


def _full(one_sided: bool) -> int:
    """Blocks up to which all flips are listed."""
    return _BITS if one_sided else _BITS + 1


@lru_cache(maxsize=128)
def _flips(n: int, one_sided: bool) -> Array:
    """The signs of ``n`` blocks in each flip, the first of which is none. All flips of few blocks,
    without those that only change all signs of another where that makes no difference.

    Of more blocks a subgroup, with which the test is as exact: the signs of the first blocks are
    free, and each further one is a product of some of these.
    """
    full = _full(one_sided)
    if n <= full:
        free = n if one_sided else n - 1
        bits = (np.arange(2**free)[:, None] >> np.arange(n)) & 1
        return np.where(bits, -1.0, 1.0)
    bits = (np.arange(2**_BITS)[:, None] >> np.arange(_BITS)) & 1
    product = np.random.default_rng(0).integers(1, 2**_BITS, 10_000)[: n - _BITS]
    chosen = (product >> np.arange(_BITS)[:, None]) & 1
    bits = np.concatenate([bits, (bits @ chosen) % 2], axis=1)
    return np.where(bits, -1.0, 1.0)


@lru_cache(maxsize=128)
def _first(n: int, look: int, one_sided: bool) -> NDArray[np.int64]:
    """For each flip of ``n`` blocks, which one of the first ``look`` it is in ``_students``."""
    flips = np.arange(len(_flips(n, one_sided)))
    if look > _full(one_sided):
        return flips
    first = _flips(n, one_sided)[:, :look]
    if not one_sided:
        first = first * first[:, -1:]  # listed with a plus at the end
    found: NDArray[np.int64] = ((first < 0) @ (1 << np.arange(look))).astype(np.int64)
    return found
