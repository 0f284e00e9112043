"""A machine that is busy when the slices of a block begin is waited for, for a limited time."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from cnibench.errors import MeasureError, UsageError
from cnibench.run.slices import engine
from cnibench.run.slices.looks import Programs
from cnibench.run.slices.readings.clocks import Modes
from cnibench.run.slices.readings.machine import Machine
from cnibench.run.slices.running import Reading, Running

LENGTH = 0.04


class Delayed:
    """A load whose first ``times`` starts are delayed by half of a slice."""

    wanted = "real-time"
    programs = Programs(())
    modes = Modes(())
    quota = None
    cpus = frozenset({0})

    def __init__(self, times: float) -> None:
        self.times = times

    def resume(self) -> None:
        self.times -= 1
        if self.times >= 0:
            time.sleep(LENGTH / 2)

    def pause(self) -> None:
        pass

    def read(self) -> Reading:
        return Reading(at=time.monotonic_ns(), count=0, client=0, server=0, waited=0)


def wait_for(load: Delayed) -> None:
    engine._long_enough(cast(Running, cast(Any, load)), Machine(), LENGTH, 0.0, "")


def test_a_load_that_is_delayed_for_a_moment_is_measured() -> None:
    load = Delayed(times=7)
    wait_for(load)
    assert load.times < 0


def test_a_load_that_is_always_delayed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_PATIENCE", 0.2)
    with pytest.raises(UsageError, match="a slice of 40 ms is too short"):
        wait_for(Delayed(times=float("inf")))


class Slow(Delayed):
    """A load that can be driven."""

    wanted = "normal"
    unit = 1
    ended = False

    def strayed(self) -> float:
        return 0.0

    def end(self) -> None:
        self.ended = True


def test_a_load_that_cannot_be_sliced_fails_and_others_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the middle of a run as in its first block, where nothing else is left to measure."""
    monkeypatch.setattr(engine, "_PATIENCE", 0.2)
    slow, quick = Slow(times=float("inf")), Slow(times=0)
    loads = cast(Any, {"slow": slow, "quick": quick})
    driven = engine.drive(loads, 2, 0, 1, length=LENGTH, lead_in=0.0)
    assert {one.cell for one in driven.slices} == {"quick"}
    assert isinstance(driven.failed.pop("slow"), MeasureError)
    assert (driven.failed, slow.ended, quick.ended) == ({}, True, False)
    alone = cast(Any, {"slow": Slow(times=float("inf"))})
    assert list(engine.drive(alone, 2, 3, 1, length=LENGTH, lead_in=0.0).failed) == ["slow"]
    with pytest.raises(UsageError, match="too short"):
        engine.drive(alone, 2, 0, 1, length=LENGTH, lead_in=0.0)
