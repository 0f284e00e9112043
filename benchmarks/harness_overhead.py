"""Does the harness slow down what it measures? Its throughput and transaction rate against bare
netperf, as ratios.

Both run in the same namespaces, with the same pinning, on one profile of the lab. Each harness
sample lies between two bare ones and is divided by their mean, so that what drifts on a shared
machine cancels; the two kinds of window come in seeded random order. The bare side is netperf by
nsenter alone, started and awaited by subprocess, after a warm-up as long as the harness's: the
first second after a pause is faster on machines whose clock has something saved up. Then the wall
time of all harness samples over the sum of (warm-up + duration).

    python benchmarks/harness_overhead.py [--workload tcp-rr] [--rounds 20] [--duration 3] [--warmup
    1] [--cpus shared]

Needs root and a profile that this kernel can run. Prints the median of the ratios with its 95 %
interval (order statistics) and the conditions; the exit status is always 0: the reader judges.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import statistics
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.registry import provider, providers
from cnibench.run.checks.cpus import choose_cpus, cores
from cnibench.run.collector import Collector
from cnibench.run.sample_context import SampleContext
from cnibench.run.windows.sample import measure
from cnibench.testbed.cluster import Options
from cnibench.workloads import _netperf


def bare(s: SampleContext) -> float:
    """netperf and netserver without any of cnibench around the client."""
    workload = provider("workloads", s.cell.workload)
    with workload.serve(s):
        for seconds in (s.warmup, s.duration):
            done = subprocess.run(
                s.client.ns.enter(s.on_client(workload.command(s, seconds))),  # type: ignore[attr-defined]
                capture_output=True,
                text=True,
                timeout=seconds + 30,
                check=True,
            )
    values = _netperf.parse(
        done.stdout, done.stderr, (*_netperf._ALWAYS, *workload.selectors), s.duration
    )
    return next(
        r.value
        for r in workload.interpret(values).readings
        if r.metric in ("throughput", "transaction_rate")
    )


def harness(s: SampleContext, collectors: list[Collector]) -> float:
    """The same sample through the harness."""
    found = measure(s, provider("workloads", s.cell.workload), collectors).measurements
    return next(
        r.value
        for r in found.readings
        if r.metric in ("throughput", "transaction_rate") and not r.params
    )


def interval(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median: the order statistics that a fair coin of n throws leaves
    between them.
    """
    ranked, n = sorted(values), len(values)
    tail, below = 0.0, 0
    while below < n // 2 and tail + math.comb(n, below) / 2**n <= 0.025:
        tail += math.comb(n, below) / 2**n
        below += 1
    below = max(below - 1, 0)
    return ranked[below], ranked[n - 1 - below]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--duration", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--cpus", choices=("shared", "split", "none"), default="shared")
    parser.add_argument("--workload", action="append", choices=("tcp-stream", "tcp-rr"))
    parser.add_argument("--profile", default="veth-baseline")
    asked = parser.parse_args()
    speed = [c for c in providers("collectors").values() if "speed" in c.windows]
    cpp = [c for c in providers("collectors").values() if "cpp" in c.windows]
    print(
        f"{asked.profile}, inter, cpus {asked.cpus}, {asked.rounds} rounds of {asked.duration} s,"
        f" kernel {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}"
    )
    order = random.Random(1)
    wall = expected = 0.0
    with tree.entered(), tempfile.TemporaryDirectory() as folder:
        deployment = LabDeployment(asked.profile, builtin()[asked.profile], Options(), 1)
        try:
            cpus = choose_cpus(asked.cpus, sorted(os.sched_getaffinity(0)), cores())
            client, server = deployment.pair("inter")
            for name in asked.workload or ("tcp-stream", "tcp-rr"):
                params = provider("workloads", name).params({})
                cell = Cell(
                    label="x",
                    profile=asked.profile,
                    placement="inter",
                    workload=name,
                    params=params,
                    cpus=asked.cpus,
                )
                base = SampleContext(
                    cell=cell,
                    block=0,
                    deployment=deployment,
                    client=client,
                    server=server,
                    duration=asked.duration,
                    warmup=asked.warmup,
                    raw=Path(folder),
                    client_cpu=cpus[0],
                    server_cpu=cpus[1],
                )
                ratios: dict[str, list[float]] = {"no perf": [], "perf": []}
                before = bare(base)
                for number in range(asked.rounds):
                    for side in order.sample(list(ratios), 2):
                        raw = Path(folder) / f"{name}-{number}-{side}"
                        raw.mkdir()
                        began = time.monotonic()
                        found = harness(replace(base, raw=raw), speed if side == "no perf" else cpp)
                        wall += time.monotonic() - began
                        expected += asked.warmup + asked.duration
                        after = bare(base)
                        ratios[side].append(2 * found / (before + after))
                        before = after
                for side, values in ratios.items():
                    low, high = interval(values)
                    middle = statistics.median(values)
                    print(
                        f"{name:10}  harness / bare netperf, {side:7}  median {middle:.4f}  95 %"
                        f" interval {low:.4f} to {high:.4f}",
                        flush=True,
                    )
        finally:
            deployment.remove()
    print(f"wall time of the harness samples / (warm-up + duration): {wall / expected:.4f}")


if __name__ == "__main__":
    main()
