"""What the CPUs of this machine spent on softirqs, what their host took from them (steal), and what
other programs used: /proc/stat, proc(5), at both ends of a slice.

The kernel samples softirqs by its tick and shows all of them in steps of USER_HZ (10 ms): a single
slice of 20 ms has 0, 1 or 2 steps of a CPU. So what a slice is said to have is wrong by up to 10 ms
for each CPU; sums over the slices of a block are estimates of what they should be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cnibench.run.slices.looks import Programs
from cnibench.run.slices.readings import cost
from cnibench.run.slices.readings.clocks import Clocks
from cnibench.system.heartbeat import opened

_LARGEST = 1 << 16
_USED = slice(1, 4)  # user, nice, system: of the words of a CPU's line
_IRQ, _SOFTIRQ, _STEAL = 6, 7, 8


@dataclass(frozen=True)
class Spent:
    """Ticks of USER_HZ since boot, by CPU: in softirqs, and taken by the host. ``used`` are those
    of all programs on all CPUs together, ``own`` the CPU time so far, in ns, of cnibench and its
    programs beside the loads.
    """

    softirq: Mapping[int, int]
    steal: Mapping[int, int]
    used: int = 0
    own: int = 0


class Machine:
    """Reads nothing where a reading takes long, as on machines with hundreds of CPUs."""

    def __init__(self, beside: Collection[int] = ()) -> None:
        """``beside`` are programs of cnibench that run beside the loads, as perf does."""
        self.tick = 1 / os.sysconf("SC_CLK_TCK")
        self.beside = Programs(beside)
        self._own = Clocks(beside)
        self._stat = opened("/proc/stat")
        self._apart = self._stat >= 0 and apart(os.pread(self._stat, _LARGEST, 0))
        if cost.too_much(self.read):
            self.close()

    def read(self) -> Spent | None:
        """None where it is not read."""
        if self._stat < 0:
            return None
        softirq, steal = {}, {}
        whole, *lines = os.pread(self._stat, _LARGEST, 0).split(b"\n")
        own = time.process_time_ns() + self._own.read()[0]
        for line in lines:
            if not line.startswith(b"cpu"):
                break
            words = line.split()
            cpu = int(words[0][3:])
            softirq[cpu], steal[cpu] = int(words[_SOFTIRQ]), int(words[_STEAL])
        return Spent(softirq, steal, used(whole, self._apart), own)

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

    def others(self, one: Spent | None, other: Spent | None, load: float) -> float | None:
        """Seconds of CPU time from ``one`` to ``other`` that neither the load, which used ``load``
        s, nor cnibench used, on all CPUs together. Below 0 where a step is missing, so that the sum
        of many is right.
        """
        if one is None or other is None:
            return None
        ours = (other.own - one.own) / 1e9 + load
        return round((other.used - one.used) * self.tick - ours, 6)

    def close(self) -> None:
        """May be called twice."""
        self.beside.close()
        self._own.close()
        if self._stat >= 0:
            os.close(self._stat)
            self._stat = -1


def apart(stat: bytes) -> bool:
    """Does the kernel account interrupts apart from the programs that they interrupt
    (CONFIG_IRQ_TIME_ACCOUNTING)? Where it does not, no tick comes within an interrupt, and
    /proc/stat has no time in them.
    """
    return int(stat.split(maxsplit=_IRQ + 1)[_IRQ]) > 0


def used(line: bytes, apart: bool) -> int:
    """Ticks of programs in a line of /proc/stat. Softirqs are among them as they are in the clocks
    of programs: where they are not accounted apart.
    """
    words = line.split()
    return sum(map(int, words[_USED])) + (0 if apart else int(words[_SOFTIRQ]))


def _more(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """How many more each CPU has; a CPU that is new has none, and steal may fall (proc(5))."""
    return {cpu: max(0, now - one.get(cpu, now)) for cpu, now in other.items()}
