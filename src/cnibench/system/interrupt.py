"""Ctrl-C and SIGTERM as one exception, never raised in the middle of a write or a clean-up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

from cnibench.errors import CnibenchError, Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN = 0.02  # s


class Stop:
    """While its ``with`` block lasts, the first SIGINT, SIGTERM or SIGHUP raises Interrupted in the
    main thread.

    Later ones are passed over, because what follows the first is the clean-up. Outside the main
    thread it does nothing.
    """

    _now: Stop | None = None  # the one whose block lasts

    def __init__(self) -> None:
        self._held = 0
        self._pending = False
        self._raised = False
        self._before: dict[int, Any] = {}
        self._hook: Any = None
        self._outer: Stop | None = None
        self._left = threading.Event()
        self._repeating: list[threading.Thread] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        """A part that must not be cut in two; a signal that came meanwhile is raised at its end."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if not self._raised:
            self.check()

    @contextmanager
    def around(self, manager: AbstractContextManager[object]) -> Iterator[None]:
        """The manager's own ``with``, whose end no signal cuts short."""
        manager.__enter__()
        try:
            yield
        finally:
            with self.held():
                manager.__exit__(*sys.exc_info())

    def check(self) -> None:
        """Raises a signal that came, again if some code swallowed the exception. Not for clean-up
        code.
        """
        if self._pending and not self._held:
            self._raise()

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._dropped
            self._outer, Stop._now = Stop._now, self
        return self

    def __exit__(self, *error: object) -> None:
        if self._hook is not None:
            sys.unraisablehook, self._hook = self._hook, None
            Stop._now, self._outer = self._outer, None
        self._left.set()
        for thread in self._repeating:
            thread.join()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._pending = True
        if not self._raised:
            self.check()

    def _dropped(self, args: Any) -> None:
        """What is raised within a callback (one of fork's, which a signal often hits, or a
        destructor) Python drops: it is raised again.
        """
        if not isinstance(args.exc_value, Interrupted):
            self._hook(args)
            return
        thread = threading.Thread(target=self._repeat, daemon=True)
        self._repeating.append(thread)
        self._held += 1  # what is raised here is dropped, too
        try:
            self._raised = False
            thread.start()
        finally:
            self._held -= 1

    def _repeat(self) -> None:
        while not self._left.wait(_AGAIN) and not self._raised:
            os.kill(os.getpid(), signal.SIGINT)

    def _raise(self) -> None:
        self._raised = True
        raise Interrupted(
            "interrupted; everything that was made is removed, every finished sample is kept"
        )


def uninterrupted() -> AbstractContextManager[None]:
    """Until the block ends, signals wait in the enclosing Stop, if there is one. Outside the main
    thread it does nothing.
    """
    main = threading.current_thread() is threading.main_thread()
    return Stop._now.held() if Stop._now is not None and main else nullcontext()


@contextmanager
def cleaning_up(after: BaseException) -> Iterator[None]:
    """Removes what a failure leaves, and no signal cuts that short; the caller raises ``after``
    again. What cannot be removed is added to its message, and does not replace it.
    """
    with uninterrupted():
        try:
            yield
        except CnibenchError as error:
            if isinstance(after, CnibenchError | Interrupted):
                after.message += f"; then: {error.message}"
                after.remedy = after.remedy or error.remedy
            else:
                after.add_note(error.message)
