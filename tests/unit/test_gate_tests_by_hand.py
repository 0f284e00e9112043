"""The tests behind the gate against scipy and cases that were worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cnibench.analysis.gate import failure_rates, noninferiority
from cnibench.analysis.gate.failure_rates import Tally, more_often


def _tally(blocks: range, failed: set[int], reason: str = "") -> Tally:
    return Tally(
        frozenset((0, block) for block in blocks), frozenset((0, block) for block in failed), reason
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ((10, 0), (10, 4)),
        ((10, 3), (12, 4)),
        ((5, 5), (7, 1)),
        ((3, 0), (20, 20)),
        ((8, 2), (1, 1)),
    ],
)
def test_unpaired_failures_are_fishers_test(ours: tuple[int, int], theirs: tuple[int, int]) -> None:
    base = _tally(range(ours[0]), set(range(ours[1])))
    candidate = _tally(range(theirs[0]), set(range(theirs[1])))
    found = more_often(base, candidate, paired=False)
    assert found is not None
    table = [[theirs[1], theirs[0] - theirs[1]], [ours[1], ours[0] - ours[1]]]
    assert found.p == pytest.approx(stats.fisher_exact(table, alternative="greater").pvalue)
    assert found.more == (theirs[1] / theirs[0] > ours[1] / ours[0])
    assert found.test == failure_rates.FISHER


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(set(), {0, 1, 2}), ({0, 1}, {1, 2, 3, 4}), ({0, 1, 2}, {3}), ({0}, {1}), ({4, 5}, {4, 5, 6})],
)
def test_paired_failures_are_a_sign_test(ours: set[int], theirs: set[int]) -> None:
    found = more_often(_tally(range(12), ours), _tally(range(12), theirs), paired=True)
    assert found is not None
    above, below = len(theirs - ours), len(ours - theirs)
    wanted = stats.binomtest(above, above + below, 0.5, alternative="greater").pvalue
    assert found.p == pytest.approx(wanted)
    assert found.more == (above > below)
    assert found.test == failure_rates.MCNEMAR


def test_counts_beyond_the_range_of_floats_are_exact() -> None:
    assert failure_rates._sign(1200, 1100) == pytest.approx(stats.binom.sf(1199, 2300, 0.5))


def test_failures_that_decide_nothing_are_not_tested() -> None:
    fine, none = _tally(range(8), set()), _tally(range(0), set())
    for paired in (True, False):
        assert more_often(fine, fine, paired=paired) is None
        assert more_often(none, fine, paired=paired) is None
        assert more_often(fine, none, paired=paired) is None
    both = _tally(range(8), {1, 2})
    assert more_often(both, both, paired=True) is None
    # Failures in blocks that the base did not try: more of them, and nothing to pair them with.
    late = Tally(
        frozenset((0, block) for block in range(10)), frozenset({(0, 8), (0, 9)}), "timeout"
    )
    found = more_often(fine, late, paired=True)
    assert found == failure_rates.Evidence(1.0, True, failure_rates.MCNEMAR)


def _disturbed(blocks: int, disturbed: set[int]) -> Tally:
    """Blocks that were disturbed are not tried."""
    lost = frozenset((0, block) for block in disturbed)
    return Tally(frozenset((0, block) for block in range(blocks)) - lost, disturbed=lost)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(set(), {0, 1, 2, 3, 4, 5}), ({0, 1, 2}, {2, 3}), ({0, 1, 2, 3}, set())]
)
def test_disturbances_are_compared_two_sided(ours: set[int], theirs: set[int]) -> None:
    base, candidate = _disturbed(10, ours), _disturbed(10, theirs)
    found = failure_rates.unequally_disturbed(base, candidate, paired=True)
    assert found is not None
    above, below = len(theirs - ours), len(ours - theirs)
    assert found.p == pytest.approx(stats.binomtest(above, above + below).pvalue)
    assert (found.more, found.test) == (above > below, failure_rates.MCNEMAR)
    # Four more blocks of the candidate: its share counts, not its number.
    candidate = _disturbed(14, theirs)
    found = failure_rates.unequally_disturbed(base, candidate, paired=False)
    assert found is not None
    table = [[len(theirs), 14 - len(theirs)], [len(ours), 10 - len(ours)]]
    tails = [stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
    assert found.p == pytest.approx(min(1.0, 2 * min(tails)))
    assert found.more == (len(theirs) / 14 > len(ours) / 10)
    assert found.test == failure_rates.FISHER


def test_disturbances_of_nothing_are_not_compared() -> None:
    fine, some = _disturbed(8, set()), _disturbed(8, {1})
    for paired in (True, False):
        assert failure_rates.unequally_disturbed(fine, fine, paired=paired) is None
        assert failure_rates.unequally_disturbed(Tally(), some, paired=paired) is None
        assert failure_rates.unequally_disturbed(some, Tally(), paired=paired) is None
        assert failure_rates.unequally_disturbed(fine, some, paired=paired) is not None


@pytest.mark.parametrize(
    ("ours", "theirs", "paired", "told"),
    [
        ({0, 1}, {2, 3}, True, ""),  # half of 8 is enough
        ({0, 1}, {2, 3, 4}, True, "3 of 8 pairs"),
        ({0, 1, 2, 3}, {0, 1, 2, 3}, True, ""),
        ({0, 1, 2, 3}, {4, 5, 6, 7}, False, ""),
        ({0, 1, 2, 3, 4}, set(), False, "3 of 8 blocks of the base"),
        (set(), {0, 1, 2, 3, 4}, False, "3 of 8 blocks of the candidate"),
    ],
)
def test_at_least_half_of_the_blocks_are_left(
    ours: set[int], theirs: set[int], paired: bool, told: str
) -> None:
    found = failure_rates.few_left(_disturbed(8, ours), _disturbed(8, theirs), paired=paired)
    assert told in found
    assert bool(found) == bool(told)


def test_tallies_of_runs_are_put_together() -> None:
    one, other = _tally(range(4), {1}, "first"), _tally(range(2, 8), {5, 6}, "second")
    assert one.rate == 0.25
    assert Tally().rate == 0.0
    both = one | other
    assert (len(both.tried), len(both.failed), both.reason) == (8, 3, "first")
    assert (Tally() | other).reason == "second"
    lost = _disturbed(4, {0}) | _disturbed(4, {3})
    assert lost.disturbed == {(0, 0), (0, 3)}
    moved = Tally(one.tried, one.failed, "first", frozenset({(0, 9)})).of_run(3)
    assert moved.tried == {(3, block) for block in range(4)}
    assert (moved.failed, moved.disturbed, moved.reason) == ({(3, 1)}, {(3, 9)}, "first")


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_paired_blocks_are_the_signed_rank_test(better: str) -> None:
    rng = np.random.default_rng(8)
    base = {(0, block): float(value) for block, value in enumerate(rng.lognormal(2, 0.02, 9))}
    candidate = {key: value * rng.lognormal(-0.02, 0.02) for key, value in base.items()}
    candidate[0, 99] = base[0, 98] = 1e9  # in one of them only
    found = noninferiority.paired(base, candidate, better, 0.05)
    assert found is not None
    both = sorted(base.keys() & candidate.keys())
    logs = np.array([math.log(candidate[key] / base[key]) for key in both])
    edge = math.log(0.95) if better == "higher" else math.log(1.05)
    above, below = (
        stats.wilcoxon(logs - edge, alternative=side, method="exact").pvalue
        for side in ("greater", "less")
    )
    within, worse = (above, below) if better == "higher" else (below, above)
    assert (found.p_within, found.p_worse) == pytest.approx((within, worse))
    walsh = np.sort([(a + b) / 2 for i, a in enumerate(logs) for b in logs[i:]])
    # 9 blocks: 2 * P(W <= 5) = 0.0391, so that the interval begins at the sixth average.
    assert (found.ratio, found.low, found.high) == pytest.approx(
        tuple(np.exp([np.median(walsh), walsh[5], walsh[-6]]))
    )
    assert (found.n, found.short) == (9, "")


def test_few_pairs_say_so_and_none_are_no_test() -> None:
    five = {(0, block): 2.0 + block for block in range(5)}
    found = noninferiority.paired(five, five, "higher", 0.05)
    assert found is not None
    assert "5 paired blocks" in found.short
    assert (found.n, found.ratio) == (5, 1.0)
    six = {(0, block): 2.0 + block for block in range(6)}
    assert noninferiority.paired(six, six, "higher", 0.05).short == ""  # type: ignore[union-attr]
    assert noninferiority.paired(five, {(1, 0): 1.0}, "higher", 0.05) is None
    for value in (0.0, -1.0):
        assert noninferiority.paired(five, five | {(0, 2): value}, "higher", 0.05) is None
        assert noninferiority.paired(five | {(0, 2): value}, five, "higher", 0.05) is None


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_unpaired_runs_are_students_test(better: str) -> None:
    rng = np.random.default_rng(4)
    base = [rng.lognormal(3, 0.05, 6) for _ in range(4)]
    candidate = [rng.lognormal(3.02, 0.05, 6) for _ in range(2)]
    found = noninferiority.unpaired(base, candidate, better, 0.1)
    assert found is not None
    ours = np.array([np.log(run).mean() for run in base])
    theirs = np.array([np.log(run).mean() for run in candidate])
    gap = theirs.mean() - ours.mean()
    error = ours.std(ddof=1) * math.sqrt(1 / 4 + 1 / 2)
    reach = stats.t.ppf(0.975, 3) * error
    assert (found.ratio, found.low, found.high) == pytest.approx(
        (math.exp(gap), math.exp(gap - reach), math.exp(gap + reach))
    )
    # At most 10 % worse: 0.9 times as much, or 1.1 times as long.
    edge = math.log(0.9) if better == "higher" else math.log(1.1)
    above = stats.t.sf((gap - edge) / error, 3)
    within, worse = (above, 1 - above) if better == "higher" else (1 - above, above)
    assert (found.p_within, found.p_worse) == pytest.approx((within, worse))
    assert (found.n, found.short) == (4, "")


def test_fewer_than_three_base_runs_decide_nothing() -> None:
    run = np.array([1.0, 2.0, 4.0])
    found = noninferiority.unpaired([run, run], [2 * run], "higher", 0.05)
    assert found is not None
    assert (found.p_within, found.p_worse, found.n) == (1.0, 1.0, 2)
    assert found.ratio == pytest.approx(2.0)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert found.short
    assert noninferiority.unpaired([run] * 3, [run], "higher", 0.05).short == ""  # type: ignore[union-attr]
    for bad in ([], [np.array([])], [np.array([1.0, 0.0])]):
        assert noninferiority.unpaired(bad, [run], "higher", 0.05) is None
        assert noninferiority.unpaired([run], bad, "higher", 0.05) is None


@pytest.mark.parametrize(
    ("better", "base", "candidate", "worse", "ratio"),
    [
        ("lower", 100.0, 105.0, False, 1.05),
        ("lower", 100.0, 106.0, True, 1.06),
        ("lower", 0.0, 1.0, True, math.inf),
        ("lower", 0.0, 0.0, False, 1.0),
        ("higher", 100.0, 95.0, False, 0.95),
        ("higher", 100.0, 94.0, True, 0.94),
        ("higher", 100.0, 300.0, False, 3.0),
    ],
)
def test_counts_need_no_test(
    better: str, base: float, candidate: float, worse: bool, ratio: float
) -> None:
    ours = [{(0, 0): base, (0, 1): base}, {(1, 0): base}]
    theirs = [{(0, 0): candidate, (0, 1): candidate, (0, 2): candidate}]
    found = noninferiority.counted(ours, theirs, better, 0.05)
    assert found is not None
    assert (found.p_within, found.p_worse) == (float(worse), float(not worse))
    assert (found.ratio, found.low, found.high) == pytest.approx((ratio,) * 3)
    assert (found.n, found.short) == (2, "")
    mixed = [{(0, 0): base, (0, 1): base + 1}]
    assert noninferiority.counted(mixed, theirs, better, 0.05) is None
    assert noninferiority.counted(ours, mixed, better, 0.05) is None
