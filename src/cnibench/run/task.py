"""Work of our own where a workload has no program to start, with the face of one that has ended."""

from __future__ import annotations

from cnibench.system.process import Process


class Task(Process):
    """What was done in the calling thread before this was made; its errors were raised there."""

    def __init__(self, name: str) -> None:
        self.argv = (name,)

    @property
    def pid(self) -> int:
        """0: there is no process."""
        return 0

    def poll(self) -> int:
        return 0

    def wait(self, timeout: float) -> int:
        return 0

    def interrupt(self) -> None:
        """Nothing runs any more."""

    def kill(self) -> None:
        """Nothing runs any more."""
