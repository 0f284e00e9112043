"""A Ctrl-C that hits a place where Python drops exceptions is not lost."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from cnibench.errors import Interrupted
from cnibench.system import interrupt
from cnibench.system.interrupt import Stop


class Dying:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("again", [0.0, 0.02])  # s: at once, before the callback has ended
def test_an_interruption_within_a_destructor_is_raised_again(
    monkeypatch: pytest.MonkeyPatch, again: float
) -> None:
    monkeypatch.setattr(interrupt, "_AGAIN", again)
    before = sys.unraisablehook
    with pytest.raises(Interrupted), Stop():  # noqa: PT012
        dying = Dying()
        del dying
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0.01)
    assert sys.unraisablehook is before


def test_what_else_is_dropped_is_reported_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("broken")

    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: told.append(found.exc_type))
    with Stop():
        broken = Broken()
        del broken
    assert told == [ValueError]
