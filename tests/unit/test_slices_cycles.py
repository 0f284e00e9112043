"""Cycles per packet of slices: which samples of perf and which packets are a cell's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.cpp.perfdata import Recording
from cnibench.errors import MeasureError, UnsupportedError
from cnibench.registry import providers
from cnibench.run.slices.cycles import turns, with_cycles
from cnibench.run.slices.slice import Slice

SLICE = Slice(
    round=0,
    cell="a",
    start=0.5,
    asked=0.02,
    seconds=0.02,
    units=100,
    client=0.008,
    server=0.008,
    waited=0.0,
    packets=210,
    bytes=13_000,
)


def test_a_disturbed_slice_has_neither_samples_nor_packets() -> None:
    slices = [replace(SLICE, round=n, start=0.1 * n) for n in range(5)]
    slices[2] = replace(slices[2], waited=0.015)
    found = turns(slices, began=1_000)
    assert found.windows == [
        (1_000, 20_001_000),
        (100_001_000, 120_001_000),
        (300_001_000, 320_001_000),
        (400_001_000, 420_001_000),
    ]
    assert (found.packets, found.bytes) == (4 * 210, 4 * 13_000)


windows = st.lists(st.integers(0, 40), unique=True, max_size=16).map(
    lambda ends: list(zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False))
)


@given(windows, st.lists(st.integers(0, 41), max_size=30), st.randoms())
def test_samples_are_those_of_the_windows(
    cut: list[tuple[int, int]], times: list[int], dice: object
) -> None:
    shuffled = list(cut)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    recording = Recording(False, [(time, 1, 0, 1, 0) for time in times], [b""])
    kept = [sample[0] for sample in recording.within(shuffled).samples]
    assert kept == [time for time in times if any(start <= time < end for start, end in cut)]


def test_without_a_collector_of_cycles_there_are_none() -> None:
    with pytest.raises(MeasureError, match="nothing here reads cycles"):
        with_cycles(None, {}, 4, 0, 1)


def test_a_collector_of_windows_refuses_slices() -> None:
    with pytest.raises(UnsupportedError, match=r"^cpu cannot read slices$"):
        providers("collectors")["cpu"].rounds([], 1.0)
