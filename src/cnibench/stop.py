"""Ctrl-C and SIGTERM as one exception, raised once and never in the middle of a write or a clean-up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from cnibench.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """While its ``with`` block lasts, the first SIGINT, SIGTERM or SIGHUP raises Interrupted in the main thread.

    Later ones are passed over, because what follows the first is the clean-up. Outside the main thread it does nothing.
    """

    def __init__(self) -> None:
        self._held = 0
        self._pending = False
        self._raised = False
        self._before: dict[int, Any] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """A part that must not be cut in two; a signal that came meanwhile is raised at its end."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._pending and not self._held and not self._raised:
            self._raise()

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._pending = True
        if not self._held and not self._raised:
            self._raise()

    def _raise(self) -> None:
        self._raised = True
        raise Interrupted("interrupted; everything that was made is removed, every finished sample is kept")
