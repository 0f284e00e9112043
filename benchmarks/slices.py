"""What slices are worth: resolution per wall time beside windows, the rate beside that of the tool
run by hand, and what a round costs beyond its slices.

    python benchmarks/slices.py [--workload tcp-rr] [--seconds 10] [--windows 3]

Two deployments of veth-baseline and one of flannel, between nodes, both ends on one CPU. Slices and
windows (of 1 s, by the workload's own tool, at the same real-time priority) are measured in turn in
one process, so that the load of the machine is the same for both. Resolution is the half width of
the 95 % interval of the log ratio of flannel to veth-baseline; for windows it is that of the paired
windows. Precision grows with the square root of time, so the figures are compared as half width^2 x
seconds. Needs root.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.registry import provider
from cnibench.run.sample_context import SampleContext
from cnibench.run.slices.engine import LEAD_IN, LENGTH, drive
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.priority import CLIENT, SERVER, ahead, raised
from cnibench.run.slices.readings.clocks import descendants
from cnibench.run.slices.rounds import log_ratio
from cnibench.testbed.cluster import Options

LABELS = {"a": "veth-baseline", "b": "veth-baseline", "flannel": "flannel"}


def context(label: str, deployment: LabDeployment, workload: str, raw: Path) -> SampleContext:
    cpu = max(os.sched_getaffinity(0))
    cell = Cell(
        label=label,
        profile=LABELS[label],
        placement="inter",
        workload=workload,
        params=provider("workloads", workload).params({}),
    )
    ((client, server),) = deployment.pairs_for([cell])
    raw.mkdir()
    return SampleContext(cell, 0, deployment, client, server, 1.0, 0.0, raw, cpu, cpu)


def window(s: SampleContext) -> float:
    """The workload's main figure in a window of a second, at real-time priority."""
    workload = provider("workloads", s.cell.workload)
    before = descendants(os.getpid())
    with ahead(), workload.serve(s), workload.start(s) as client:
        time.sleep(0.1)
        ours = descendants(os.getpid()) - before
        raised([pid for pid in ours if os.getpgid(pid) != client.pid], SERVER)
        raised([client.pid], CLIENT)
        client.wait(20.0)
        found = workload.findings(s)
    return next(one.value for one in found.readings if one.metric == workload.primary)


def paired(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean log ratio of paired windows and the half width of its 95 % interval (Student)."""
    from scipy.stats import t

    logs = [math.log(one / other) for one, other in pairs]
    deviation = statistics.stdev(logs)
    return statistics.mean(logs), float(t.ppf(0.975, len(logs) - 1)) * deviation / math.sqrt(
        len(logs)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="tcp-rr")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--windows", type=int, default=6)
    asked = parser.parse_args()
    workload = provider("workloads", asked.workload)
    print(
        f"kernel {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} (1"
        f" min), {asked.workload}, slices of {LENGTH * 1e3:g} ms"
    )
    with ExitStack() as made, tempfile.TemporaryDirectory() as folder:
        raw = Path(folder)
        stands = {}
        for number, (label, profile) in enumerate(LABELS.items(), 1):
            stands[label] = LabDeployment(label, builtin()[profile], Options(), number)
            made.callback(stands[label].remove)
        generators = {}
        with ExitStack() as running:
            for label, deployment in stands.items():
                s = context(label, deployment, asked.workload, raw / label)
                generator = Generator(s, workload.load(s.cell))
                generators[label] = running.enter_context(generator)
            rounds = round(asked.seconds / len(LABELS) / (LENGTH + LEAD_IN))
            driven = drive(generators, rounds, 0, 1)
        for cell, error in driven.failed.items():
            print(f"{cell}: {error.message}")
        began = time.monotonic()
        seen: dict[str, list[float]] = {label: [] for label in LABELS}
        for number in range(asked.windows):
            for label, deployment in stands.items():
                s = context(label, deployment, asked.workload, raw / f"{label}-{number}")
                seen[label].append(window(replace(s, duration=1.0)))
        windows = time.monotonic() - began
    fine, narrow = log_ratio(driven.slices, "flannel", "a")
    same, _ = log_ratio(driven.slices, "b", "a")
    coarse, wide = paired(list(zip(seen["flannel"], seen["a"], strict=True)))
    print(f"slices:  {math.exp(fine):.4f} ± {narrow:.2%} in {driven.wall:.1f} s")
    print(f"windows: {math.exp(coarse):.4f} ± {wide:.2%} in {windows:.1f} s")
    gain = (wide**2 * windows) / (narrow**2 * driven.wall)
    print(f"for the same half width windows take {gain:.1f} times as long")
    print(f"a against b in slices: {math.exp(same):.4f}")
    for label in LABELS:
        own = [piece.rate for piece in driven.slices if piece.cell == label]
        scale = 8 if workload.primary == "throughput" else 1
        by_hand = statistics.median(seen[label])
        print(f"{label}: slices / tool by hand = {statistics.median(own) * scale / by_hand:.3f}")
    within = len(driven.slices) * (LENGTH + LEAD_IN)
    print(f"a round takes {driven.wall / within - 1:.1%} beyond its slices and lead-ins")
    return 0


if __name__ == "__main__":
    sys.exit(tree.carry(main))
