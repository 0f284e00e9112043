"""Turning points out of synthetic sweeps whose truth is known, and how a report says them."""

from __future__ import annotations

import math
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.analysis.comparison.turning_points import Curve, judge, turning_points
from cnibench.analysis.model import Result
from cnibench.reports.document.turning import turning_words
from cnibench.stats.inference import signed_rank, walsh_averages, walsh_needed, walsh_p

VALUES = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0)


def results(
    labels: dict[str, float], *, blocks: int = 10, noise: float = 0.01, better: str = "higher"
) -> list[Result]:
    """A level of 1e9 (a's is 10 % above) that each entry lowers by a label's share."""
    rng = np.random.default_rng(3)
    found = []
    for value in VALUES:
        common = 0.05 * rng.standard_normal(blocks)
        for label, slope in labels.items():
            level = 1e9 * (1.1 if label == "a" else 1.0) * math.exp(-slope * value)
            values = level * np.exp(common + noise * rng.standard_normal(blocks))
            series = values if better == "higher" else 1 / values
            found.append(
                Result(
                    placement="inter",
                    path="pod",
                    workload="iperf3-tcp",
                    params={"policy.entries": value, "streams": 1},
                    ip=4,
                    mtu=1500,
                    cpus="shared",
                    pair=0,
                    metric="throughput" if better == "higher" else "latency_mean",
                    unit="bit/s",
                    better=better,
                    testbed="lab",
                    wire="veth",
                    wire_offload="none",
                    profile=label,
                    label=label,
                    fidelity="datapath-model",
                    n=blocks,
                    mean=float(series.mean()),
                    median=float(np.median(series)),
                    ci_low=None,
                    ci_high=None,
                    confidence=None,
                    spread=None,
                    blocks=list(range(blocks)),
                    values=series.tolist(),
                )
            )
    return found


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_turning_point_is_found_with_its_interval(better: str) -> None:
    (found,) = turning_points(results({"a": 0.002, "b": 0.0}, better=better))
    assert (found.first, found.then, found.swept, found.verdict) == (
        "a",
        "b",
        "policy.entries",
        "turns",
    )
    assert found.at is not None
    assert found.low is not None
    assert found.high is not None
    truth = math.log(1.1) / 0.002  # 47.7 entries
    assert found.low <= found.at <= found.high
    assert 0.7 * truth < found.low
    assert found.high < 1.4 * truth
    assert found.params == {"streams": 1}
    assert turning_words(found).startswith(f"{found.at:.3g} (")


def test_where_nothing_turns_it_says_up_to_where() -> None:
    (found,) = turning_points(results({"a": 0.0, "b": 0.0}))
    assert (found.first, found.verdict, found.up_to) == ("a", "none", 200.0)
    assert turning_words(found) == "none up to 200"


def test_profiles_that_are_equal_at_first_have_a_value_from_which_on_one_is_better() -> None:
    (turning,) = turning_points(results({"b": 0.0, "c": 0.02}, noise=0.05))
    assert turning.verdict == "inconclusive"
    words = "no significant difference at 0; b is better from (5|10|25) on"
    assert re.fullmatch(words, turning.reason), turning.reason


def test_equal_profiles_have_no_turning_point() -> None:
    (found,) = turning_points(results({"b": 0.0, "c": 0.0}))
    assert found.verdict == "inconclusive"
    assert "no significant difference at 0" in turning_words(found)


def test_too_few_blocks_and_too_few_values_claim_nothing() -> None:
    (found,) = turning_points(results({"a": 0.002, "b": 0.0}, blocks=5))
    assert (found.verdict, found.n) == ("inconclusive", 5)
    few = [
        result for result in results({"a": 0.002, "b": 0.0}) if result.params["policy.entries"] < 5
    ]
    assert turning_points(few) == []


def test_a_missing_block_leaves_the_others_paired() -> None:
    given = results({"a": 0.002, "b": 0.0})
    cut = given[3]
    given[3] = Result(
        **{name: getattr(cut, name) for name in cut.__struct_fields__}
        | {"blocks": cut.blocks[1:], "values": cut.values[1:]}
    )
    (found,) = turning_points(given)
    assert (found.n, found.verdict) == (9, "turns")


def test_values_that_have_no_logarithm_are_inconclusive() -> None:
    table = np.full((8, 3), 0.1)
    table[2, 1] = math.nan
    assert judge([Curve(table, (0.0, 1.0, 2.0))])[0][0] == "inconclusive"


def test_an_outlying_block_leaves_the_figures_finite() -> None:
    """The means of these 12 blocks are above 0 all along, while 11 of them turn: the test and the
    figures are of the same ranks.
    """
    rng = np.random.default_rng(12)
    truth = np.array([0.10, 0.10, 0.08, 0.06, 0.04, 0.02, -0.005, -0.03])
    table = truth + 0.003 * rng.standard_normal((12, len(VALUES)))
    table[5, -3:] += 5.0
    assert (table.mean(axis=0) > 0).all()
    ((verdict, at, low, high, reason),) = judge([Curve(table, VALUES)])
    assert (verdict, reason) == ("turns", "")
    assert at is not None
    assert low is not None
    assert high is not None
    assert 50 < low <= at <= high < 200
    assert 80 < at < 110
    given = results({"a": 0.002, "b": 0.0}, blocks=12)
    for number in range(len(given) // 2 - 2, len(given) // 2):  # a at the two largest values
        spoiled = given[2 * number]
        assert spoiled.label == "a"
        values = [spoiled.values[0] * 1e6, *spoiled.values[1:]]
        given[2 * number] = msgspec.structs.replace(spoiled, values=values)
    (found,) = turning_points(given)
    text = msgspec.json.encode(found).decode()
    assert found.verdict == "turns"
    assert "null" not in text
    assert "inf" not in turning_words(found)


SCALES = [
    (0.0, 1.0, 5.0, 10.0, 200.0),
    (-9.0, -0.5, 0.0, 3.0, 1e9),
    (1e-300, 1e-9, 1.0, 1e300, 1.7e308),
]


@settings(deadline=None, max_examples=200)
@given(
    st.integers(6, 12),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(SCALES),
)
def test_the_three_figures_are_finite_and_in_order_and_agree_with_the_test(
    n: int, seed: int, ties: float, values: tuple[float, ...]
) -> None:
    """Ties, zeros, heavy tails: the first column is pushed above 0 and the last below, so that most
    of these tables turn.
    """
    rng = np.random.default_rng(seed)
    whole = rng.integers(-2, 3, (n, 5)).astype(np.float64)
    table = np.where(rng.random((n, 5)) < ties, whole, rng.standard_t(1, (n, 5)))
    table[:, 0], table[:, -1] = np.abs(table[:, 0]), -np.abs(table[:, -1])
    ((verdict, at, low, high, reason),) = judge([Curve(table, values)])
    if verdict != "turns":
        assert verdict == "inconclusive"
        assert reason
        assert (at, low, high) == (None, None, None)
        return
    assert at is not None
    assert low is not None
    assert high is not None
    assert values[0] <= low <= at <= high <= values[-1]
    # At the swept values themselves the test can be asked: outside the interval it tells the two
    # apart.
    found = signed_rank(table.T)
    for column, value in enumerate(values):
        if value < low:
            assert found.low[column] > 0
        if value > high:
            assert found.high[column] < 0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_between_two_values_the_interval_is_the_test_turned_round(seed: int) -> None:
    """A dense grid of the interpolated rows, each tested by itself, finds the same interval and the
    same point.
    """
    scale = np.linspace(0.0, 2.0, 3)
    values = np.expm1(scale)
    table = np.array([1.5, 0.3, -1.5]) + 0.4 * np.random.default_rng(seed).standard_normal((9, 3))
    ((verdict, at, low, high, _reason),) = judge([Curve(table, values.tolist())])
    if verdict != "turns":
        return
    assert at is not None
    assert low is not None
    assert high is not None
    grid = np.linspace(0.0, 2.0, 2001)
    found = signed_rank(np.array([np.interp(grid, scale, row) for row in table]).T)
    told = (found.low > 0) | (found.high < 0)
    assert math.log1p(low) == pytest.approx(grid[~told][0], abs=0.0011)
    assert math.log1p(high) == pytest.approx(grid[~told][-1], abs=0.0011)
    assert abs(np.interp(math.log1p(at), grid, found.centre)) < 0.1


def test_a_dip_between_the_ends_is_not_called_none() -> None:
    rng = np.random.default_rng(4)
    noise = 0.01 * rng.standard_normal((10, 4))
    values = (0.0, 10.0, 100.0, 200.0)
    near, twice, apart = (
        np.array(centre) + noise
        for centre in ([0.1, 0.001, 0.05, 0.1], [0.1, -0.1, -0.1, 0.1], [0.1, 0.05, 0.05, 0.1])
    )
    assert judge([Curve(apart, values)])[0][0] == "none"
    verdict, at, _, _, reason = judge([Curve(near, values)])[0]
    assert (verdict, at) == ("inconclusive", None)
    assert reason.startswith("better at both ends, not proven so at ")
    assert judge([Curve(twice, values)])[0][0] == "inconclusive"


def test_holm_is_over_the_pairs_of_the_sweep() -> None:
    """Of 7 blocks one, the smallest, is the other way round at the end: p = 4 / 2^7 = 0.031, enough
    for one pair and not for two.
    """
    values = (0.0, 10.0, 200.0)
    table = np.linspace(0.10, 0.16, 7)[:, None] * np.array([1.0, 0.5, -1.0])
    table[0, -1] *= -0.5
    curve = Curve(table, values)
    assert signed_rank(table[:, -1]).p[0] == pytest.approx(4 / 2**7)
    assert judge([curve])[0][0] == "turns"
    for verdict, _, _, _, reason in judge([curve, curve]):
        assert (verdict, reason) == ("inconclusive", "no significant difference at 200")
    clear = Curve(np.linspace(0.10, 0.16, 7)[:, None] * np.array([1.0, 0.5, -1.0]), values)
    assert [said[0] for said in judge([clear, curve])] == [
        "turns",
        "turns",
    ]  # 2 / 2^7 doubled, then 4 / 2^7: a step down each
    few = judge([clear] * 10)[0]
    assert (few[0], few[4]) == (
        "inconclusive",
        "7 blocks cannot decide among 10 pairs, at least 9 are needed",
    )
    assert judge([clear], level=0.0125)[0][0] == "inconclusive"


def test_profiles_without_noise_turn_at_one_point() -> None:
    table = np.tile([0.3, 0.1, -0.1, -0.7], (6, 1))
    ((verdict, at, low, high, _),) = judge([Curve(table, (0.0, 10.0, 100.0, 200.0))])
    assert verdict == "turns"
    assert low == at == high
    assert at == pytest.approx(math.sqrt(11 * 101) - 1)  # half way on the scale of log(1 + value)


def test_walsh_averages_say_what_the_test_says() -> None:
    table = np.random.default_rng(8).standard_normal((40, 9)) + 0.4
    found, averages = signed_rank(table), walsh_averages(table)
    assert averages.shape == (40, 45)
    fewer = np.minimum((averages < 0).sum(axis=1), (averages > 0).sum(axis=1))
    assert [walsh_p(9, int(count)) for count in fewer] == pytest.approx(found.p.tolist())
    assert np.sort(averages, axis=1)[:, walsh_needed(9) - 1].tolist() == found.low.tolist()
    assert walsh_needed(5) == 0
    many = np.random.default_rng(9).standard_normal((1, 300)) + 0.1
    assert walsh_p(300, int((walsh_averages(many) < 0).sum())) == pytest.approx(
        float(signed_rank(many).p[0]), rel=1e-6
    )
