"""The trimmed mean: against SciPy's test of trimmed means, and how often its interval is right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cnibench.stats.robust import TRIM, error, trimmed


@pytest.mark.parametrize("n", [4, 5, 9, 12, 14, 25, 60])
def test_the_interval_is_that_of_yuens_test(n: int) -> None:
    """Against a constant, which adds no variance."""
    values = np.random.default_rng(n).standard_normal(n)
    mean, half = trimmed(list(values))
    yuen = stats.ttest_ind(values, np.zeros(n), trim=TRIM, equal_var=False)
    assert mean == pytest.approx(stats.trim_mean(values, TRIM))
    assert half == pytest.approx(stats.t.ppf(0.975, yuen.df) * mean / yuen.statistic)
    assert error(half, n) == pytest.approx(((mean / yuen.statistic) ** 2, yuen.df))


@pytest.mark.parametrize("n", [4, 9, 14, 19])
def test_the_interval_has_the_truth_as_often_with_any_number_of_values(n: int) -> None:
    """Where the share that is cut is least like the one asked for, too: 95 to 96 % as a rule."""
    rng = np.random.default_rng(4)
    for rows in (rng.standard_normal((1500, n)), rng.standard_t(3, (1500, n))):
        found = [trimmed(list(row)) for row in rows]
        covered = np.mean([abs(mean) <= half for mean, half in found])
        assert 0.935 <= covered <= 0.967


def test_one_value_has_no_interval() -> None:
    assert trimmed([2.0]) == (2.0, math.inf)
    assert error(math.inf, 1) == (math.inf, 0)
