"""Cycles by component and by function, so that the components and what is unclassified add up to
the total.

qi2021, equation 1: CPP(f) = Cycle_total / N_packet * Cycle_percentage(f). Here Cycle_total is what
the cell and the kernel spent, idle and foreign work apart; the percentage of a function is self (it
was the sampled one) or inclusive (it was on the stack).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cnibench.cpp.stacks import Stack
from cnibench.cpp.taxonomy import IDLE, Taxonomy
from cnibench.errors import MeasureError

FUNCTIONS = (
    60  # functions that a record keeps, by inclusive share; the folded stacks in raw hold all
)


@dataclass
class Breakdown:
    """Cycles. ``total`` = sum of ``components`` + ``unclassified``; ``idle`` and ``foreign`` are
    beside it. ``outside`` is the part of ``total`` that ran outside the cell's programs:
    interrupts, softirqs on idle CPUs or within others' programs, ksoftirqd.

    ``samples`` are all of the window, ``counted`` those that ``total`` is made of.
    """

    components: dict[str, float] = field(default_factory=dict)
    unclassified: float = 0.0
    idle: float = 0.0
    foreign: float = 0.0
    outside: float = 0.0
    functions: dict[str, tuple[float, float]] = field(default_factory=dict)
    samples: int = 0
    counted: int = 0

    @property
    def total(self) -> float:
        return sum(self.components.values()) + self.unclassified

    @property
    def window(self) -> float:
        """All cycles of the window, idle and foreign ones included."""
        return self.total + self.idle + self.foreign


def attribute(stacks: Iterable[Stack], taxonomy: Taxonomy) -> Breakdown:
    """Gives each stack to the component of its nearest frame that the taxonomy names."""
    found = Breakdown()
    own: dict[str, float] = {}
    inclusive: dict[str, float] = {}
    for stack in stacks:
        found.samples += stack.samples
        if stack.whose == "foreign":
            found.foreign += stack.cycles
            continue
        component = taxonomy.nearest(stack.frames)
        if component == IDLE:
            found.idle += stack.cycles
            continue
        found.counted += stack.samples
        if stack.whose == "kernel":
            found.outside += stack.cycles
        if component is None:
            found.unclassified += stack.cycles
        else:
            found.components[component] = found.components.get(component, 0.0) + stack.cycles
        own[stack.frames[0]] = own.get(stack.frames[0], 0.0) + stack.cycles
        for function in set(stack.frames):
            inclusive[function] = inclusive.get(function, 0.0) + stack.cycles
    found.functions = {
        function: (own.get(function, 0.0), cycles) for function, cycles in inclusive.items()
    }
    return found


def record(found: Breakdown, packets: float, *, clock: bool, version: int) -> dict[str, Any]:
    """The line of cpp.jsonl. Cycles are of the window; ``total``, ``components``, ``unclassified``,
    ``functions`` are cycles per packet.

    Raises MeasureError when no packet was sent or nothing was sampled.
    """
    if packets <= 0:
        raise MeasureError(
            "no packet was sent in the window of perf",
            "is the window long enough, did the client run?",
        )
    if found.total <= 0:
        raise MeasureError(
            "perf took no sample of the workload in its window",
            "is the window long enough? 'cnibench doctor' checks perf",
        )
    functions = sorted(found.functions.items(), key=lambda item: (-item[1][1], item[0]))[:FUNCTIONS]
    return {
        "cycles_source": "estimated" if clock else "pmu",
        "cycles": found.window,
        "idle_cycles": found.idle,
        "foreign_cycles": found.foreign,
        "outside_cycles": found.outside,
        "packets": packets,
        "total": found.total / packets,
        "components": {
            name: cycles / packets
            for name, cycles in sorted(found.components.items(), key=lambda item: -item[1])
        },
        "unclassified": found.unclassified / packets,
        "functions": {
            name: [own / packets, inclusive / packets] for name, (own, inclusive) in functions
        },
        "samples": found.samples,
        "counted": found.counted,
        "taxonomy": version,
    }
