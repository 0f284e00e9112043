"""Work of our own where a workload has no program to start: a thread with the face of one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cnibench.errors import CnibenchError, LimitError, MeasureError
from cnibench.exec import Process

_END = 60.0  # s that a thread is given to end by itself; it cannot be killed


class Task(Process):
    """Runs ``work`` in a thread. Its exit status is 0, or 1 when ``work`` raised; ``result`` raises that error again.

    A child process that ``work`` starts must have ended before it returns: children die with the thread that started them.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.argv = (name,)
        self._work = work
        self._error: CnibenchError | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except CnibenchError as error:
            self._error = error
        except Exception as error:
            self._error = MeasureError(f"a defect of cnibench: {type(error).__name__}: {error}", "report it")

    @property
    def pid(self) -> int:
        return 0

    def poll(self) -> int | None:
        return None if self._thread.is_alive() else int(self._error is not None)

    def watch(self, seconds: float) -> None:
        if seconds > 0:
            self._thread.join(seconds)

    def wait(self, timeout: float) -> int:
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise LimitError(f"{self.argv[0]} did not end within {timeout:.0f} s")
        return int(self._error is not None)

    def interrupt(self) -> None:
        """A thread is not interrupted: it ends by itself."""

    def kill(self) -> None:
        """Waits for the end of the work, which is bounded by the limits of what it does."""
        self._thread.join(_END)

    def result(self) -> None:
        """Raises what ``work`` raised."""
        if self._error is not None:
            raise self._error
