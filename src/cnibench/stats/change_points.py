"""Where the level of a series changed: circular binary segmentation (A. B. Olshen, E. S.
Venkatraman, R. Lucito and M. Wigler, Biostatistics 5, 2004), several series at a time.

The statistic of a series is the largest |t| of any stretch of it against its rest, so that a level
that came back is found, too. Its distribution without a change is that of random orders of the
values: exact for independent values of any shape. All series have the same random orders, and each
is judged by the largest statistic of all of them (P. H. Westfall and S. S. Young,
Resampling-Based Multiple Testing, 1993): a false change point in any series has the probability
``level`` at most, whatever the series have in common. Series that changed are split, and the parts
are tested in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from cnibench.stats.inference import ALPHA, Array

LEAST = 3  # values on either side of a change point: one outlier is no level
FEWEST = 8  # values with which a change in the middle can be told from chance at 5 %
_ORDERS = 1999
_AT_ONCE = 50_000  # values, which stay in the processor's cache
_ROUNDING = 1e-9  # standard deviation of logs: such a series is constant


@dataclass(frozen=True)
class Change:
    """The new level begins with the value ``at``, with ``level`` confidence between the values
    ``first`` and ``last``. ``size`` is the new mean minus the old one, with its interval.
    """

    at: int
    first: int
    last: int
    p: float
    size: float
    low: float
    high: float


@dataclass
class _Part:
    """Values of one series from ``start``; ``chance`` are the statistics of the random orders."""

    series: int
    start: int
    values: Array
    seen: float
    chance: Array
    p: float


def change_points(table: Array, level: float = ALPHA) -> list[list[Change]]:
    """Of each row, in the order of its values (series x time, NaN where a series has no value;
    positions count the values only).
    """
    keys = np.random.default_rng(table.shape[1]).random((_ORDERS, table.shape[1]))
    rows = [row[~np.isnan(row)] for row in table]
    places = [np.flatnonzero(~np.isnan(row)) for row in table]
    parts = [
        _part(i, 0, row, keys[:, places[i]], 0.0)
        for i, row in enumerate(rows)
        if len(row) >= FEWEST
    ]
    cuts: list[dict[int, float]] = [{} for _ in rows]
    while parts:
        worst = np.max([part.chance for part in parts], axis=0)
        p = [max(part.p, _share(worst, part.seen)) for part in parts]
        if min(p) > level:
            break
        left = []
        for part, its in zip(parts, p, strict=True):
            if its > level:
                left.append(part)
                continue
            bounds = _bounds(part.values, level / len(parts))
            cuts[part.series] |= {part.start + cut: its for cut in bounds}
            for start, end in zip([0, *bounds], [*bounds, len(part.values)], strict=True):
                if end - start >= 2 * LEAST:
                    there = places[part.series][part.start :][start:end]
                    values = part.values[start:end]
                    new = _part(part.series, part.start + start, values, keys[:, there], its)
                    left.append(new)
        parts = left
    return [_refined(row, found, level) for row, found in zip(rows, cuts, strict=True)]


def _part(series: int, start: int, values: Array, keys: Array, p: float) -> _Part:
    lots = np.array_split(keys, max(1, keys.size // _AT_ONCE))
    chance = [_statistic(values[np.argsort(lot, axis=1)]) for lot in lots]
    seen = float(_statistic(values[None, :])[0])
    return _Part(series, start, values, seen, np.concatenate(chance), p)


def _statistic(rows: Array) -> Array:
    """Of each row (orders of the same values): how small the chance of its largest |t| would be
    for one stretch of normal noise, so that parts of different lengths can be compared.
    """
    n = rows.shape[1]
    if rows[0].std() <= _ROUNDING:
        return np.full(len(rows), -np.inf)
    sums = _sums(rows)
    lengths = range(LEAST, n - LEAST + 1)
    most = np.max([_explained(sums, length)[1].max(axis=0) for length in lengths], axis=0)
    share = most**2 / (n * rows[0].var())
    t = np.sqrt((n - 2) * share / np.maximum(1 - share, 1e-15))
    chance: Array = -np.log(np.maximum(stdtr(n - 2, -t), 1e-300))
    return chance


def _explained(sums: Array, length: int) -> tuple[NDArray[np.int64], Array]:
    """The stretches of that length: where each begins, and the root of what it explains of the sum
    of squares (stretches x rows). It reaches an end of its row or leaves LEAST values there.
    ``sums`` are the partial sums of rows with mean 0 (values x rows).
    """
    n = len(sums) - 1
    last = n - length - LEAST
    inner = sums[LEAST + length : n - LEAST + 1] - sums[LEAST : last + 1]
    outer = sums[[length, n]] - sums[[0, n - length]]
    places = np.array([0, n - length, *range(LEAST, last + 1)], dtype=np.int64)
    found = np.concatenate([outer, inner]) if last >= LEAST else outer
    np.abs(found, out=found)
    found *= np.sqrt(n / (length * (n - length)))
    return places, found


def _sums(rows: Array) -> Array:
    centred = (rows - rows.mean(axis=1, keepdims=True)).T
    return np.concatenate([np.zeros((1, len(rows))), centred.cumsum(axis=0)])


def _best_stretch(values: Array) -> tuple[int, int]:
    """Start and end of the stretch that differs most from the rest."""
    best, found = -1.0, (0, 0)
    sums = _sums(values[None, :])
    for length in range(LEAST, len(values) - LEAST + 1):
        places, explained = _explained(sums, length)
        at = int(explained[:, 0].argmax())
        if explained[at, 0] > best * (1 + 1e-12):  # the shortest of those that explain as much
            best, found = float(explained[at, 0]), (int(places[at]), int(places[at]) + length)
    return found


def _bounds(values: Array, level: float) -> list[int]:
    """The ends of the best stretch within the values; the best single change where one of the two
    ends is not significant by itself, at a level that is corrected for the number of parts.
    """
    (start, end), n = _best_stretch(values), len(values)
    if start == 0 or end == n:
        return [start or end]
    if max(_p_of_split(values[:end]), _p_of_split(values[start:])) <= level:
        return [start, end]
    return [_best_split(values)]


def _between(rows: Array) -> Array:
    """The sum of squares that a single change explains, at each place from LEAST on."""
    n = rows.shape[1]
    at = np.arange(LEAST, n - LEAST + 1)
    sums = (rows - rows.mean(axis=1, keepdims=True)).cumsum(axis=1)[:, at - 1]
    explained: Array = sums**2 * (n / (at * (n - at)))
    return explained


def _best_split(values: Array) -> int:
    return LEAST + int(_between(values[None, :])[0].argmax())


def _p_of_split(values: Array) -> float:
    """p of the best single change among random orders."""
    chance = _between(_shuffled(values, 0)).max(axis=1)
    return _share(chance, float(_between(values[None, :]).max()))


def _shuffled(values: Array, seed: int) -> Array:
    """The values in random orders."""
    rng = np.random.default_rng([len(values), seed])
    return rng.permuted(np.tile(values, (_ORDERS, 1)), axis=1)


def _share(chance: Array, seen: float) -> float:
    """The share of random orders that give as much, the one seen included."""
    as_much = chance >= seen - 1e-9 * abs(seen) if np.isfinite(seen) else chance >= seen
    return (1 + int(as_much.sum())) / (1 + len(chance))


def _refined(values: Array, cuts: dict[int, float], level: float) -> list[Change]:
    """Each change point once more among the values between its neighbours (J. Bai, Econometric
    Theory 13, 1997), with its intervals.
    """
    places = sorted(cuts)
    ends = [0, *places, len(values)]
    found = []
    for i, place in enumerate(places):
        start, end = ends[i], ends[i + 2]
        one = _change(values[start:end], level)
        moved = replace(one, at=start + one.at, first=start + one.first, last=start + one.last)
        found.append(replace(moved, p=cuts[place]))
        ends[i + 1] = moved.at
    return found


def _change(values: Array, level: float) -> Change:
    """The best single change of these values; Student's interval of its size."""
    at, n = _best_split(values), len(values)
    old, new = values[:at], values[at:]
    squares = float(((old - old.mean()) ** 2).sum() + ((new - new.mean()) ** 2).sum())
    size = float(new.mean() - old.mean())
    error = np.sqrt(squares / (n - 2) * (1 / at + 1 / (n - at)))
    reach = float(stdtrit(n - 2, 1 - level / 2) * error)
    places = [
        at,
        *(k for k in range(LEAST, n - LEAST + 1) if k != at and _possible(values, k, level)),
    ]
    return Change(at, min(places), max(places), 0.0, size, size - reach, size + reach)


def _possible(values: Array, at: int, level: float) -> bool:
    """Is a change there compatible with the values? The test by K. J. Worsley (Biometrika 73, 1986)
    of what another place explains better, its distribution by random orders on either side.
    """
    seen = _between(values[None, :])[0]
    sides = [_shuffled(part, side) for side, part in enumerate((values[:at], values[at:]))]
    chance = _between(np.concatenate(sides, axis=1))
    excess = float(seen.max() - seen[at - LEAST])
    return _share(chance.max(axis=1) - chance[:, at - LEAST], excess) > level
