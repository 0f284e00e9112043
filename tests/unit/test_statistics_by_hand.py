"""Tests and intervals against definitions, small cases that were enumerated, and scipy."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from scipy import stats

from cnibench.stats import diagnostics, inference


def _outliers(row: list[float]) -> list[bool]:
    middle = statistics.median(row)
    away = [abs(value - middle) for value in row]
    scale = 1.4826 * statistics.median(away) or 1.2533 * statistics.fmean(away)
    return [one > max(3.5 * scale, 1e-9 * abs(middle)) for one in away]


@pytest.mark.parametrize("columns", [5, 6, 9])
def test_outliers_are_those_of_the_modified_z_score(columns: int) -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(0, 1, (400, columns)) * rng.choice([0.01, 1, 50], (400, 1))
    rows += rng.choice([0.0, 0.5, 300.0], (400, 1))
    rows[::3, 0] += rng.uniform(-9, 9, 134) * rows[::3].std(axis=1)
    rows[1::3, 2:] = rows[1::3, 2:3]  # no median deviation: the mean deviation decides
    found = diagnostics.outliers(rows)
    assert found.tolist() == [_outliers(row) for row in rows.tolist()]
    assert found.any(axis=1).sum() > 40


def test_few_values_have_no_outliers_and_rounding_makes_none() -> None:
    four = diagnostics.outliers(np.array([[1.0, 1.0, 1.0, 9.0]] * 2))
    assert four.tolist() == [[False] * 4] * 2
    for scale in (1e-3, 1.0, 1e6):
        same = [scale] * 7
        assert not diagnostics.outliers(np.array([*same, scale * (1 + 1e-10)])).any()
        assert diagnostics.outliers(np.array([*same, scale * (1 + 1e-6)])).tolist() == [
            [False] * 7 + [True]
        ]
    both = np.array([[1e6] * 7 + [1e6 * (1 + 1e-10)], [1e-3] * 7 + [1e-3 * (1 + 1e-6)]])
    assert diagnostics.outliers(both).any(axis=1).tolist() == [False, True]
    # Exactly at the limit is no outlier: deviations 1, 0, 1, 0, 1 and 3.5 * 1.4826.
    limit = 3.5 * (1.4826 * 1.0)
    assert not diagnostics.outliers(np.array([-1.0, 0.0, 1.0, -1.0, 0.0, 1.0, limit])).any()


@pytest.mark.parametrize("test", [diagnostics.drift, diagnostics.dependence])
def test_eight_values_are_the_least(test: object) -> None:
    rows = np.array([[3.0, 1, 4, 1.5, 9, 2, 6, 5], [7.0] * 8, [1.0, 2, 3, 4, 5, 6, 7, 8]])
    statistic, p = test(rows)  # type: ignore[operator]
    assert np.isnan(statistic).tolist() == np.isnan(p).tolist() == [False, True, False]
    few, p = test(rows[:, :7])  # type: ignore[operator]
    assert np.isnan(few).tolist() == np.isnan(p).tolist() == [True] * 3


def test_drift_is_spearmans_correlation_with_time() -> None:
    rng = np.random.default_rng(3)
    for n in (8, 9, 20):
        rows = np.cumsum(rng.normal(0, 1, (20, n)), axis=1)
        rho, p = diagnostics.drift(rows)
        for row, r, one in zip(rows, rho, p, strict=True):
            wanted = stats.spearmanr(row, np.arange(n))
            assert r == pytest.approx(wanted.statistic)
            assert one == pytest.approx(wanted.pvalue)
    assert diagnostics.drift(np.arange(10.0))[0][0] == pytest.approx(1.0)
    assert diagnostics.drift(np.arange(10.0))[1][0] == pytest.approx(0.0, abs=1e-12)


def test_dependence_has_the_moments_of_all_orders() -> None:
    """Over all 40320 orders of 8 values the ratio has a mean and a standard deviation, and p is
    that of a normal distribution with them.
    """
    rows = np.array(list(itertools.permutations(range(8))), dtype=float)
    lag, p = diagnostics.dependence(rows)
    jumps = (np.diff(rows, axis=1) ** 2).sum(axis=1) / ((rows - 3.5) ** 2).sum(axis=1)
    assert lag == pytest.approx(1 - jumps / 2)
    assert p == pytest.approx(2 * stats.norm.sf(np.abs(jumps - jumps.mean()) / jumps.std()))


def test_ties_are_broken_the_same_way_each_time() -> None:
    ties = np.array([[1.0, 1, 1, 1, 1, 1, 2, 2, 2, 2]])
    assert len({float(diagnostics.drift(ties)[0][0]) for _ in range(20)}) == 1
    assert abs(float(diagnostics.drift(np.array([[1.0] * 19 + [2.0]]))[0][0])) < 0.9


def _signed_rank_cdf(n: int) -> list[float]:
    counts = [0] * (n * (n + 1) // 2 + 1)
    for signs in itertools.product((0, 1), repeat=n):
        counts[sum(rank for rank, sign in enumerate(signs, 1) if sign)] += 1
    return [sum(counts[: w + 1]) / 2**n for w in range(len(counts))]


@pytest.mark.parametrize("n", range(1, 11))
@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.0125])
def test_the_order_of_the_interval_is_that_of_all_signs(n: int, alpha: float) -> None:
    cdf = _signed_rank_cdf(n)
    assert inference.null_cdf(n) == pytest.approx(cdf)
    k = sum(2 * chance <= alpha * (1 + 1e-9) for chance in cdf)
    assert inference._order(n, alpha) == (k, pytest.approx(1 - 2 * cdf[k - 1] if k else 0.0))
    assert inference.walsh_needed(n, alpha) == k
    for count, chance in enumerate(cdf):
        assert inference.walsh_p(n, count) == pytest.approx(min(1.0, 2 * chance))


def test_a_level_that_is_met_exactly_is_met() -> None:
    assert inference._order(5, 0.0625) == (1, 0.9375)
    assert inference._order(5, 0.0624) == (0, 0.0)


def test_of_nothing_there_is_no_interval_and_no_test() -> None:
    assert inference._order(0, 0.05) == (0, 0.0)
    nothing = inference.signed_rank(np.empty((2, 0)))
    assert nothing.n == 0
    assert nothing.coverage == 0.0
    for wanted, arrays in {
        math.nan: (nothing.centre, nothing.low, nothing.high),
        1.0: (nothing.p, nothing.upper, nothing.lower),
        0.0: (nothing.effect,),
    }.items():
        for array in arrays:
            assert np.array_equal(array, np.full(2, wanted), equal_nan=True)


def test_beyond_200_blocks_the_normal_distribution_is_close_to_the_exact_one() -> None:
    for n in (201, 240):
        exact = inference._cdf_of_ranks(np.arange(1, n + 1))
        k, coverage = inference._order(n, 0.05)
        assert 0 <= sum(2 * exact <= 0.05) - k <= 2
        assert coverage == 0.95
        mean = n * (n + 1) // 4
        for count in (mean - 2500, mean - 1500, mean - 400, mean):
            assert inference.walsh_p(n, count) == pytest.approx(
                min(1.0, 2 * exact[count]), abs=8e-4
            )
        assert inference.walsh_p(n, mean + 1) == 1.0
        for count in (mean - 2500, mean - 1600):  # where verdicts are made
            assert inference.walsh_p(n, count) == pytest.approx(2 * exact[count], abs=2e-4)
    # At 200 the exact distribution is used.
    assert inference.walsh_p(200, 8000) == 2.0 * float(inference.null_cdf(200)[8000])


def test_walsh_averages_are_the_means_of_all_pairs() -> None:
    rows = np.array([[1.0, 5.0, 12.0], [0.0, 0.0, -4.0]])
    assert inference.walsh_averages(rows).tolist() == [
        [1.0, 3.0, 6.5, 5.0, 8.5, 12.0],
        [0.0, 0.0, -2.0, 0.0, -2.0, -4.0],
    ]


@pytest.mark.parametrize("n", [6, 7, 12])
def test_the_signed_rank_test_is_scipys(n: int) -> None:
    rng = np.random.default_rng(n)
    rows = rng.normal(0.4, 1, (30, n))
    found = inference.signed_rank(rows)
    for i, row in enumerate(rows):
        for tail, p in (("two-sided", found.p), ("greater", found.upper), ("less", found.lower)):
            wanted = stats.wilcoxon(row, alternative=tail, method="exact")
            assert p[i] == pytest.approx(wanted.pvalue)
        ranks = stats.rankdata(np.abs(row))
        effect = (ranks[row > 0].sum() - ranks[row < 0].sum()) / ranks.sum()
        assert found.effect[i] == pytest.approx(effect)
        walsh = np.sort([(a + b) / 2 for k, a in enumerate(row) for b in row[k:]])
        k = inference.walsh_needed(n)
        assert found.centre[i] == pytest.approx(np.median(walsh))
        assert (found.low[i], found.high[i]) == pytest.approx((walsh[k - 1], walsh[-k]))
    bare = inference.signed_rank(rows, interval=False)
    assert np.isnan([bare.centre, bare.low, bare.high]).all()
    assert np.array_equal(bare.p, found.p)


@pytest.mark.parametrize(
    "row",
    [[1, 1, -2, 3, -1, 0, 2], [0, 0, 5], [-3, -3, -3, 1], [2, 2, 2, 2], [0, 0], [0, -1, 1, -1]],
)
def test_ties_and_zeros_have_the_tails_of_all_signs(row: list[float]) -> None:
    """Zeros are ranked and then left out (Pratt); equal sizes share the mean of their ranks."""
    values = np.array(row, dtype=float)
    ranks = stats.rankdata(np.abs(values))[values != 0]
    plus = ranks[values[values != 0] > 0].sum()
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product((0, 1), repeat=len(ranks))
    ]
    found = inference.signed_rank(values)
    lower = sum(one <= plus for one in sums) / len(sums)
    upper = sum(one >= plus for one in sums) / len(sums)
    assert (found.lower[0], found.upper[0]) == pytest.approx((lower, upper))
    assert found.p[0] == pytest.approx(min(1.0, 2 * min(lower, upper)))


def test_many_blocks_with_ties_and_zeros_are_scipys_normal_approximation() -> None:
    rng = np.random.default_rng(1)
    rows = np.round(rng.normal(0.1, 1, (6, 230)), 1)
    rows[5] = 0.0
    found = inference.signed_rank(rows)
    assert (found.p[5], found.upper[5], found.lower[5], found.effect[5]) == (1.0, 1.0, 1.0, 0.0)
    for i in range(5):
        size = np.abs(rows[i])
        ranks = stats.rankdata(size)
        plus, counted = ranks[rows[i] > 0].sum(), ranks[rows[i] != 0]
        spread = math.sqrt((counted**2).sum() / 4)
        z = plus - counted.sum() / 2
        assert found.upper[i] == pytest.approx(stats.norm.sf((z - 0.5) / spread))
        assert found.lower[i] == pytest.approx(stats.norm.cdf((z + 0.5) / spread))
        assert found.p[i] == pytest.approx(min(1, 2 * min(found.upper[i], found.lower[i])))


def test_very_many_blocks_have_the_interval_of_their_walsh_averages() -> None:
    rng = np.random.default_rng(5)
    for n in (400, 401, 450):
        rows = rng.lognormal(0, 1, (2, n)) - 1
        found = inference.signed_rank(rows)
        k = inference.walsh_needed(n)
        for i, row in enumerate(rows):
            walsh = np.sort(inference.walsh_averages(row[None, :])[0])
            middle = len(walsh) // 2
            assert walsh[middle - 3] <= found.centre[i] <= walsh[middle + 3]
            assert walsh[k - 4] <= found.low[i] <= walsh[k + 2]
            assert walsh[-k - 3] <= found.high[i] <= walsh[-k + 3]
    assert np.isnan(
        inference._invert(rng.normal(0, 1, (1, 401)), np.zeros(1, dtype=np.int64))[1]
    ).all()


def test_large_tables_are_worked_through_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(2).normal(0, 1, (11, 8))
    whole = inference.signed_rank(rows)
    for at_once in (1, 36, 100):
        monkeypatch.setattr(inference, "_AT_ONCE", at_once)
        parts = inference.signed_rank(rows)
        assert np.array_equal(parts.low, whole.low)
        assert np.array_equal(parts.centre, whole.centre)
        assert np.array_equal(parts.high, whole.high)


def test_holm_along_either_axis() -> None:
    p = np.array([[0.01, 0.04, math.nan], [0.5, 0.02, 0.03], [0.6, 0.9, 0.0]])
    assert inference.holm(p) == pytest.approx(
        np.array([[0.03, 0.08, math.nan], [0.5, 0.06, 0.06], [1.0, 1.0, 0.0]]), nan_ok=True
    )
    assert inference.holm(p, axis=0) == pytest.approx(
        np.array([[0.03, 0.08, math.nan], [1.0, 0.06, 0.06], [1.0, 0.9, 0.0]]), nan_ok=True
    )
    assert inference.holm(np.array([])).size == 0
    # A test that found nothing counts in the family.
    assert inference.holm(np.array([0.02, math.nan])) == pytest.approx(
        [0.04, math.nan], nan_ok=True
    )


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_the_interval_of_the_median_is_that_of_fair_coins(alpha: float) -> None:
    assert inference.median_interval(np.array([])) == inference.Interval(None, None, 0.0)
    for n in range(1, 25):
        values = np.random.default_rng(n).permutation(n) + 1.0
        tails = [sum(math.comb(n, j) for j in range(k)) / 2**n for k in range(1, n // 2 + 2)]
        k = sum(tail <= alpha / 2 for tail in tails)
        wanted = inference.Interval(None, None, 0.0)
        if k:
            wanted = inference.Interval(k, n + 1 - k, pytest.approx(1 - 2 * tails[k - 1]))
        found = inference.median_interval(values, alpha)
        assert (found.low, found.high, found.coverage) == (wanted.low, wanted.high, wanted.coverage)


def test_groups_of_what_does_not_differ_and_their_letters() -> None:
    assert inference.groups([], set()) == []
    assert inference.groups(["b", "a"], set()) == [["b", "a"]]
    chain = inference.groups(["d", "c", "b", "a"], {("d", "b"), ("a", "d"), ("c", "a")})
    assert chain == [["d", "c"], ["c", "b"], ["b", "a"]]
    assert inference.letters(chain) == {"d": "a", "c": "ab", "b": "bc", "a": "c"}
    every = {(x, y) for x, y in itertools.combinations("zyx", 2)}
    assert inference.groups(["z", "y", "x"], every) == [["z"], ["y"], ["x"]]
    many = [[str(number)] for number in range(54)]
    shown = list(inference.letters(many).values())
    assert shown[:3] == ["a", "b", "c"]
    assert shown[25:28] == ["z", "A", "B"]
    assert shown[51:] == ["Z", "(53)", "(54)"]
