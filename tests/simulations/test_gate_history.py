"""A candidate at the gate's threshold, at every look of a history: how often it passes."""

from __future__ import annotations

import numpy as np
import pytest

from cnibench.analysis.gate.noninferiority import LEVEL, by_runs, homogeneity, margin
from cnibench.stats.inference import signed_rank
from cnibench.stats.spending import level_of_look


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_runs_that_differ_let_no_more_pass(share: float) -> None:
    """A candidate at the threshold whose runs scatter by half as much as blocks, or as much: 2.5 %
    pass at any of six looks, while the blocks alone would let 11 to 30 % pass.
    """
    rng, passed = np.random.default_rng(8), {"blocks": 0, "history": 0}
    for _ in range(300):
        between = share * rng.standard_normal((6, 1))
        rows = margin("higher", 0.05) + 0.04 * (between + rng.standard_normal((6, 13)))
        ever = dict.fromkeys(passed, False)
        for look in range(1, 7):
            level, known = level_of_look(look, LEVEL), list(rows[:look])
            ever["blocks"] |= by_runs(known, "higher", 0.05, level).p_within <= level
            found = by_runs(known, "higher", 0.05, level, (), homogeneity([known]), across=True)
            ever["history"] |= found.p_within <= level
        for rule, one in ever.items():
            passed[rule] += one
    # 300 * 2.5 % = 7.5; 15 or more of them have a chance of 1 %
    assert passed["history"] < 15 < 30 < passed["blocks"]


def test_a_candidate_at_the_threshold_hardly_ever_passes_at_any_look() -> None:
    """Twelve looks of 8 blocks each at the edge: at most 2.5 % pass at any of them, while 2.5 % at
    each look lets far more pass.
    """
    noise = 0.03 * np.random.default_rng(2).standard_normal((400, 12 * 8))
    passed = {"each": np.zeros(400, dtype=bool), "spending": np.zeros(400, dtype=bool)}
    for look in range(1, 13):
        p = signed_rank(noise[:, : 8 * look], interval=False).upper
        passed["each"] |= p <= LEVEL
        passed["spending"] |= p <= level_of_look(look, LEVEL)
    # 400 * 2.5 % = 10; 19 or more of them have a chance of 1 %
    assert passed["spending"].sum() < 19 < passed["each"].sum()
