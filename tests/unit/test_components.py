"""Components of variance: of simulated designs whose components are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.stats.components import Component, Components, nested
from cnibench.stats.robust import error, trimmed

Error = tuple[float, float]


def simulated(
    rng: np.random.Generator, shape: tuple[int, int, int], sds: tuple[float, float, float]
) -> tuple[list[list[float]], list[Error]]:
    """Deployments x blocks x slices: the blocks' trimmed means with their errors."""
    deployments, blocks, slices = shape
    values = (
        sds[0] * rng.standard_normal((deployments, 1, 1))
        + sds[1] * rng.standard_normal((deployments, blocks, 1))
        + sds[2] * rng.standard_normal(shape)
    )
    means = [[trimmed(list(block)) for block in one] for one in values]
    return (
        [[mean for mean, _ in one] for one in means],
        [error(half, slices) for one in means for _, half in one],
    )


@pytest.mark.parametrize(
    ("shape", "sds"),
    [
        ((60, 2, 12), (0.01, 0.01, 0.03)),
        ((12, 3, 12), (0.02, 0.01, 0.03)),
        ((60, 2, 12), (0.0, 0.01, 0.03)),
        ((20, 6, 8), (0.01, 0.0, 0.02)),
    ],
)
def test_the_components_that_made_the_values_are_found(
    shape: tuple[int, int, int], sds: tuple[float, float, float]
) -> None:
    """On average over 80 designs."""
    rng = np.random.default_rng(3)
    found = [nested(*simulated(rng, shape, sds)) for _ in range(80)]
    for sd, parts in (
        (sds[0], [one.deployments for one in found]),
        (sds[1], [one.blocks for one in found]),
    ):
        known = [part for part in parts if part is not None]
        assert len(known) == 80
        variances = np.array([part.variance for part in known])
        if sd:
            margin = 4 * variances.std() / math.sqrt(80)
            assert float(variances.mean()) == pytest.approx(sd**2, abs=margin)
        else:  # estimates below 0 are 0
            assert float(np.median(variances)) <= variances.max() / 2
            assert all(part.low <= part.variance <= part.high for part in known)
    added = math.sqrt(np.mean([one.slices.variance for one in found if one.slices]))
    assert added == pytest.approx(sds[2] / math.sqrt(shape[2]), rel=0.1)


@pytest.mark.parametrize(
    ("shape", "sds"),
    [
        ((60, 2), (0.01, 0.0133)),
        ((6, 6), (0.01, 0.01)),
        ((20, 2), (0.002, 0.01)),
        ((3, 2), (0.01, 0.01)),
    ],
)
def test_the_interval_of_deployments_has_its_component(
    shape: tuple[int, int], sds: tuple[float, float]
) -> None:
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(600):
        values = sds[0] * rng.standard_normal((shape[0], 1)) + sds[1] * rng.standard_normal(shape)
        part = nested(values.tolist()).deployments
        assert part is not None
        covered.append(part.low <= sds[0] ** 2 <= part.high)
    assert float(np.mean(covered)) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 600)


def test_without_slices_the_estimates_are_those_of_the_textbook() -> None:
    """Mean squares by hand: 4.5 between three deployments of two blocks, 0.5 within."""
    found = nested([[1.0, 2.0], [2.0, 3.0], [4.0, 5.0]])
    means = [1.5, 2.5, 4.5]
    between = 2 * sum((one - np.mean(means)) ** 2 for one in means) / 2
    assert found.slices is None
    assert found.blocks is not None
    assert found.blocks.variance == pytest.approx(0.5)
    assert found.blocks.low == pytest.approx(3 * 0.5 / 9.348403604, rel=1e-6)  # chi-square, 3 df
    assert found.blocks.high == pytest.approx(3 * 0.5 / 0.215795283, rel=1e-6)
    assert found.deployments is not None
    assert found.deployments.variance == pytest.approx((between - 0.5) / 2)


def test_an_estimate_below_zero_is_zero_with_an_upper_limit() -> None:
    found = nested([[1.0, -1.0], [1.1, -1.1], [0.9, -0.9], [1.0, -1.0]])
    assert found.deployments is not None
    assert (found.deployments.variance, found.deployments.low) == (0.0, 0.0)
    just_none = nested([[1.0, -1.0], [0.0, 2.0]] * 2)
    noisy = nested([[0.0, 0.1], [0.1, 0.0]], [(1.0, 10)] * 4)
    assert noisy.blocks is not None
    assert (noisy.blocks.variance, noisy.blocks.low) == (0.0, 0.0)
    for part in (found.deployments, noisy.blocks, just_none.deployments):
        assert part is not None
        assert part.high > 0


def test_what_the_design_does_not_tell_is_none() -> None:
    assert nested([]) == Components(None, None, None)
    assert nested([[1.0]]) == Components(None, None, None)
    one = nested([[1.0, 2.0, 4.0]])
    assert one.deployments is None
    assert one.blocks is not None
    single = nested([[1.0], [2.0], [4.0]])
    assert single.deployments is None
    assert single.blocks == one.blocks  # deployments and blocks together
    spoilt = nested([[1.0, 2.0], [2.0, 2.5]], [(math.inf, 0), (math.nan, 7.0)])
    assert spoilt.slices is None


def test_constants_have_no_spread() -> None:
    nothing = Component(0.0, 0.0, 0.0)
    found = nested([[1.0, 1.0], [1.0, 1.0]], [(0.0, 7.0)] * 4)
    assert found == Components(nothing, nothing, nothing)


_sizes = st.lists(st.integers(1, 4), min_size=2, max_size=8)


@given(_sizes, st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-10, 10))
@settings(max_examples=60, deadline=None)
def test_a_shift_changes_nothing_and_a_factor_is_squared(
    sizes: list[int], seed: int, factor: float, shift: float
) -> None:
    """Deployments of different numbers of blocks, in any order."""
    rng = np.random.default_rng(seed)
    groups = [list(rng.standard_normal(size)) for size in sizes]
    errors = [(0.1 * float(rng.random()), 7.0) for _ in range(sum(sizes))]
    plain = nested(groups, errors)
    other = nested(
        [[factor * value + shift for value in one] for one in reversed(groups)],
        [(factor**2 * square, df) for square, df in errors],
    )
    for one, scaled in zip(vars(plain).values(), vars(other).values(), strict=True):
        assert (one is None) == (scaled is None)
        if one is not None:
            assert 0 <= one.low <= one.variance <= one.high
            for name in ("variance", "low", "high"):
                expected = factor**2 * getattr(one, name)
                assert getattr(scaled, name) == pytest.approx(
                    expected, rel=1e-5, abs=1e-7 * factor**2
                )


def test_the_error_of_a_trimmed_mean_is_what_it_scatters_by() -> None:
    rng = np.random.default_rng(2)
    for n in (5, 8, 12, 25):
        rows = [trimmed(list(row)) for row in rng.standard_normal((3000, n))]
        true = float(np.std([mean for mean, _ in rows]))
        said = math.sqrt(np.mean([error(half, n)[0] for _, half in rows]))
        assert said == pytest.approx(true, rel=0.08), n
    assert error(1.0, 1)[1] == 0
