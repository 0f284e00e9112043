"""The joint test of all pairs against its definition, and that it keeps its level."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from cnibench.stats import inference
from cnibench.stats.joint import MOST, adjusted, adjusted_of_many
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
    assert adjusted(rows) == pytest.approx(by_definition(rows))


def test_the_joint_p_is_between_that_of_the_pair_and_holms() -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_t(2, (300, 5, 9)) + np.arange(5)[:, None]
    rows = differences(values)
    p = inference.signed_rank(rows.reshape(-1, 9), interval=False).p.reshape(300, -1)
    found = adjusted_of_many(rows)
    assert (found <= inference.holm(p) + 1e-12).all()
    assert (found >= p).all()
    assert float((found < inference.holm(p) - 1e-9).mean()) > 0.5
    for table, expected in zip(rows[:20], found, strict=False):
        assert adjusted(table) == pytest.approx(expected)


def test_six_blocks_tell_sixteen_profiles_apart_that_differ_enough() -> None:
    noise = np.random.default_rng(3).standard_normal((16, 6))
    rows = differences(100.0 * np.arange(16)[:, None] + noise)
    assert adjusted(rows) == pytest.approx(np.full(120, 2 / 2**6))
    assert inference.holm(np.full(120, 2 / 2**6)).min() == 1.0


def test_ties_zeros_and_many_blocks_have_holms_correction() -> None:
    rng = np.random.default_rng(4)
    tied = np.round(differences(rng.standard_normal((3, 8))), 1)
    many = differences(rng.standard_normal((3, MOST + 1)))
    for rows in (tied, many, many[:1]):
        expected = inference.holm(inference.signed_rank(rows, interval=False).p)
        assert adjusted(rows) == pytest.approx(expected)


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
    found = adjusted_of_many(differences(noise + truth[:, None]))
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
