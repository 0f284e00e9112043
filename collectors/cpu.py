"""CPU time of the nodes by user, system and softirq, in seconds per second (2.0: two CPUs busy all
the time).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from cnibench.collectors import _counters
from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements, SampleContext

_PARTS = {
    "cpu_user": ("user", "nice"),
    "cpu_system": ("system", "irq"),
    "cpu_softirq": ("softirq",),
}


class Cpu(Collector):
    name = "cpu"
    title = (
        "CPU time of each machine (/proc/stat): everything that runs there, the load generators"
        " included"
    )
    windows = ("speed",)
    of_pair = False

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        """Adds cpu_user, cpu_system and cpu_softirq for each kernel; ``node`` names all nodes on it
        (``a+b`` in the lab).
        """
        nodes = s.deployment.nodes()
        machines = {
            "+".join(nodes[index].name for index in group): nodes[group[0]]
            for group in _counters.kernels(s).values()
        }
        before = {
            name: (_counters.clock(), _counters.cpu(node.read_text("/proc/stat")))
            for name, node in machines.items()
        }
        yield
        tick = os.sysconf(
            "SC_CLK_TCK"
        )  # USER_HZ, 100 on every architecture that Kubernetes runs on
        for name, node in machines.items():
            start, then = before[name]
            now = _counters.cpu(node.read_text("/proc/stat"))
            window = _counters.seconds(start, _counters.clock())
            for metric, parts in _PARTS.items():
                ticks = sum(
                    _counters.grown(then, now, part, f"/proc/stat of {name}") for part in parts
                )
                into.add(metric, ticks / tick / window, node=name)


PROVIDER = Cpu()
