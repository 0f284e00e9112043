"""The model of few repeats, and the order of several profiles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from cnibench.stats.additive import contrasts, critical_range
from cnibench.stats.order import ranked, scores

NAN = float("nan")


def _table(k: int, n: int, seed: int = 1) -> np.ndarray:
    found: np.ndarray = np.random.default_rng(seed).standard_normal((k, n))
    return found


@pytest.mark.parametrize(("k", "df"), [(2, 4), (3, 2), (11, 22), (16, 30)])
def test_critical_range_is_that_of_scipy(k: int, df: int) -> None:
    assert critical_range(k, df, 0.05) == pytest.approx(
        stats.studentized_range.isf(0.05, k, df), rel=1e-4
    )


def test_unrelated_repeats_are_tukeys() -> None:
    table = _table(4, 3, 4)
    found = contrasts(table, paired=False, alpha=0.05, family=6)
    expected = stats.tukey_hsd(*table).confidence_interval(0.95)
    assert np.isinf(found.prior)
    assert found.df == 8
    upper = np.triu_indices(4, 1)
    assert found.low[upper] == pytest.approx(expected.low[upper], rel=1e-3)
    assert found.high[upper] == pytest.approx(expected.high[upper], rel=1e-3)


def test_two_profiles_in_blocks_are_the_paired_t_test() -> None:
    table = _table(2, 5)
    found = contrasts(table, paired=True, alpha=0.05, family=1)
    expected = stats.ttest_rel(table[0], table[1])
    interval = expected.confidence_interval(0.95)
    assert found.p[0, 1] == pytest.approx(expected.pvalue)
    assert (found.low[0, 1], found.high[0, 1]) == pytest.approx((interval.low, interval.high))


def test_blocks_with_gaps_are_least_squares() -> None:
    """The same as a regression on indicators, and what two share with a third counts."""
    table = _table(4, 3, 4)
    table[0, 0] = table[1, 2] = table[3, 0] = table[3, 1] = NAN
    rows, values = [], []
    for i in range(4):
        for b in range(3):
            if not np.isnan(table[i, b]):
                row = np.zeros(7)
                row[i] = row[4 + b] = 1
                rows.append(row)
                values.append(table[i, b])
    design, y = np.array(rows), np.array(values)
    level = np.linalg.lstsq(design, y, rcond=None)[0]
    df = len(y) - np.linalg.matrix_rank(design)
    noise = np.sqrt(((y - design @ level) ** 2).sum() / df)
    found = contrasts(table, paired=True, alpha=0.05, family=6)
    assert found.df == df
    assert np.isinf(found.prior)
    assert found.noise == pytest.approx(noise)
    assert found.difference == pytest.approx(level[:4, None] - level[:4], abs=1e-9)
    own = np.linalg.pinv(design.T @ design)
    contrast = np.array([1, 0, 0, -1, 0, 0, 0])
    t = (level[0] - level[3]) / (noise * np.sqrt(contrast @ own @ contrast))
    assert found.p[0, 3] == pytest.approx(2 * stats.t.sf(abs(t), df))


def test_noise_that_scatters_is_drawn_towards_the_common_one() -> None:
    """The moments of Smyth (2004): log s2 is the log of the common variance, plus the logs of two
    chi-squared variables over their degrees of freedom; one that is far beyond stands alone."""
    spread = np.array([0.2, 0.4, 1.0, 1.0, 2.0, 5.0])
    table = _table(6, 4, 7) * spread[:, None]
    found = contrasts(table, paired=False, alpha=0.05, family=15)
    variance = table.var(axis=1, ddof=1)
    logs = np.log(variance) - special.digamma(1.5) + np.log(1.5)
    assert special.polygamma(1, found.prior / 2) == pytest.approx(
        logs.var(ddof=1) - special.polygamma(1, 1.5), rel=1e-6
    )
    half = found.prior / 2
    common = np.exp(logs.mean() + special.digamma(half) - np.log(half))
    own = (found.prior * common + 3 * variance) / (found.prior + 3)
    freedom = found.prior + 3
    for i, j in ((0, 1), (0, 4), (2, 3)):
        error = np.sqrt((own[i] + own[j]) / 4)
        df = (own[i] + own[j]) ** 2 / ((own[i] ** 2 + own[j] ** 2) / freedom)
        t = (table[i].mean() - table[j].mean()) / error
        assert found.p[i, j] == pytest.approx(2 * stats.t.sf(abs(t), min(df, 18)))


def test_far_louder_than_the_others_is_judged_by_its_own() -> None:
    table = _table(12, 4, 3) * np.array([300.0, *[1.0] * 11])[:, None]
    found = contrasts(table, paired=False, alpha=0.05, family=66)
    welch = stats.ttest_ind(table[0], table[1], equal_var=False)
    assert found.p[0, 1] == pytest.approx(welch.pvalue, rel=0.01)


@pytest.mark.parametrize(
    "table", [np.array([[1.0], [2.0]]), np.full((3, 3), 2.0), np.array([[1.0, NAN], [NAN, 2.0]])]
)
def test_without_noise_nothing_is_said(table: np.ndarray) -> None:
    found = contrasts(table, paired=True, alpha=0.05, family=1)
    assert found.df == 0
    assert np.isnan(found.low).all()


@pytest.mark.parametrize("paired", [False, True])
def test_level_where_the_assumption_holds(paired: bool) -> None:
    wrong = 0
    for seed in range(400):
        table = _table(4, 3, seed) + (5 * _table(1, 3, seed + 9999) if paired else 0)
        found = contrasts(table, paired=paired, alpha=0.05, family=6)
        wrong += bool(((found.low > 0) | (found.high < 0)).any())
    assert wrong <= stats.binom.ppf(0.999, 400, 0.05)


def test_order_is_that_of_the_differences() -> None:
    """Each with the weight of its blocks, where the pairs do not quite agree with each other."""
    pairs = [(0, 1, 0.1, 10), (1, 2, 0.1, 2), (0, 2, 0.25, 2)]
    found = scores(3, pairs)
    assert found[0] - found[1] == pytest.approx(0.1, abs=0.02)
    assert ranked(dict(zip("abc", found, strict=True)), set()) == ["a", "b", "c"]


def test_nobody_ranks_above_who_beats_it() -> None:
    score = {"a": 3.0, "b": 2.0, "c": 1.0}
    assert ranked(score, {("c", "a")}) == ["b", "c", "a"]
    assert ranked(score, {("b", "a"), ("c", "b")}) == ["c", "b", "a"]
    circle = {("a", "b"), ("b", "c"), ("c", "a")}
    assert ranked(score, circle) == ["a", "b", "c"]
