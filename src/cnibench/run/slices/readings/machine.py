"""What the CPUs of this machine spent on softirqs, and what their host took from them (steal):
/proc/stat, proc(5), at both ends of a slice.

The kernel samples softirqs by its tick and shows both in steps of USER_HZ (10 ms): a single slice
of 20 ms has 0, 1 or 2 steps of a CPU. So what a slice is said to have is wrong by up to 10 ms for
each CPU; sums over the slices of a block are estimates of what they should be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cnibench.system.heartbeat import opened

_COSTS = 0.0002  # s: a machine that takes longer for one reading is not read in each slice
_LARGEST = 1 << 16
_SOFTIRQ, _STEAL = 7, 8  # of the words of a CPU's line


@dataclass(frozen=True)
class Spent:
    """Ticks of USER_HZ since boot, by CPU: in softirqs, and taken by the host."""

    softirq: Mapping[int, int]
    steal: Mapping[int, int]


class Machine:
    """Reads nothing where a reading takes long, as on machines with hundreds of CPUs."""

    def __init__(self) -> None:
        self.tick = 1 / os.sysconf("SC_CLK_TCK")
        self._stat = opened("/proc/stat")
        times = []
        for _ in range(3):  # one of them may be interrupted
            began = time.monotonic()
            self.read()
            times.append(time.monotonic() - began)
        if min(times) > _COSTS:
            self.close()

    def read(self) -> Spent | None:
        """None where it is not read."""
        if self._stat < 0:
            return None
        softirq, steal = {}, {}
        for line in os.pread(self._stat, _LARGEST, 0).split(b"\n")[1:]:
            if not line.startswith(b"cpu"):
                break
            words = line.split()
            cpu = int(words[0][3:])
            softirq[cpu], steal[cpu] = int(words[_SOFTIRQ]), int(words[_STEAL])
        return Spent(softirq, steal)

    def softirqs(
        self, one: Spent | None, other: Spent | None, cpus: Collection[int]
    ) -> tuple[float | None, float | None]:
        """Seconds from ``one`` to ``other`` in softirqs on these CPUs and on the others."""
        if one is None or other is None:
            return None, None
        ticks = _more(one.softirq, other.softirq)
        here = sum(number for cpu, number in ticks.items() if cpu in cpus)
        return round(here * self.tick, 3), round((sum(ticks.values()) - here) * self.tick, 3)

    def steal(self, one: Spent | None, other: Spent | None, cpus: Collection[int]) -> float | None:
        """Seconds from ``one`` to ``other`` that the host took from these CPUs, together."""
        if one is None or other is None:
            return None
        ticks = _more(one.steal, other.steal)
        return round(sum(number for cpu, number in ticks.items() if cpu in cpus) * self.tick, 3)

    def close(self) -> None:
        """May be called twice."""
        if self._stat >= 0:
            os.close(self._stat)
            self._stat = -1


def _more(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """How many more each CPU has; a CPU that is new has none, and steal may fall (proc(5))."""
    return {cpu: max(0, now - one.get(cpu, now)) for cpu, now in other.items()}
