"""Levels and coverage of tests and intervals, by simulation: how often each is wrong where the
truth is known.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cnibench.analysis.comparison.by_runs import by_runs
from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.comparison.pairs import compare
from cnibench.analysis.comparison.turning_points import Curve, judge
from cnibench.analysis.gate.noninferiority import paired, unpaired
from cnibench.stats.change_points import change_points
from cnibench.stats.inference import Array, intervals
from cnibench.stats.joint import different
from tests.unit.test_by_runs import context
from tests.unit.test_spread import floor_of
from tests.unit.test_turning_points import VALUES


def test_false_alarms_of_a_report_with_many_series() -> None:
    rng = np.random.default_rng(4)
    found = [any(change_points(rng.standard_normal((6, 12)))) for _ in range(250)]
    assert np.mean(found) <= 0.09, "5 % and its error"


def test_a_step_of_two_and_a_half_times_the_noise_is_found() -> None:
    rng = np.random.default_rng(5)
    first = []
    for _ in range(60):
        table = 0.02 * rng.standard_normal((4, 30))
        table[0, 18:] += 0.05
        first += change_points(table)[0][:1]
    assert len(first) >= 54
    assert np.mean([one.first <= 18 <= one.last for one in first]) >= 0.9
    assert np.mean([one.low <= 0.05 <= one.high for one in first]) >= 0.85


def test_the_level_of_false_alarms_holds_whatever_deployments_differ_by(tmp_path: Path) -> None:
    """Blocks of one deployment do not replicate a run that deploys each block."""
    alarms = rounds = 0
    for seed in range(10):
        floor = floor_of(
            tmp_path, deployments=60, kept=3, sds=(0.03, 0.001, 0.003), name=f"{seed}", seed=seed
        )
        alarms, rounds = alarms + floor.alarms, rounds + floor.rounds
    assert rounds == 100
    assert alarms / rounds <= 0.03125 + 3 * math.sqrt(0.03125 * 0.97 / rounds)
    assert np.isfinite(floor.ratio)


def _noisy(
    rng: np.random.Generator, k: int, runs: int, between: float, gap: float = 0.0
) -> Context:
    added = between * rng.standard_normal((k, runs, 1))
    table = 0.01 * (added + rng.standard_normal((k, runs, 12)))
    table[0] += gap
    return context(np.exp(table))


def test_the_level_holds_where_runs_scatter() -> None:
    """Without it, pooled blocks call equal profiles different in most tables."""
    rng = np.random.default_rng(7)
    contexts = [_noisy(rng, 2, 5, 1.0) for _ in range(400)]
    by_blocks, _ = compare(contexts, 0.05)
    pairs, _ = compare([by_runs(one) for one in contexts], 0.05)
    assert sum(pair.verdict in PROVEN for pair in by_blocks) > 0.3 * len(contexts)
    assert sum(pair.verdict in PROVEN for pair in pairs) <= 0.08 * len(contexts)
    assert {(pair.n, pair.replicate, pair.basis) for pair in pairs} == {
        (5, "run", "additive model")
    }


def test_the_interval_covers_where_runs_scatter() -> None:
    rng = np.random.default_rng(8)
    contexts = [by_runs(_noisy(rng, 2, runs, 1.0, 0.05)) for runs in (3, 8) for _ in range(200)]
    pairs, _ = compare(contexts, 0.05)
    ratio = math.exp(0.05)
    assert all(pair.ci_low and pair.ci_high for pair in pairs)
    covered = [pair.ci_low <= ratio <= pair.ci_high for pair in pairs]  # type: ignore[operator]
    assert np.mean(covered[:200]) >= 0.91
    assert np.mean(covered[200:]) >= 0.91


def test_the_gate_lets_a_candidate_at_the_threshold_pass_in_a_fortieth_of_the_cases() -> None:
    """Exactly at the margin the chance of being called within it is at most 2.5 %, block by block
    and across runs.
    """
    rng = np.random.default_rng(8)
    passed = [0, 0]
    for _ in range(1000):
        base = dict(enumerate(np.exp(0.01 * rng.standard_normal(10))))
        candidate = dict(enumerate(0.95 * np.exp(0.01 * rng.standard_normal(10))))
        within = paired(base, candidate, "higher", 0.05)
        runs = [
            np.exp(0.01 * rng.standard_normal() + 0.01 * rng.standard_normal(6)) for _ in range(4)
        ]
        across = unpaired(runs[:3], [0.95 * runs[3]], "higher", 0.05)
        assert within is not None
        assert across is not None
        passed[0] += within.p_within <= 0.025
        passed[1] += across.p_within <= 0.025
    assert max(passed) <= 25 + 2.6 * (1000 * 0.025 * 0.975) ** 0.5


def test_skewed_noise_of_unequal_size_holds_the_level_about_the_centre() -> None:
    """The pseudomedian of the log ratios is what tests and intervals are about; the means, which
    are equal here, are elsewhere.
    """
    rng = np.random.default_rng(9)
    sizes = np.array([0.01, 0.02, 0.03, 0.045])[:, None]
    one, other = np.triu_indices(4, 1)

    def rows(runs: int, blocks: int) -> Array:
        skewed = np.exp(rng.standard_normal((runs, 4, blocks))) - math.exp(0.5)
        values = sizes * skewed / math.sqrt((math.e - 1) * math.e)
        return np.asarray(values[:, one] - values[:, other])

    (many,) = rows(1, 400_000)
    centre = np.median((many[:, ::2] + many[:, 1::2]) / 2, axis=1)
    table = rows(500, 14)
    about = different(table - centre[:, None]) <= 0.05
    assert about.any(axis=1).mean() <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 500)
    low, high = (end.reshape(500, -1) for end in intervals(table.reshape(-1, 14), 0.05))
    assert ((low <= centre) & (centre <= high)).mean() >= 0.935
    assert ((low <= 0) & (high >= 0)).mean() <= 0.92


@pytest.mark.parametrize("noise", ["normal", "heavy"])
def test_the_interval_covers_the_truth_as_often_as_it_says(noise: str) -> None:
    """300 sweeps of 7 blocks: a percentile interval of means would cover the truth in 88 %, this
    one in 95 %. The bound leaves room for the 1.3 % of standard error of 300 sweeps.
    """
    rng = np.random.default_rng(2017)
    truth = 50.0
    scale = np.log1p(np.array(VALUES))
    centre = 0.1 * (math.log1p(truth) - scale)
    covered = turned = 0
    for _ in range(300):
        drawn = (
            rng.standard_normal((7, len(VALUES)))
            if noise == "normal"
            else rng.standard_t(2, (7, len(VALUES)))
        )
        ((verdict, at, low, high, _reason),) = judge([Curve(centre + 0.02 * drawn, VALUES)])
        if verdict == "turns":
            assert at is not None
            assert low is not None
            assert high is not None
            turned += 1
            covered += low <= truth <= high
    assert turned > 250
    assert covered >= 0.93 * turned
