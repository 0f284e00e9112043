"""When a run may end because all is decided, and at which level; all looks together keep it."""

from __future__ import annotations

import math

import numpy as np

from cnibench.stats import power
from cnibench.stats.diagnostics import dependence_together
from cnibench.stats.inference import intervals
from cnibench.stats.looks import Look, left, look_after, looks


def test_the_looks_of_a_run() -> None:
    assert looks(6) == (6,)
    assert looks(7) == (7,)  # a look that saves one block is in nobody's interest
    assert looks(9) == (6, 9)
    assert looks(14) == (6, 8, 10, 14)
    assert looks(30) == (6, 8, 10, 13, 17, 22, 28, 30)
    for most in range(1, 1000):
        planned = looks(most)
        assert planned[-1] == most
        assert list(planned) == sorted(set(planned))
        assert 0.01 <= left(most) <= 0.05


def test_a_run_that_ends_between_looks_is_at_its_last_one() -> None:
    assert look_after(5, 14, 0.05) == Look((), False, 0.05)
    assert look_after(6, 14, 0.05) == Look((), True, 0.05)
    assert look_after(9, 14, 0.05) == Look((6, 8), False, 0.05)
    assert look_after(14, 14, 0.02) == Look((6, 8, 10), False, 0.02)


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


def test_dependence_takes_blocks_of_two_profiles_that_vary() -> None:
    rng = np.random.default_rng(12)
    assert dependence_together([]) is None
    assert dependence_together([rng.standard_normal((3, 4))]) is None
    assert dependence_together([np.ones((3, 9))]) is None
