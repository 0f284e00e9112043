"""Level and power of a run that may end at any of its looks, and what its scatter says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cnibench.planning.blocks import wished_blocks
from cnibench.stats import power
from cnibench.stats.diagnostics import dependence_together
from cnibench.stats.inference import signed_rank
from cnibench.stats.joint import different, less
from cnibench.stats.looks import looks
from cnibench.stats.scale import scale
from tests.unit.test_joint import differences


@pytest.mark.parametrize(("profiles", "most"), [(2, 14), (3, 8), (4, 10)])
def test_no_more_than_the_level_is_false_at_any_look(profiles: int, most: int) -> None:
    """Whatever makes a look the last one: a false difference at any of them counts, and so does a
    false proof of equality of profiles that differ by 5 % and more.
    """
    rng = np.random.default_rng(profiles)
    noise = 0.02 * rng.standard_t(3, (500, profiles, most))
    limit = math.log1p(0.05)
    apart = differences(noise + (np.arange(profiles) * limit)[:, None])
    alike = differences(noise)
    false = equal = np.zeros(500, dtype=bool)
    planned = looks(most)
    for number, look in enumerate(planned):
        before, early = planned[:number], look < most
        false = false | (different(alike[:, :, :look], before, early=early) <= 0.05).any(axis=1)
        p = less(apart[:, :, :look], before, bound=limit, early=early)
        equal = equal | (p <= 0.05).any(axis=1)
    margin = 2.6 * math.sqrt(0.05 * 0.95 / 500)
    assert float(false.mean()) <= 0.05 + margin
    assert float(equal.mean()) <= 0.05 + margin


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
    effect = power.standard_effect(n, pairs, jointly=True)
    values = np.random.default_rng(7).standard_normal((1000, profiles, n)) / math.sqrt(2)
    values[:, 0] += effect
    found = different(differences(values))[:, : profiles - 1] <= 0.05
    assert float(found.mean()) == pytest.approx(0.8, abs=0.04)
    assert effect < power.standard_effect(n, 1, 2 / 2**n)  # that all blocks agree


def test_planned_blocks_find_the_resolution_at_the_last_look() -> None:
    """With three profiles at the noise that slices assume: the early looks cost no promise."""
    n = power.planned_blocks(3, 0.02, 0.05)
    values = 0.02 * np.random.default_rng(8).standard_normal((2000, 3, n))
    values[:, 0] += math.log1p(0.05)
    found = different(differences(values), looks(n)[:-1])[:, :2] <= 0.05
    assert n == 8
    assert float(found.mean()) >= 0.8


def test_the_scale_of_few_normal_values_is_right_on_average() -> None:
    rng = np.random.default_rng(13)
    for n in (*range(2, 33), 40):
        assert scale(rng.standard_normal((8000, n))).mean() == pytest.approx(1.0, abs=0.03), n


def test_what_so_many_values_exclude_is_seldom_there() -> None:
    """At a correlation of 0.3 it is excluded in about one run of ten (the standard error is that of
    independent blocks), where there is none in nearly every long one.
    """
    rng = np.random.default_rng(11)

    def excluded(rho: float, profiles: int, blocks: int) -> float:
        noise = rng.standard_normal((300, profiles, blocks))
        for block in range(1, blocks):
            noise[:, :, block] *= math.sqrt(1 - rho**2)
            noise[:, :, block] += rho * noise[:, :, block - 1]
        found = [dependence_together([one]) for one in noise]
        return float(np.mean([one is not None and one.excluded for one in found]))

    assert excluded(0.3, 8, 22) <= 0.1
    assert excluded(0.3, 16, 9) <= 0.15
    assert excluded(0.0, 8, 22) >= 0.9
    assert excluded(0.0, 2, 6) <= 0.2


@pytest.mark.parametrize("noise", [0.02, 0.035, 0.06])
@pytest.mark.parametrize("resolution", [0.03, 0.05])
def test_two_profiles_are_told_apart_with_the_power_that_is_said(
    noise: float, resolution: float
) -> None:
    """2000 simulated runs that end at their looks: at least 80 % find the resolution at any of
    them, and at most 5 % find what is not there.
    """
    n = wished_blocks(1, noise, resolution)
    planned_looks = looks(n)
    rng = np.random.default_rng(n)
    rows = noise * math.sqrt(2) * rng.standard_normal((2000, n))
    for shift, least, most in ((math.log1p(resolution), 0.8, 0.93), (0.0, 0.0, 0.05)):
        found = np.zeros(2000, bool)
        for number, blocks in enumerate(planned_looks):
            shifted = rows[:, None, :blocks] + shift
            p = different(shifted, planned_looks[:number], early=blocks < n)[:, 0]
            found |= p <= 0.05
        margin = 2.6 * math.sqrt(0.16 / 2000)
        assert least - margin <= float(found.mean()) <= most + margin
