"""The ticks of the chart of ratios, whose axis is logarithmic."""

from __future__ import annotations

import pytest

from cnibench.reports.site.figures import pairs


def ticks(low: float, high: float) -> list[float]:
    row = {
        "where": "there",
        "ratio": low,
        "low": low,
        "high": high,
        "verdict": "a is better",
        "shown": "",
    }
    verdicts = ("a is better", "b is better", "alike", "open")
    found: list[float] = pairs.ratios([row], "times", verdicts, ["#000000", "#ffffff"])["ticks"]
    return [one for one in found if min(low, 1) <= one <= max(high, 1)]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.851, 0.945, [0.9, 0.95, 1]),
        (0.99, 0.999, [0.99, 0.995, 1]),
        (0.8, 1.3, [0.8, 1, 1.2]),
        (1.02, 2.4, [1, 1.5, 2]),
        (0.5, 1.9, [0.5, 1, 1.5]),
        (0.02, 1.0, [0.02, 0.05, 0.1, 0.2, 0.5, 1]),
        (1.0, 1.0, [1]),
    ],
)
def test_every_tick_is_a_round_number_and_one_is_among_them(
    low: float, high: float, expected: list[float]
) -> None:
    assert ticks(low, high) == pytest.approx(expected)
