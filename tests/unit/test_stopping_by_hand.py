"""When a run with a target for its intervals stops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cnibench.stats import inference, sequential


def test_looks_are_planned_from_the_numbers_alone() -> None:
    assert sequential.looks(1, 40) == (8, 12, 17, 40)
    assert sequential.looks(1, 17) == (8, 12, 17)
    assert sequential.looks(1, 12) == (8, 12)
    assert sequential.looks(1, 9) == (8, 9)
    assert sequential.looks(1, 8) == (8,)
    assert sequential.looks(1, 3) == (3,)
    assert sequential.looks(3, 100) == (9, 13, 19, 100)
    assert sequential.looks(1, 40, 0.2) == (6, 9, 13, 40)
    assert (sequential.level(), sequential.level(0.2)) == (0.0125, 0.05)


def _logs(n: int, spread: float) -> list[float]:
    return [spread * (1 if i % 2 else -1) * (1 + i / 100) for i in range(n)]


def _width(values: list[float], alpha: float) -> float:
    found = inference.signed_rank(np.array([values]), alpha)
    return math.expm1((found.high[0] - found.low[0]) / 2)


def test_a_run_ends_when_every_interval_is_narrow_enough() -> None:
    narrow, wide = _logs(13, 0.001), _logs(13, 0.004)
    width = _width(wide, 0.0125 / 2)
    found = sequential.decide({"x": narrow, "y": wide}, width, 40)
    assert (found.stop, found.comparison, found.widest) == (True, "y", width)
    assert "13 blocks" in found.reason
    on = sequential.decide({"x": narrow, "y": wide}, width * 0.999, 40)
    assert (on.stop, on.comparison, on.widest) == (False, "y", width)
    assert "after block 19" in on.reason
    last = sequential.decide({"x": narrow, "y": wide}, width * 0.999, 13)
    assert (last.stop, last.comparison, last.widest) == (True, "y", width)
    assert "(13)" in last.reason


@pytest.mark.parametrize("blocks", [1, 7, 10, 39])
def test_between_looks_nothing_is_decided(blocks: int) -> None:
    series = {"x": _logs(blocks, 1e-9)}
    found = sequential.decide(series, 0.5, 40)
    following = next(look for look in (8, 12, 17, 40) if look > blocks)
    assert (found.stop, found.widest, found.comparison) == (False, math.inf, "")
    assert found.reason == f"the next look is after block {following}"


def test_after_the_most_blocks_a_run_ends_whatever_it_shows() -> None:
    found = sequential.decide({"x": _logs(41, 0.1)}, 1e-9, 40)
    assert (found.stop, found.widest, found.comparison) == (True, math.inf, "")
    assert "(40)" in found.reason
    none = sequential.decide({}, 0.5, 40)
    assert (none.stop, none.widest, none.comparison) == (False, math.inf, "")
    assert isinstance(none.reason, str)


def test_failed_blocks_widen_the_interval_and_infinite_values_are_left_out() -> None:
    values = _logs(12, 0.01)
    more = _logs(13, 0.01)
    few = sequential.decide({"x": more, "y": more[:7]}, 0.5, 40)
    assert (few.stop, few.widest, few.comparison) == (False, math.inf, "y")
    holes = [*values[:10], -math.inf, math.nan]
    found = sequential.decide({"x": holes}, 1.0, 40)
    assert found.widest == _width(values[:10], 0.0125)
    assert sequential.decide({"x": [math.nan] * 12}, 0.5, 40).widest == math.inf
    assert sequential.decide({"x": values}, 1.0, 40, 0.2).comparison == ""
