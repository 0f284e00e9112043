"""The tests and intervals against scipy and stored results of statsmodels, and their properties."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from cnibench.errors import UsageError
from cnibench.stats import diagnostics as stats_checks
from cnibench.stats import inference as stats
from cnibench.stats import power as stats_plan
from cnibench.stats import sequential as stopping

HOLM = Path(__file__).parents[1] / "golden" / "statsmodels" / "holm.json"
finite = st.floats(-3, 3, allow_nan=False, width=32)
rows = st.lists(finite, min_size=1, max_size=14)


@settings(deadline=None, max_examples=150)
@given(rows)
def test_signed_rank_agrees_with_all_sign_flips(values: list[float]) -> None:
    """The p value by its definition: every one of the 2^n sign assignments, the ranks kept
    (Pratt's, zeros left out).
    """
    row = np.array(values)
    ranks = reference.rankdata(np.abs(row))[row != 0]
    observed = ranks[row[row != 0] > 0].sum()
    n = len(ranks)
    signs = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    sums = signs @ ranks if n else np.zeros(1)
    lower, upper = np.mean(sums <= observed + 1e-9), np.mean(sums >= observed - 1e-9)
    found = stats.signed_rank(row)
    assert found.lower[0] == pytest.approx(lower, abs=1e-12)
    assert found.upper[0] == pytest.approx(upper, abs=1e-12)
    assert found.p[0] == pytest.approx(min(1.0, 2 * min(lower, upper)), abs=1e-12)


@pytest.mark.parametrize("n", [5, 6, 13, 40, 50])
def test_signed_rank_agrees_with_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    table = rng.standard_normal((30, n)) + 0.3
    found = stats.signed_rank(table)
    for row, p in zip(table, found.p, strict=True):
        assert p == pytest.approx(reference.wilcoxon(row, method="exact").pvalue, rel=1e-9)


def test_signed_rank_of_many_blocks_is_the_normal_one() -> None:
    row = np.random.default_rng(1).standard_normal(900) + 0.05
    expected = reference.wilcoxon(row, method="asymptotic", correction=True).pvalue
    found = stats.signed_rank(row)
    assert found.p[0] == pytest.approx(expected, rel=1e-6)
    averages = np.sort([(a + b) / 2 for i, a in enumerate(row) for b in row[i:]])
    assert found.centre[0] == pytest.approx(np.median(averages), abs=1e-4)
    k, _ = stats._order(900, 0.05)
    assert found.low[0] == pytest.approx(averages[k - 1], abs=1e-4)
    assert found.high[0] == pytest.approx(averages[len(averages) - k], abs=1e-4)


@settings(deadline=None, max_examples=100)
@given(st.integers(6, 25), st.integers(0, 10**6))
def test_the_interval_is_the_test_turned_round(n: int, seed: int) -> None:
    """Just inside the interval a centre is not rejected, just outside it is: test and interval
    cannot contradict each other.
    """
    row = np.random.default_rng(seed).standard_normal(n)
    found = stats.signed_rank(row, 0.05)
    low, high = found.low[0], found.high[0]
    assert found.coverage >= 0.95
    assert low <= found.centre[0] <= high
    for edge, outside in ((low, -1e-9), (high, 1e-9)):
        assert stats.signed_rank(row - (edge + outside)).p[0] <= 0.05
        assert stats.signed_rank(row - (edge - outside)).p[0] > 0.05


def test_so_few_blocks_have_no_interval_and_never_decide() -> None:
    five = stats.signed_rank(np.full((1, 5), 0.3), 0.05)
    assert math.isnan(five.low[0])
    assert five.p[0] == pytest.approx(2 / 2**5)
    six = stats.signed_rank(np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]), 0.05)
    assert six.p[0] == pytest.approx(2 / 2**6)
    assert (six.low[0], six.high[0]) == (0.1, 0.6)
    assert stats.signed_rank(np.zeros((2, 0))).p.tolist() == [1.0, 1.0]


def test_holm_agrees_with_statsmodels() -> None:
    """What multipletests(p, method="holm") of statsmodels gave for 1, 2, 10 and 105 values."""
    for case in json.loads(HOLM.read_text())["cases"]:
        assert np.allclose(stats.holm(np.array(case["p"])), case["holm"], rtol=1e-12, atol=0)
    table = np.random.default_rng(3).uniform(size=(4, 6))
    assert np.allclose(stats.holm(table), [stats.holm(row) for row in table])
    assert stats.holm(np.array([0.01, np.nan])).tolist()[0] == pytest.approx(0.02)


@settings(deadline=None, max_examples=60)
@given(st.integers(6, 40), st.sampled_from([0.1, 0.05, 0.01]))
def test_median_interval_covers_as_it_says(n: int, alpha: float) -> None:
    values = np.arange(1.0, n + 1)
    found = stats.median_interval(values, alpha)
    if found.low is None:
        assert 2 / 2**n > alpha
        return
    k = int(found.low)
    assert found.coverage == pytest.approx(1 - 2 * reference.binom.cdf(k - 1, n, 0.5))
    assert found.coverage >= 1 - alpha
    assert 1 - 2 * reference.binom.cdf(k, n, 0.5) < 1 - alpha
    assert found.high == n + 1 - k


def test_median_interval_needs_six_values() -> None:
    assert stats.median_interval(np.arange(5.0)).low is None
    assert stats.median_interval(np.arange(6.0)).low == 0.0
    assert stats.median_interval(np.array([])).low is None


names = [f"p{i}" for i in range(6)]


@settings(deadline=None, max_examples=100)
@given(st.sets(st.sampled_from([(a, b) for i, a in enumerate(names) for b in names[i + 1 :]])))
def test_letters_say_exactly_who_was_distinguished(apart: set[tuple[str, str]]) -> None:
    found = stats.groups(names, apart)
    shown = stats.letters(found)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            assert bool(set(shown[a]) & set(shown[b])) == ((a, b) not in apart)
    assert "a" in shown[names[0]]


def test_outliers_are_found_and_noise_is_not() -> None:
    row = np.array([1.0, 1.01, 0.99, 1.0, 1.02, 3.0, 1.0, 0.98])
    assert np.flatnonzero(stats_checks.outliers(row)[0]).tolist() == [5]
    assert not stats_checks.outliers(np.full((1, 9), 2.0)).any()
    assert np.flatnonzero(stats_checks.outliers(np.array([2.0] * 9 + [5.0]))[0]).tolist() == [9]


def test_drift_and_dependence() -> None:
    rng = np.random.default_rng(5)
    noise = rng.standard_normal((2000, 20))
    for check in (stats_checks.drift, stats_checks.dependence):
        rate = float(np.mean(check(noise)[1] <= 0.05))
        assert 0.03 < rate < 0.07
    rho, p = stats_checks.drift(np.linspace(0, 3, 20) + noise[:1])
    expected = reference.spearmanr(np.arange(20), np.linspace(0, 3, 20) + noise[0])
    assert rho[0] == pytest.approx(expected.statistic)
    assert p[0] == pytest.approx(expected.pvalue)
    chain = np.zeros(60)
    for i in range(1, 60):
        chain[i] = 0.8 * chain[i - 1] + rng.standard_normal()
    correlation, p = stats_checks.dependence(chain)
    assert correlation[0] > 0.4
    assert p[0] < 0.001
    assert np.isnan(stats_checks.drift(np.ones((1, 20)))[1][0])
    assert np.isnan(stats_checks.dependence(np.arange(7.0))[1][0])


def _run(
    rng: np.random.Generator, runs: int, noise: float, n: int, truth: list[float]
) -> np.ndarray:
    """Log values of simulated runs, runs x profiles x blocks: what a block has in common (3 %)
    apart from each cell's own noise.
    """
    common = 0.03 * rng.standard_normal((runs, 1, n))
    return common + noise * rng.standard_normal((runs, len(truth), n)) + np.array(truth)[:, None]


def _adjusted(logs: np.ndarray) -> np.ndarray:
    """Holm's p of all pairs, runs x pairs."""
    runs, profiles, n = logs.shape
    first, second = np.triu_indices(profiles, 1)
    ratios = (logs[:, first] - logs[:, second]).reshape(-1, n)
    return stats.holm(stats.signed_rank(ratios, interval=False).p.reshape(runs, -1))


@pytest.mark.parametrize(("profiles", "n"), [(2, 6), (4, 10), (6, 12)])
def test_false_verdicts_in_2000_runs_stay_within_the_level(profiles: int, n: int) -> None:
    rng = np.random.default_rng(profiles)
    false = float(
        np.mean((_adjusted(_run(rng, 2000, 0.02, n, [0.0] * profiles)) <= 0.05).any(axis=1))
    )
    assert false <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("difference", [0.02, 0.05])
@pytest.mark.parametrize("noise", [0.005, 0.01, 0.02, 0.05])
@pytest.mark.parametrize("profiles", [2, 5])
def test_planned_blocks_have_their_power(difference: float, noise: float, profiles: int) -> None:
    pairs = profiles * (profiles - 1) // 2
    n = stats_plan.planned_blocks(pairs, noise, difference)
    truth = [math.log1p(difference)] + [0.0] * (profiles - 1)
    logs = _run(np.random.default_rng(11), 1000 if n < 100 else 300, noise, n, truth)
    found = _adjusted(logs)[:, : profiles - 1] <= 0.05
    assert float(found.mean()) >= 0.8 - 2.6 * math.sqrt(0.16 / len(logs))


def test_least_blocks_is_the_floor_of_the_test() -> None:
    for pairs in (1, 3, 15, 45, 105, 153):
        n = stats_plan.least_blocks(pairs)
        assert pairs * 2 / 2**n <= 0.05 < pairs * 2 / 2 ** (n - 1)
    assert (stats_plan.least_blocks(1), stats_plan.least_blocks(105)) == (6, 13)


def test_planning_refuses_what_cannot_be() -> None:
    for noise, resolution in ((0.01, 0.0), (-1.0, 0.02), (math.nan, 0.02), (5.0, 1e-6)):
        with pytest.raises(UsageError):
            stats_plan.planned_blocks(3, noise, resolution)
    assert stats_plan.planned_blocks(3, 0.0, 0.02) == stats_plan.least_blocks(3)
    assert math.isinf(stats_plan.detectable(5, 1, 0.01))
    assert 0 < stats_plan.detectable(20, 1, 0.01) < 0.02


def test_stopping_looks_only_when_it_was_set_to() -> None:
    planned = stopping.looks(3, 30)
    assert planned[-1] == 30
    assert planned == tuple(sorted(set(planned)))
    rng = np.random.default_rng(2)
    quiet = {name: (0.001 * rng.standard_normal(30)).tolist() for name in "abc"}
    for blocks in range(1, 31):
        now = {name: values[:blocks] for name, values in quiet.items()}
        decision = stopping.decide(now, 0.02, 30)
        assert decision.stop == (blocks in planned)
    loud = {name: (0.3 * rng.standard_normal(30)).tolist() for name in "abc"}
    assert not stopping.decide({k: v[: planned[0]] for k, v in loud.items()}, 0.02, 30).stop
    last = stopping.decide(loud, 0.02, 30)
    assert last.stop
    assert "still" in last.reason
    assert not stopping.decide({}, 0.02, 30).stop
    assert stopping.looks(105, 5) == (5,)
    broken = {
        "a": [math.nan] * planned[0],
        "b": quiet["b"][: planned[0]],
        "c": quiet["c"][: planned[0]],
    }
    assert not stopping.decide(broken, 0.02, 30).stop


def test_stopping_keeps_the_level_in_2000_runs() -> None:
    """Nothing to find, and each run ends as soon as its interval is narrow: the verdict at the end
    is still false in 5 % at most.
    """
    noise = 0.02 * np.random.default_rng(9).standard_normal((2000, 30))
    planned = stopping.looks(1, 30)
    level = stopping.level()
    open_, false = np.ones(2000, dtype=bool), 0
    for look in planned:
        found = stats.signed_rank(noise[:, :look], level)
        ends = open_ & ((np.expm1((found.high - found.low) / 2) <= 0.015) | (look == planned[-1]))
        false += int((found.p[ends] <= level).sum())
        open_ &= ~ends
    assert not open_.any()
    assert false / 2000 <= 0.05
