"""From which value of a sweep on one of two profiles is better: sweeps whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from cnibench.analysis.comparison.onsets import Onset, onset

VALUES = (1.0, 100.0, 1000.0, 10000.0)


def table(*centres: float, blocks: int = 7, seed: int = 1) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((blocks, len(centres)))
    return np.asarray(centres) + 0.01 * noise


@pytest.mark.parametrize(
    ("centres", "found"),
    [
        ((0.0, 0.0, 0.5, 2.0), Onset(1000.0, True)),
        ((0.0, 0.0, -0.5, -2.0), Onset(1000.0, False)),
        ((0.5, 0.0, 0.0, 2.0), Onset(10000.0, True)),  # what is better before is another stretch
        ((-0.5, -0.5, 0.5, 2.0), Onset(1000.0, True)),
        ((0.5, 0.5, 0.5, 0.5), Onset(1.0, True)),
        ((0.5, 0.5, 0.5, 0.0), None),  # at the largest value they may be equal
    ],
)
def test_the_values_from_the_largest_down_to_the_first_that_decides_nothing(
    centres: tuple[float, ...], found: Onset | None
) -> None:
    # of the seed: in no column without a difference do all seven blocks agree
    assert onset(table(*centres), VALUES, 0.05, 3) == found


def test_the_level_is_shared_among_the_pairs_and_few_blocks_decide_nothing() -> None:
    far = table(0.0, 0.0, 1.0, 1.0)
    assert onset(far, VALUES, 0.05, 3) is not None  # 2 / 2^7 of each of three
    assert onset(far, VALUES, 0.05, 4) is None
    assert onset(table(0.0, 0.0, 1.0, 1.0, blocks=2), VALUES, 0.05, 1) is None
    assert onset(np.empty((0, 4)), VALUES, 0.05, 1) is None
    far[0, 0] = np.nan
    assert onset(far, VALUES, 0.05, 1) is None


def test_equal_profiles_are_called_different_no_more_often_than_the_level_says() -> None:
    """In each sweep at most once, at the largest value: 1,000 sweeps of equal profiles."""
    falsely = sum(
        onset(table(0.0, 0.0, 0.0, 0.0, blocks=8, seed=seed), VALUES, 0.05, 1) is not None
        for seed in range(1000)
    )
    assert falsely <= 75  # 50 expected at most; 3.6 standard deviations above it
