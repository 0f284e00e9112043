"""A machine that is busy when the slices of a block begin is waited for, for a limited time."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from cnibench.errors import UsageError
from cnibench.run.slices import engine
from cnibench.run.slices.looks import Programs
from cnibench.run.slices.running import Reading, Running

LENGTH = 0.04


class Delayed:
    """A load whose first ``times`` starts are delayed by half of a slice."""

    wanted = "real-time"
    programs = Programs(())

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
    engine._long_enough(cast(Running, cast(Any, load)), LENGTH, 0.0, "")


def test_a_load_that_is_delayed_for_a_moment_is_measured() -> None:
    load = Delayed(times=7)
    wait_for(load)
    assert load.times < 0


def test_a_load_that_is_always_delayed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_PATIENCE", 0.2)
    with pytest.raises(UsageError, match="a slice of 40 ms is too short"):
        wait_for(Delayed(times=float("inf")))
