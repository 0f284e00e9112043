"""How many blocks a difference needs, against the definition of power."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from cnibench.errors import UsageError
from cnibench.stats import power

NORMAL_EFFECT = 1.9599639845400545 + 0.8416212335729143  # two-sided 5 %, power 0.8


def test_the_least_number_of_blocks() -> None:
    assert [power.least_blocks(pairs) for pairs in (0, 1, 3, 15, 105)] == [6, 6, 7, 10, 13]
    assert power.least_blocks(1, 0.5) == 2
    assert power.least_blocks(1, 2.0) == 1
    assert power.least_blocks(1, 0.0625) == 5  # exactly 2/2^5


@pytest.mark.parametrize(("n", "pairs"), [(6, 1), (12, 1), (12, 6), (60, 1)])
def test_the_standard_effect_is_found_with_its_power(n: int, pairs: int) -> None:
    effect = power.standard_effect(n, pairs)
    assert power._power(n, 0.05 / pairs, effect) >= 0.8
    assert power._power(n, 0.05 / pairs, effect * 0.985) < 0.8


@pytest.mark.parametrize("pairs", [1, 6])
def test_the_standard_effect_grows_with_the_power(pairs: int) -> None:
    assert power.standard_effect(12, pairs, 0.05, 0.5) < power.standard_effect(12, pairs)
    assert power.standard_effect(power.least_blocks(pairs) - 1, pairs) == math.inf
    assert math.isfinite(power.standard_effect(power.least_blocks(pairs), pairs))


def test_a_power_or_a_level_that_is_met_exactly_is_enough() -> None:
    assert power._power(6, 2 / 64, 100.0) == 1.0  # p is 2/64 when all six blocks say the same
    share = power._power(6, 0.05, 2.0)  # 2 is the first effect that the search tries
    assert power.standard_effect(6, 1, 0.05, share) <= 2.0
    effect = math.log1p(0.03) / (0.02 * math.sqrt(2))
    assert power.planned_blocks(1, 0.02, 0.03, power=power._power(10, 0.05, effect)) == 10


def test_an_effect_that_no_test_of_that_level_can_find_is_infinite() -> None:
    assert power.least_blocks(1, 0.01) == 8
    assert power.standard_effect(7, 1, 0.01) == math.inf
    assert power.standard_effect(8, 1, 0.01) < math.inf


def test_beyond_60_blocks_the_effect_is_the_asymptotic_one() -> None:
    assert power.standard_effect(61, 1) == pytest.approx(
        NORMAL_EFFECT / math.sqrt(61 * 3 / math.pi)
    )
    assert power.standard_effect(400, 0) == pytest.approx(
        NORMAL_EFFECT / math.sqrt(400 * 3 / math.pi)
    )
    five = stats.norm.ppf(1 - 0.01 / 10) + stats.norm.ppf(0.9)
    assert power.standard_effect(100, 5, 0.01, 0.9) == pytest.approx(
        five / math.sqrt(100 * 3 / math.pi)
    )


def test_about_and_detectable_turn_each_other_round() -> None:
    assert power.about(1, 0.1, 0.05) == math.ceil(
        (NORMAL_EFFECT * 0.1 / math.log(1.05)) ** 2 * math.pi / 3
    )
    assert power.about(2, 0.1, 0.05) > power.about(1, 0.1, 0.05) == power.about(0, 0.1, 0.05)
    assert power.about(3, 0.0, 0.05) == power.least_blocks(3)
    assert power.about(3, 0.0, 0.05, alpha=0.01) == power.least_blocks(3, 0.01)
    assert [power.about(1, 0.1, 0.0), power.about(1, -0.1, 0.1), power.about(1, math.nan, 0.1)] == [
        0
    ] * 3
    assert power.detectable(100, 1, 0.1) == pytest.approx(
        math.expm1(0.1 * NORMAL_EFFECT / math.sqrt(100 * 3 / math.pi))
    )
    assert power.detectable(5, 1, 0.1) == math.inf
    assert power.detectable(100, 1, 1e9) == math.expm1(700.0)
    assert power.detectable(100, 1, 0.1, 0.01) > power.detectable(100, 1, 0.1)
    assert power.detectable(100, 1, 0.1, 0.05, 0.9) > power.detectable(100, 1, 0.1)


def test_planned_blocks_are_the_fewest_that_find_the_difference() -> None:
    for pairs, noise, resolution in ((1, 0.02, 0.05), (6, 0.02, 0.05), (1, 0.05, 0.05)):
        n = power.planned_blocks(pairs, noise, resolution)
        effect = math.log1p(resolution) / (noise * math.sqrt(2))
        assert power._finds(n, 0.05 / pairs, effect, 0.8)
        assert n == power.least_blocks(pairs) or not power._finds(n - 1, 0.05 / pairs, effect, 0.8)
    # Between 61 blocks of the approximation and 60 of the simulation.
    assert power.planned_blocks(1, 0.02, 0.01218, power=0.9) == 60
    for resolution in (0.02, 0.002):
        assert power.planned_blocks(1, 0.1, resolution) == math.ceil(
            (NORMAL_EFFECT * 0.1 * math.sqrt(2) / math.log(1 + resolution)) ** 2 * math.pi / 3
        )
    assert power.planned_blocks(3, 0.0, 0.05) == 7
    assert power.planned_blocks(1, 0.0, 0.05, alpha=0.01) == 8
    for noise, resolution in ((0.1, 0.0), (0.1, math.inf), (-0.1, 0.1), (math.inf, 0.1), (1, 1e-4)):
        with pytest.raises(UsageError):
            power.planned_blocks(1, noise, resolution)
