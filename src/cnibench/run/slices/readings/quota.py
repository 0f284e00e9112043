"""For how long a CPU quota kept the programs of a load from running: ``throttled_usec`` (version 1:
``throttled_time``) of their cgroups and of those above them.

The kernel counts exactly, but only when the time is over, and adds up what each CPU lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cnibench.run.slices.readings import cost
from cnibench.system.heartbeat import throttled, throttling

_COUNTERS = (b"throttled_usec", b"throttled_time")


class Quota:
    """The cgroups of some processes, as they are when this is made."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._files: list[int] = []
        known = set()
        for pid in pids:
            for file in throttling(str(pid)):
                which = os.fstat(file)
                key = which.st_dev, which.st_ino
                if key in known or not any(one in os.pread(file, 4096, 0) for one in _COUNTERS):
                    os.close(file)
                else:
                    self._files.append(file)
                known.add(key)
        if cost.too_much(self.read):
            self.close()

    def read(self) -> float | None:
        """Seconds so far, all CPUs together; None where no cgroup of theirs counts it."""
        try:
            return throttled(self._files) if self._files else None
        except OSError:
            return None  # the cgroup is gone, and its programs with it: the generator says so

    def close(self) -> None:
        """May be called twice."""
        while self._files:
            os.close(self._files.pop())


def during(
    readings: tuple[float | None, float | None, float | None], beyond: float
) -> float | None:
    """How long a slice was throttled: ``readings`` are those at its start, at its end, and
    ``beyond`` s later, when the load was paused. What is counted by then began within the slice as
    far as it lasted longer than that.
    """
    start, end, paused = readings
    if start is None or end is None or paused is None:
        return None
    return end - start + max(0.0, paused - end - beyond)
