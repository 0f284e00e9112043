"""Components of variance of a nested design: deployments, blocks within them, slices within
blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cnibench.stats.inference import ALPHA

_EXACT = 1e9  # degrees of freedom of what is known


@dataclass(frozen=True)
class Component:
    """A variance with its 95 % interval. An estimate below 0 is 0, and its upper limit is that of
    an estimate of 0: how far it is below says nothing about how large the component may be.
    """

    variance: float
    low: float
    high: float


@dataclass(frozen=True)
class Components:
    """None where the design does not tell: ``deployments`` without two of them or without one that
    has two blocks, ``blocks`` without two values, ``slices`` where no value has an error of its
    own. ``slices`` is what they add to the value of a block. ``blocks`` contains the deployments
    where each has one block.
    """

    deployments: Component | None
    blocks: Component | None
    slices: Component | None


@dataclass(frozen=True)
class _MeanSquare:
    value: float
    df: float


def nested(
    deployments: Sequence[Sequence[float]], errors: Sequence[tuple[float, float]] = ()
) -> Components:
    """The components from the values of each deployment's blocks. ``errors`` has (squared standard
    error, degrees of freedom) of each value, from the slices within its block.

    The estimators are those of the analysis of variance of random effects, each mean square set
    equal to its expectation (S. R. Searle, G. Casella and C. E. McCulloch, Variance Components,
    1992, chapters 3 and 5). Where deployments have different numbers of blocks, their mean square
    is that of unweighted means (J. D. Thomas and R. A. Hultquist, Annals of Statistics 6, 1978).
    The intervals are the modified large-sample intervals of N. Ting, R. K. Burdick, F. A. Graybill,
    S. Jeyaratnam and T.-F. C. Lu (Journal of Statistical Computation and Simulation 35, 1990); for
    slices the exact one of normal errors. Errors of different sizes are pooled with the degrees of
    freedom of F. E. Satterthwaite (Biometrics Bulletin 2, 1946).
    """
    groups = [np.asarray(one, dtype=np.float64) for one in deployments if len(one)]
    within = _pooled(groups)
    error = _error(errors)
    slices = _difference(error, None) if error else None
    if within is None:
        alone = _of_means(groups, 1.0)
        return Components(None, _difference(alone, error) if alone else None, slices)
    blocks = _difference(within, error)
    size = len(groups) / math.fsum(1 / len(one) for one in groups)
    between = _of_means(groups, size)
    return Components(_difference(between, within, size) if between else None, blocks, slices)


def _pooled(groups: Sequence[np.ndarray]) -> _MeanSquare | None:
    """The mean square of blocks within deployments."""
    df = sum(len(one) - 1 for one in groups)
    if df < 1:
        return None
    return _MeanSquare(math.fsum(float(((one - one.mean()) ** 2).sum()) for one in groups) / df, df)


def _of_means(groups: Sequence[np.ndarray], size: float) -> _MeanSquare | None:
    """The mean square of deployments, of so many blocks on average."""
    if len(groups) < 2:
        return None
    means = np.array([one.mean() for one in groups])
    return _MeanSquare(size * float(means.var(ddof=1)), len(groups) - 1)


def _error(errors: Sequence[tuple[float, float]]) -> _MeanSquare | None:
    usable = [(square, df) for square, df in errors if math.isfinite(square) and df > 0]
    if not usable:
        return None
    total = math.fsum(square for square, _ in usable)
    if total == 0:
        return _MeanSquare(0.0, math.fsum(df for _, df in usable))
    df = total**2 / math.fsum(square**2 / df for square, df in usable)
    return _MeanSquare(total / len(usable), df)


def _difference(one: _MeanSquare, other: _MeanSquare | None, size: float = 1.0) -> Component:
    """(one - other) / size, with its interval; of Ting et al., equations for a difference."""
    from scipy.special import chdtri, fdtri

    alpha = ALPHA / 2
    n, m = one.df, other.df if other else _EXACT
    second = other.value if other else 0.0
    g1, g2 = 1 - n / chdtri(n, alpha), 1 - m / chdtri(m, alpha)
    h1, h2 = n / chdtri(n, 1 - alpha) - 1, m / chdtri(m, 1 - alpha) - 1
    above, below = fdtri(n, m, 1 - alpha), fdtri(n, m, alpha)
    g12 = ((above - 1) ** 2 - (g1 * above) ** 2 - h2**2) / above
    h12 = ((1 - below) ** 2 - (h1 * below) ** 2 - g2**2) / below
    first = max(one.value, second)
    down = (g1 * first) ** 2 + (h2 * second) ** 2 + g12 * first * second
    up = (h1 * first) ** 2 + (g2 * second) ** 2 + h12 * first * second
    found = first - second
    return Component(
        found / size,
        max(0.0, found - math.sqrt(max(0.0, down))) / size,
        (found + math.sqrt(max(0.0, up))) / size,
    )
