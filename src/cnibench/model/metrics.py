"""The closed set of metrics: name, SI base unit and which way is better (INTERFACE,
samples.jsonl).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cnibench.errors import CnibenchError

# Of cycles per packet: what they are divided by.
PACKETS = (
    "TCP segments or UDP datagrams that the client's Pod sent: one for each transaction of tcp-rr,"
    " and as many as it has segments for a super-packet"
)
MODES = ("user", "system", "softirq")  # of CPU time
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """``unit`` is an SI base unit; ``title`` is what a table's heading says."""

    name: str
    unit: str
    better: Better
    title: str


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric("throughput", "bit/s", "higher", "throughput"),
        Metric("transaction_rate", "1/s", "higher", "transactions"),
        Metric("latency_mean", "s", "lower", "mean latency"),
        Metric("latency_p50", "s", "lower", "p50 latency"),
        Metric("latency_p90", "s", "lower", "p90 latency"),
        Metric("latency_p99", "s", "lower", "p99 latency"),
        Metric("request_rate", "1/s", "higher", "requests"),
        Metric("failed_requests", "1", "lower", "failed requests"),
        Metric("loss", "1", "lower", "datagrams lost, share"),
        Metric("retransmits", "1", "lower", "retransmitted segments"),
        Metric("cpu_user", "1", "lower", "CPU user, s per s"),
        Metric("cpu_system", "1", "lower", "CPU system, s per s"),
        Metric("cpu_softirq", "1", "lower", "CPU softirq, s per s"),
        Metric("cpu_per_transaction", "s", "lower", "CPU time per transaction"),
        Metric("cpu_per_byte", "s", "lower", "CPU time per byte"),
        *(
            Metric(f"cpu_{mode}_per_{unit}", "s", "lower", f"CPU {mode} per {unit}, estimated")
            for mode in MODES
            for unit in ("transaction", "byte")
        ),
        Metric("cycles_per_packet", "1", "lower", "cycles per packet"),
        Metric("cycles_per_byte", "1", "lower", "cycles per byte"),
        Metric("packets", "1", "higher", "packets"),
        Metric("largest_packet", "B", "higher", "largest packet sampled at the Pod's device"),
        Metric("memory", "B", "lower", "memory"),
        Metric("pod_ready", "s", "lower", "time until a Pod is ready"),
        Metric("pod_network", "s", "lower", "network's part of a Pod's start"),
        Metric("policy_effect", "s", "lower", "time until a policy takes effect"),
        Metric("service_reachable", "s", "lower", "time until a Service is reachable"),
        Metric("hooks", "1", "lower", "netfilter hooks traversed"),
        Metric("chains", "1", "lower", "chains traversed"),
        Metric("rules", "1", "lower", "rules evaluated"),
    )
}


# Which metric decides where no workload says so (runs of earlier versions, imported results, a
# place where its main metric was not
# measured): the first of these that is there. Elsewhere ``Workload.primary`` does, which each run
# stores.
MAIN_ORDER = (
    "transaction_rate",
    "request_rate",
    "throughput",
    "pod_network",
    "pod_ready",
    "policy_effect",
    "service_reachable",
    "latency_p50",
    "latency_mean",
    "rules",
    "cycles_per_packet",
)

# What a transaction or a byte costs: compared beside the main metric, at every place that has it.
COSTS = ("cpu_per_transaction", "cpu_per_byte")
_COST_OF = {"transaction_rate": COSTS[0], "request_rate": COSTS[0], "throughput": COSTS[1]}


def cost_of(rate: str) -> str:
    """The CPU time that belongs to a rate; '' where the metric is none."""
    return _COST_OF.get(rate, "")


def main_metric(workload: str, there: Sequence[str], main: Mapping[str, str]) -> str:
    """The metric that decides about a workload among those that are ``there``; '' when there is
    none. ``main`` is what a run stored.
    """
    if main.get(workload) in there:
        return main[workload]
    return next((name for name in MAIN_ORDER if name in there), there[0] if there else "")


# What windows with perf give; their other readings have perf's own work in them, and are not used.
OF_CPP_WINDOWS = ("cycles_per_packet", "cycles_per_byte", "largest_packet")

# What is counted and not measured: where it is alike in every block it is known, and no test is
# needed.
COUNTED = frozenset({"hooks", "chains", "rules"})


def metric(name: str) -> Metric:
    """The metric of that name; a name outside the set is a defect of the caller."""
    try:
        return METRICS[name]
    except KeyError:
        raise CnibenchError(
            f"unknown metric '{name}'", f"known are: {', '.join(sorted(METRICS))}"
        ) from None
