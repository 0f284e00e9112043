"""Durations, sizes, rates and percentages: what people write, and how figures are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.errors import UsageError
from cnibench.model import units


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.seconds, "10", 10.0),
        (units.seconds, " 10 S ", 10.0),
        (units.seconds, "500ms", 0.5),
        (units.seconds, "1.5m", 90.0),
        (units.seconds, "2min", 120.0),
        (units.seconds, "1h", 3600.0),
        (units.size, "1500", 1500),
        (units.size, "16k", 16384),
        (units.size, "16KiB", 16384),
        (units.size, "4MB", 4 * 2**20),
        (units.size, "1.5 g", 3 * 2**29),
        (units.size, "7b", 7),
        (units.fraction, "2%", 0.02),
        (units.fraction, " 0.02 ", 0.02),
        (units.fraction, "250 %", 2.5),
        (units.bits_per_second, "50", 50.0),
        (units.bits_per_second, "50k", 50e3),
        (units.bits_per_second, "50Mbit/s", 50e6),
        (units.bits_per_second, "1.5 Gbps", 1.5e9),
    ],
)
def test_what_people_write(read: Callable[[str], float], text: str, value: float) -> None:
    assert read(text) == pytest.approx(value, rel=1e-12)
    assert type(read(text)) is type(value)


@pytest.mark.parametrize("read", [units.seconds, units.size, units.fraction, units.bits_per_second])
@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1 2", "1e3", ".5", "1.", "5x", "10 parsecs", "9" * 400]
)
def test_what_is_no_quantity_is_refused(read: Callable[[str], float], text: str) -> None:
    with pytest.raises(UsageError):
        read(text)


def test_units_of_one_kind_are_none_of_another() -> None:
    for read, text in (
        (units.seconds, "1%"),
        (units.size, "1s"),
        (units.fraction, "1k"),
        (units.bits_per_second, "1 GiB"),
    ):
        with pytest.raises(UsageError):
            read(text)


@pytest.mark.parametrize(
    ("value", "finite"),
    [
        (0, True),
        (-3.5, True),
        (1e100, True),
        (-1e100, True),
        (1.01e100, False),
        (10**400, False),
        (math.inf, False),
        (math.nan, False),
        (True, False),
        ("1", False),
        (None, False),
    ],
)
def test_numbers_that_one_can_calculate_with(value: Any, finite: bool) -> None:
    assert units.is_number(value) is finite


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.4e10, "bit/s", "14.0 Gbit/s"),
        (1e9, "bit/s", "1.00 Gbit/s"),
        (-2.5e6, "bit/s", "-2.50 Mbit/s"),
        (1e6, "bit/s", "1.00 Mbit/s"),
        (999e3, "bit/s", "999 kbit/s"),
        (1000.0, "bit/s", "1.00 kbit/s"),
        (100.4, "bit/s", "100 bit/s"),
        (1.0, "bit/s", "1.00 bit/s"),
        (0.25, "bit/s", "0.25 bit/s"),
        (0.0, "bit/s", "0.00 bit/s"),
        (1.0, "s", "1.00 s"),
        (12.34, "s", "12.3 s"),
        (0.5, "s", "500 ms"),
        (1e-3, "s", "1.00 ms"),
        (1e-6, "s", "1.00 us"),
        (1.0000005e-6, "s", "1.00 us"),
        (10.0, "s", "10.0 s"),
        (100.0, "s", "100 s"),
        (2.6e-8, "s", "0.03 us"),
        (0.0, "s", "0.00 us"),
        (-0.02, "s", "-20.0 ms"),
        (2**30, "B", "1.00 GiB"),
        (3 * 2**20, "B", "3.00 MiB"),
        (2**20, "B", "1.00 MiB"),
        (1024, "B", "1.00 KiB"),
        (1023, "B", "1023 B"),
        (40e3, "1/s", "40.0 k/s"),
        (5.0, "1/s", "5.00 /s"),
        (12.0, "1", "12"),
        (999.0, "1", "999"),
        (1000.0, "1", "1.00 k"),
        (0.5, "1", "0.50"),
        (2.5, "1", "2.50"),
        (3.0, "packets", "3.00 packets"),
    ],
)
def test_figures_have_three_digits_and_a_prefix(value: float, unit: str, text: str) -> None:
    assert units.human(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (10.0, "10 s"),
        (59.4, "59 s"),
        (60.0, "1 min 00 s"),
        (125.2, "2 min 05 s"),
        (3599.4, "59 min 59 s"),
        (3600.0, "1 h 00 min"),
        (3780.0, "1 h 03 min"),
        (90000.0, "25 h 00 min"),
    ],
)
def test_durations_are_said_as_people_say_them(value: float, text: str) -> None:
    assert units.duration(value) == text


@given(st.integers(0, 10**9))
def test_whole_sizes_come_back(value: int) -> None:
    assert units.size(f"{value}k") == 1024 * value
    assert units.size(str(value)) == value
