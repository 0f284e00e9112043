"""When a run may end because all is decided, and at which level; all looks together keep it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cnibench.stats import power
from cnibench.stats.diagnostics import dependence_together
from cnibench.stats.inference import intervals, signed_rank
from cnibench.stats.joint import adjusted_of_many
from cnibench.stats.looks import last_level, level_after, looks
from cnibench.stats.scale import scale
from tests.unit.test_joint import MARGIN, differences


@pytest.mark.parametrize("profiles", [1, 2, 3, 4, 8, 16])
def test_the_levels_of_all_looks_add_up_to_the_level(profiles: int) -> None:
    pairs = max(1, profiles * (profiles - 1) // 2)
    for most in range(1, 200):
        planned = looks(most, profiles)
        assert planned[-1][0] == most
        assert [look for look, _ in planned] == sorted({look for look, _ in planned})
        assert sum(level.different for _, level in planned) == pytest.approx(0.05)
        assert sum(level.equal for _, level in planned) == pytest.approx(0.05)
        if len(planned) > 1:  # neither the first nor the last look is in vain
            assert planned[0][1].different >= 2 / 2 ** planned[0][0]
            assert power.least_blocks(pairs, planned[-1][1].different) <= most


def test_looks_of_runs_as_they_are_planned() -> None:
    assert [look for look, _ in looks(8, 3)] == [7, 8]
    assert [look for look, _ in looks(9, 2)] == [9]
    assert [look for look, _ in looks(8, 4)] == [8]  # 8 blocks at less than 5 % could not decide
    assert [look for look, _ in looks(14, 4)] == [8, 14]
    assert [look for look, _ in looks(39, 2)] == [10, 20, 39]
    assert [look for look, _ in looks(39, 3)] == [8, 18, 39]
    assert last_level(39, 2) == pytest.approx(0.05 - 2**-8)
    assert last_level(39, 3) == pytest.approx(0.05 - 2**-7 - 2**-8)


def test_a_run_that_ends_between_looks_has_what_they_left() -> None:
    assert level_after(7, 8, 3).different == 2**-6
    assert level_after(6, 8, 3) == (0.05, 0.05)
    assert level_after(12, 39, 2).different == pytest.approx(0.05 - 2**-9)
    assert level_after(12, 39, 2).equal == pytest.approx(0.0375)
    assert level_after(39, 39, 2).different == pytest.approx(last_level(39, 2))


@pytest.mark.parametrize(("profiles", "most"), [(2, 20), (3, 8), (4, 14)])
def test_no_more_than_the_level_is_false_at_any_look(profiles: int, most: int) -> None:
    """Whatever makes a look the last one: a false difference at any of them counts, and so does a
    false proof of equality of profiles that differ by 5 %.
    """
    rng = np.random.default_rng(profiles)
    noise = 0.02 * rng.standard_t(3, (2000, profiles, most))
    limit = math.log1p(0.05)
    apart = differences(noise + (np.arange(profiles) * limit)[:, None])
    alike, pairs = differences(noise), profiles * (profiles - 1) // 2
    different = equal = np.zeros(2000, dtype=bool)
    for look, level in looks(most, profiles):
        p = adjusted_of_many(alike[:, :, :look])
        different = different | (p <= level.different).any(axis=1)
        ends = intervals(apart[:, :, :look].reshape(-1, look), 2 * level.equal / pairs)
        bound = np.maximum(np.abs(ends[0]), np.abs(ends[1])).reshape(2000, pairs)
        equal = equal | (bound <= limit).any(axis=1)
    assert float(different.mean()) <= 0.05 + MARGIN
    assert float(equal.mean()) <= 0.05 + MARGIN


@pytest.mark.parametrize("n", [6, 12, 70])
def test_what_two_profiles_could_have_shown_is_found_with_the_power_that_is_said(n: int) -> None:
    """The report's sentence: from the scatter of one run the difference, which another run then
    shows in 80 %.
    """
    rng = np.random.default_rng(n)
    said = power.standard_effect(n, 1, estimated=True) * scale(rng.standard_normal((2000, n)))
    found = signed_rank(rng.standard_normal((2000, n)) + said[:, None], interval=False).p <= 0.05
    assert float(found.mean()) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("profiles", "n"), [(3, 8)])
def test_the_joint_test_has_the_power_that_is_said(profiles: int, n: int) -> None:
    pairs = profiles * (profiles - 1) // 2
    level = last_level(n, profiles)
    effect = power.standard_effect(n, pairs, level, jointly=True)
    values = np.random.default_rng(7).standard_normal((1000, profiles, n)) / math.sqrt(2)
    values[:, 0] += effect
    found = adjusted_of_many(differences(values))[:, : profiles - 1] <= level
    assert float(found.mean()) == pytest.approx(0.8, abs=0.04)
    assert effect < power.standard_effect(n, 1, 2 / 2**n)  # that all blocks agree


def test_planned_blocks_find_the_resolution_at_the_last_look() -> None:
    """With three profiles at the noise that slices assume: the early look costs no promise."""
    n = power.planned_blocks(3, 0.02, 0.05)
    values = 0.02 * np.random.default_rng(8).standard_normal((2000, 3, n))
    values[:, 0] += math.log1p(0.05)
    found = adjusted_of_many(differences(values))[:, :2] <= last_level(n, 3)
    assert n == 8
    assert float(found.mean()) >= 0.8


def test_the_blocks_that_decide_a_pair() -> None:
    far, near = power.decides(3, 0.03, 0.2, 0.05), power.decides(3, 0.03, 0.001, 0.05)
    assert far == power.planned_blocks(3, 0.03 / math.sqrt(2), math.expm1(0.2))
    assert near < 100 < power.planned_blocks(3, 0.03 / math.sqrt(2), math.expm1(0.001))
    assert power.decides(3, 0.03, 0.025, 0.05) > max(far, near)
    for pairs, scatter in ((1, 0.03), (3, 0.04)):
        n = power.decides(pairs, scatter, 0.0, 0.05)
        for blocks, enough in ((n, True), (n - 1, False)):
            rows = scatter * np.random.default_rng(9).standard_normal((4000, blocks))
            low, high = intervals(rows, 2 * 0.05 / pairs)
            proven = np.maximum(np.abs(low), np.abs(high)) <= math.log1p(0.05)
            assert (float(proven.mean()) >= 0.78) == enough
    assert power.decides(1, 0.03, 0.0, 0.005) > 60
    assert power.decides(1, 1.0, 0.0, 1e-9) == 0


def test_dependence_is_seen_over_all_profiles_and_seldom_where_there_is_none() -> None:
    rng = np.random.default_rng(10)

    def told(rho: float, runs: int) -> float:
        noise = rng.standard_normal((runs, 4, 14))
        for block in range(1, 14):
            noise[:, :, block] *= math.sqrt(1 - rho**2)
            noise[:, :, block] += rho * noise[:, :, block - 1]
        found = [dependence_together([one]) for one in noise]
        return float(np.mean([one is not None and one[1] <= 0.05 for one in found]))

    assert told(0.0, 200) <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 200)
    assert told(0.7, 60) >= 0.85
    assert dependence_together([]) is None
    assert dependence_together([rng.standard_normal((3, 4))]) is None
    assert dependence_together([np.ones((3, 9))]) is None
