"""One order of several profiles from the comparisons of their pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cnibench.stats.inference import Array


def scores(count: int, pairs: Sequence[tuple[int, int, float, int]]) -> Array:
    """A figure for each of ``count`` items whose differences come closest to those of the pairs.

    ``pairs`` are (i, j, estimate of i - j, blocks); those without blocks or a finite estimate do
    not count. Least squares, each pair with the weight of its blocks: the adjusted contrast
    estimates of E. L. Lehmann (Ann. Math. Stat. 35, 1964), which for equal blocks are the means of
    an item's differences from all others. They make one order of estimates that, pair by pair, need
    not agree. Items that no pair connects have scores that cannot be compared.
    """
    laplacian, pull = np.zeros((count, count)), np.zeros(count)
    for i, j, estimate, blocks in pairs:
        if blocks < 1 or not np.isfinite(estimate):
            continue
        laplacian[[i, j], [i, j]] += blocks
        laplacian[[i, j], [j, i]] -= blocks
        pull[i] += blocks * estimate
        pull[j] -= blocks * estimate
    found: Array = np.linalg.pinv(laplacian, hermitian=True) @ pull
    return found


def ranked(score: Mapping[str, float], beats: set[tuple[str, str]]) -> list[str]:
    """The names, best first: the highest score leads, but none is above one that beats it.

    ``beats`` are the proven differences, (better, worse). Where these run in a circle, which only
    comparisons of different blocks bring about, the scores alone decide among those in it.
    """
    left = sorted(score, key=lambda name: -score[name])
    found: list[str] = []
    while left:
        free = (name for name in left if not any((other, name) in beats for other in left))
        found.append(next(free, left[0]))
        left.remove(found[-1])
    return found
