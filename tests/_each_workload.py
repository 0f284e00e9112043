"""What each workload that measures a pair has to give, in the lab and on clusters, and parameters
that make it small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnibench.run.sample_context import Measurements

LATENCIES = {"latency_mean", "latency_p50", "latency_p90", "latency_p99"}
METRICS_OF: Mapping[str, set[str]] = {
    "tcp-stream": {"throughput"},
    "udp-stream": {"throughput", "loss"},
    "tcp-rr": {"transaction_rate", *LATENCIES},
    "tcp-crr": {"transaction_rate", *LATENCIES},
    "tcp-connect": LATENCIES,
    "tcp-latency": LATENCIES,
    "iperf3-tcp": {"throughput"},
    "iperf3-udp": {"throughput", "loss"},
    "tcp-stream-series": {"throughput"},
    "http": {"request_rate", "throughput", "failed_requests", *LATENCIES},
}
SMALL: Mapping[str, dict[str, Any]] = {
    "http": {"payload": 20_000, "concurrency": 4},
    "tcp-connect": {"connections": 50},
    "iperf3-tcp": {"streams": 2, "bidirectional": True},
    "iperf3-udp": {"rate": "2M"},
    "tcp-stream-series": {"interval": 0.2},
}


def values(found: Measurements) -> dict[str, float]:
    """Metric to value, of the figures that have no parameters of their own."""
    return {reading.metric: reading.value for reading in found.readings if not reading.params}
