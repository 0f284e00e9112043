"""The joint test of all pairs against its definition, and that it keeps its level."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from cnibench.stats import inference
from cnibench.stats.joint import _flips, different, less
from cnibench.stats.scale import scale

MARGIN = 2.6 * math.sqrt(0.05 * 0.95 / 2000)  # of a share of 2000 runs


def differences(values: np.ndarray) -> np.ndarray:
    one, other = np.triu_indices(values.shape[-2], 1)
    return values[..., one, :] - values[..., other, :]


def by_definition(rows: np.ndarray) -> list[float]:
    """Every flip of the blocks' signs in plain Python; the most extreme pair first, each against
    the pairs that are left.
    """

    def extreme(row: list[float]) -> tuple[float, float]:
        ranked = sorted(row, key=abs)
        plus = sum(rank for rank, value in enumerate(ranked, 1) if value > 0)
        minus = sum(rank for rank, value in enumerate(ranked, 1) if value < 0)
        mean = math.fsum(row) / len(row)
        return abs(plus - minus), round(abs(mean) / math.hypot(*row), 12)

    table = rows.tolist()
    seen = {pair: extreme(row) for pair, row in enumerate(table)}
    flipped = [
        [extreme([sign * value for sign, value in zip(signs, row, strict=True)]) for row in table]
        for signs in product((1, -1), repeat=rows.shape[1])
    ]
    found, before = [0.0] * len(table), 0.0
    left = sorted(seen, key=lambda pair: seen[pair], reverse=True)
    while left:
        share = sum(max(one[pair] for pair in left) >= seen[left[0]] for one in flipped)
        before = found[left[0]] = max(before, share / len(flipped))
        left.pop(0)
    alone = inference.signed_rank(rows, interval=False).p
    return [max(p, one) for p, one in zip(alone, found, strict=True)]


@pytest.mark.parametrize("seed", range(6))
def test_the_joint_p_is_the_share_of_flips_that_are_as_extreme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = differences(rng.standard_normal((4, 6)) + np.array([2.0, 0.5, 0.0, 0.0])[:, None])
    assert different(rows[None])[0] == pytest.approx(by_definition(rows))


def test_six_blocks_tell_sixteen_profiles_apart_that_differ_enough() -> None:
    noise = np.random.default_rng(3).standard_normal((16, 6))
    rows = differences(100.0 * np.arange(16)[:, None] + noise)[None]
    assert different(rows) == pytest.approx(np.full((1, 120), 2 / 2**6))
    assert (different(rows, early=True) <= 0.05).all()
    near = differences(2.0 * np.arange(16)[:, None] + noise)[None]
    assert (different(near, early=True) == 1.0).any()  # an early look asks for more
    assert inference.holm(np.full(120, 2 / 2**6)).min() == 1.0


def outcomes(shape: str, rows: int, n: int) -> np.ndarray:
    """Hard cases: sizes so much alike that an early look finds whatever has one sign."""
    rng = np.random.default_rng(n)
    table = {
        "normal": lambda: rng.standard_normal((rows, n)),
        "alike": lambda: 1.0 + 0.01 * rng.standard_normal((rows, n)),
        "unequal": lambda: rng.standard_normal((rows, n)) * np.geomspace(0.01, 10, rows)[:, None],
        "ties": lambda: rng.integers(-2, 3, (rows, n)).astype(float),
        "missing": lambda: np.where(rng.random((rows, n)) < 0.2, np.nan, 1.0),
        "constant": lambda: np.ones((rows, n)),
    }[shape]()
    return np.asarray(table)


@pytest.mark.parametrize("shape", ["normal", "alike", "unequal", "ties", "missing", "constant"])
@pytest.mark.parametrize(("n", "before", "equal"), [(6, (), 3), (8, (6,), 3), (8, (6,), 1)])
def test_of_all_flips_at_most_the_level_is_called_different_at_any_look(
    shape: str, n: int, before: tuple[int, ...], equal: int
) -> None:
    """Exact, whatever was measured: of rows that do not differ, ``equal`` of three, every flip is
    as likely. The others differ clearly.
    """
    table = outcomes(shape, 3, n)
    flips = _flips(n, False)
    tables = np.repeat(table[None], len(flips), axis=0)
    tables[:, :equal] = table[:equal] * flips[:, None]
    tables[:, equal:] = np.abs(table[equal:]) + 20.0
    false = np.zeros(len(flips), dtype=bool)
    for number, look in enumerate((*before, n)):
        p = different(tables[:, :, :look], before[:number], early=look < n)
        false |= (p[:, :equal] <= 0.05).any(axis=1)
    assert float(false.mean()) <= 0.05


@pytest.mark.parametrize("shape", ["normal", "alike", "unequal", "ties"])
@pytest.mark.parametrize(("n", "before"), [(8, (6,))])
def test_of_all_flips_at_most_the_level_is_called_equal_at_any_look(
    shape: str, n: int, before: tuple[int, ...]
) -> None:
    """Two rows differ by exactly the bound, in opposite directions; the third is equal."""
    noise = 0.2 * outcomes(shape, 3, n)
    flips = _flips(n, True)
    flipped = noise * flips[:, None]
    tables = np.stack(
        [3.0 + flipped[:, 0], flipped[:, 1] - 3.0, 0.1 * noise[2] + 0 * flips], axis=1
    )
    false = np.zeros(len(flips), dtype=bool)
    for number, look in enumerate((*before, n)):
        p = less(tables[:, :, :look], before[:number], bound=3.0, early=look < n)
        false |= (p[:, :2] <= 0.05).any(axis=1)
    assert float(false.mean()) <= 0.05


def test_of_a_group_of_flips_no_more_is_called_different_either() -> None:
    test_of_all_flips_at_most_the_level_is_called_different_at_any_look("alike", 12, (6, 8), 3)


def test_quiet_pairs_are_equal_after_six_blocks() -> None:
    rows = differences(0.002 * np.random.default_rng(5).standard_normal((8, 6)))[None]
    assert (less(rows, bound=0.05, early=True) <= 0.05).all()
    assert (less(rows + 0.06, bound=0.05) > 0.5).all()
    assert (different(rows, early=True) > 0.05).all()


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("n", [1, 6, 10, 14, 40])
def test_the_flips_are_a_group_and_none_of_them_leaves_a_block_alone(
    n: int, one_sided: bool
) -> None:
    flips = _flips(n, one_sided)
    assert (flips[0] == 1).all()
    every = {tuple(flip) for flip in flips.tolist()}
    assert len(every) == len(flips)
    product = (flips[:, None] * flips[[3 % len(flips), -1]]).reshape(-1, n)
    assert {tuple(one) for one in product.tolist()} <= every
    if one_sided or n > 10:
        assert (flips < 0).any(axis=0).all()


def test_nothing_is_known_of_pairs_without_blocks() -> None:
    assert (different(np.empty((1, 3, 0))) == 1.0).all()
    assert (different(np.full((1, 3, 6), np.nan)) == 1.0).all()
    assert (less(np.full((1, 3, 6), np.nan), bound=1.0) == 1.0).all()


@pytest.mark.parametrize("shape", ["normal", "skewed", "t2"])
@pytest.mark.parametrize("equal", [4, 2])
def test_the_level_holds_for_unequal_noise_and_where_some_profiles_differ(
    shape: str, equal: int
) -> None:
    """``equal`` of four profiles do not differ; normal and t2 noise is five times as large in one
    of them as in another.
    """
    rng = np.random.default_rng(equal)
    size = (2000, 4, 7)
    noise = {
        "normal": lambda: rng.standard_normal(size),
        "skewed": lambda: rng.exponential(size=size),
        "t2": lambda: rng.standard_t(2, size),
    }[shape]()
    if shape != "skewed":
        noise *= np.array([0.3, 1.5, 0.8, 0.5])[:, None]
    truth = np.array([0.0, 0.0, 3.0, 6.0]) * (equal == 2)
    found = different(differences(noise + truth[:, None]))
    false = found[:, differences(truth[:, None])[:, 0] == 0] <= 0.05
    assert float(false.any(axis=1).mean()) <= 0.05 + MARGIN


@pytest.mark.parametrize("n", [2, 5, 6, 9, 12, 31, 40, 500])
def test_the_scale_is_the_standard_deviation_of_normal_values(n: int) -> None:
    rows = 3.0 * np.random.default_rng(n).standard_normal((1000, n)) + 7.0
    assert float(scale(rows).mean()) == pytest.approx(3.0, rel=0.05)


def test_one_outlier_moves_the_scale_a_little_and_alike_values_have_one() -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((200, 8))
    clean = scale(rows)
    rows[:, 3] = 1e6
    assert float(np.median(scale(rows) / clean)) < 1.6
    mostly = np.array([[1.0] * 7 + [2.0]])
    assert scale(mostly)[0] == pytest.approx(mostly.std(ddof=1))
    assert scale(np.ones((1, 8)))[0] == 0.0
    assert np.isnan(scale(np.ones((2, 1)))).all()
