"""Change points of several series: what is found, where, how large, and how often in error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.stats.change_points import FEWEST, LEAST, Change, change_points
from cnibench.stats.diagnostics import dependence_over_time

NAN = np.nan
FINITE = st.floats(-5, 5, allow_subnormal=False)
TABLES = st.integers(1, 3).flatmap(
    lambda k: st.integers(1, 16).flatmap(
        lambda n: st.lists(
            st.lists(st.one_of(FINITE, st.just(NAN)), min_size=n, max_size=n),
            min_size=k,
            max_size=k,
        )
    )
)


def _one(values: list[float]) -> list[Change]:
    (found,) = change_points(np.array([values]))
    return found


def test_a_step_without_noise_is_known() -> None:
    (change,) = _one([0.0] * 4 + [0.05] * 5)
    assert (change.at, change.first <= 4 <= change.last) == (4, True)
    assert [change.size, change.low, change.high] == pytest.approx([0.05] * 3)
    assert change.p <= 0.05


def test_constants_and_few_values_have_none() -> None:
    assert _one([1.0] * 20) == []
    assert _one([1.0, 1.0 + 1e-13] * 10) == [], "rounding"
    assert _one([0.0] * 3 + [1.0] * 4) == [], "seven values"
    assert change_points(np.full((2, 30), NAN)) == [[], []]
    assert change_points(np.empty((0, 5))) == []


def test_so_many_values_are_needed() -> None:
    """Fewer are not tested: the best that 7 values can say is seldom significant."""
    half = FEWEST // 2
    assert _one([0.0] * half + [1.0] * half)


@pytest.mark.parametrize("place", [0, 12, 29])
def test_an_outlier_is_no_level(place: int) -> None:
    """However large: in any order of the values it is in some stretch."""
    rng = np.random.default_rng(1)
    values = 0.01 * rng.standard_normal(30)
    values[place] += 10.0
    assert _one(values.tolist()) == []


def test_missing_values_do_not_count() -> None:
    """Positions are those of the values that are there."""
    values = [0.0, NAN, 0.0, 0.0, NAN, 0.0, 0.0, 1.0, 1.0, NAN, 1.0, 1.0, 1.0]
    (change,) = _one(values)
    assert change.at == 5


def test_a_level_that_comes_back_is_found() -> None:
    rng = np.random.default_rng(2)
    table = 0.02 * rng.standard_normal((4, 30))
    table[1, 10:20] += 0.08
    found = change_points(table)
    assert [change.at for change in found[1]] == pytest.approx([10, 20], abs=1)
    assert [np.sign(change.size) for change in found[1]] == [1, -1]
    assert [len(one) for one in found] == [0, 2, 0, 0]


def test_three_levels() -> None:
    rng = np.random.default_rng(3)
    values = 0.01 * rng.standard_normal(45) + np.repeat([0.0, 0.1, 0.3], 15)
    assert [change.at for change in _one(values.tolist())] == [15, 30]


@settings(max_examples=40, deadline=None)
@given(TABLES)
def test_what_holds_for_any_table(table: list[list[float]]) -> None:
    rows = np.array(table)
    found = change_points(rows)
    assert len(found) == len(rows)
    for row, changes in zip(rows, found, strict=True):
        n = int((~np.isnan(row)).sum())
        at = [0, *(change.at for change in changes), n]
        assert not changes or min(np.diff(at)) >= LEAST
        for change in changes:
            assert LEAST <= change.first <= change.at <= change.last <= n - LEAST
            assert change.low <= change.size <= change.high
            assert 0 < change.p <= 0.05


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.floats(0.01, 100))
def test_shift_and_scale_move_no_change_point(seed: int, shift: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(14) + np.repeat([0.0, 3.0], 7)
    plain, moved = _one(values.tolist()), _one((shift + scale * values).tolist())
    assert [change.at for change in plain] == [change.at for change in moved]
    assert [scale * change.size for change in plain] == pytest.approx(
        [change.size for change in moved], rel=1e-6, abs=1e-9
    )


def test_dependence_of_neighbouring_runs_is_seen_and_no_other() -> None:
    """A level that was missed, or values that are gone, are no dependence."""
    rng = np.random.default_rng(7)
    free = rng.standard_normal((6, 30))
    tied = free.copy()
    for i in range(1, 30):
        tied[:, i] = 0.5 * tied[:, i - 1] + free[:, i]
    free[1, 4:9] = NAN
    seen, chance = dependence_over_time(tied), dependence_over_time(free)
    assert seen is not None
    assert chance is not None
    assert (seen[0], seen[1] < 0.01) == (pytest.approx(0.5, abs=0.15), True)
    assert (chance[0], chance[1] > 0.05) == (pytest.approx(0.0, abs=0.15), True)
    free[:, 20:] += 3.0
    stepped = dependence_over_time(free)
    assert stepped is not None
    assert abs(stepped[0]) < 0.35
    assert dependence_over_time(np.ones((2, 30))) is None
    assert dependence_over_time(free[:, :7]) is None


def test_the_same_table_gives_the_same_answer() -> None:
    table = np.random.default_rng(6).standard_normal((3, 20))
    table[0, 12:] += 3
    assert change_points(table) == change_points(table)
