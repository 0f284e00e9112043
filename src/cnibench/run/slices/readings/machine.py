"""What the CPUs of this machine spent on softirqs (/proc/stat, proc(5)), at both ends of a slice.

The kernel samples it by its tick and shows it in steps of USER_HZ (10 ms): a single slice has 0, 1
or 2 of them. Sums over the slices of a block are estimates of what they should be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cnibench.system.heartbeat import opened

_COSTS = 0.0002  # s: a machine that takes longer for one reading is not read in each slice
_LARGEST = 1 << 16
_SOFTIRQ = 7  # of the words of a CPU's line


@dataclass(frozen=True)
class Spent:
    """Ticks of USER_HZ in softirqs since boot, by CPU."""

    softirq: Mapping[int, int]


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
        found = {}
        for line in os.pread(self._stat, _LARGEST, 0).split(b"\n")[1:]:
            if not line.startswith(b"cpu"):
                break
            words = line.split()
            found[int(words[0][3:])] = int(words[_SOFTIRQ])
        return Spent(found)

    def softirqs(
        self, one: Spent | None, other: Spent | None, cpus: Collection[int]
    ) -> tuple[float | None, float | None]:
        """Seconds from ``one`` to ``other`` in softirqs on these CPUs and on the others."""
        if one is None or other is None:
            return None, None
        ticks = {cpu: now - one.softirq.get(cpu, now) for cpu, now in other.softirq.items()}
        here = sum(number for cpu, number in ticks.items() if cpu in cpus)
        return round(here * self.tick, 3), round((sum(ticks.values()) - here) * self.tick, 3)

    def close(self) -> None:
        """May be called twice."""
        if self._stat >= 0:
            os.close(self._stat)
            self._stat = -1
