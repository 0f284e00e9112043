"""Counters of the kernel that cannot be read any more fail one cell, not the run."""

from __future__ import annotations

import os

import pytest

from cnibench.errors import MeasureError
from cnibench.run.slices.readings.clocks import Clocks
from cnibench.run.slices.readings.counters import Namespace


@pytest.fixture
def unreadable() -> int:
    """A descriptor on which pread(2) fails."""
    read, write = os.pipe()
    os.close(write)
    return read


def test_the_clocks_of_a_load(unreadable: int) -> None:
    clocks = Clocks([os.getpid()])
    assert clocks.read()[0] > 0
    os.dup2(unreadable, clocks._files[0])
    with pytest.raises(MeasureError, match="Illegal seek"):
        clocks.read()
    clocks.close()
    os.close(unreadable)


@pytest.mark.parametrize("ip", [4, 6])
def test_the_counters_of_a_namespace(unreadable: int, ip: int) -> None:
    counter = Namespace("Udp", "InDatagrams", ip)
    assert counter.read() >= 0
    os.dup2(unreadable, counter._fd)
    with pytest.raises(MeasureError, match="Illegal seek"):
        counter.read()
    counter.close()
    os.close(unreadable)
