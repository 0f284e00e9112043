"""What slices are worth: resolution per wall time beside windows, the rate beside that of the same
tool run by hand, and what a round costs beyond its slices.

    python benchmarks/slices.py [--workload tcp-rr] [--seconds 10] [--parts 12] [--set KEY=VALUE]
        [--priority normal]

Two deployments of veth-baseline and one of flannel, between nodes, both ends on one CPU. Rounds of
slices and one window for each cell (of 1 s, by the program that drives the slices, with the same
parameters and priority) take turns, PARTS times, so that the load of the machine is the same for
both. At real-time priority the kernel may keep up to 5 % of each second for other programs: windows
contain that, and slices leave it out. On an idle machine nobody wants it.

Resolution is the half width of the 95 % interval of the log ratio of flannel to veth-baseline; for
windows it is that of the paired windows. Precision grows with the square root of time, so the
figures are compared as half width^2 x seconds; the seconds are wall time, with the start of all
programs. The rate is compared in pairs, a part's slices with the window after them. Needs root.
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
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

from _ratios import log_ratio
from msgspec.structs import replace as replace_struct
from scipy.stats import t

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.registry import provider
from cnibench.run.sample_context import SampleContext
from cnibench.run.slices.engine import LEAD_IN, LENGTH, Driven, drive
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.priority import CLIENT, SERVER, ahead, raised
from cnibench.run.slices.readings.clocks import descendants
from cnibench.run.slices.rounds import FEWEST, values
from cnibench.run.slices.slice import Slice, order
from cnibench.testbed.cluster import Options

SECONDS = 1.0  # of a window
LABELS = {"a": "veth-baseline", "b": "veth-baseline", "flannel": "flannel"}


def context(label: str, deployment: LabDeployment, cell: Cell, raw: Path) -> SampleContext:
    cpu = max(os.sched_getaffinity(0))
    ((client, server),) = deployment.pairs_for([cell])
    raw.mkdir()
    return SampleContext(cell, 0, deployment, client, server, SECONDS, 0.0, raw, cpu, cpu)


def rounds(
    deployments: dict[str, LabDeployment], cells: dict[str, Cell], count: int, part: int, raw: Path
) -> Driven:
    """So many rounds over all cells, whose programs start and end with them."""
    with ExitStack() as running:
        generators = {}
        for label, deployment in deployments.items():
            s = context(label, deployment, cells[label], raw / f"{label}-slices-{part}")
            generator = Generator(s, provider("workloads", s.cell.workload).load(s.cell))
            generators[label] = running.enter_context(generator)
        driven = drive(generators, count, part, 1)
    for cell, error in driven.failed.items():
        raise error.__class__(f"{cell}: {error.message}", error.remedy)
    return driven


def window(s: SampleContext) -> float:
    """The main figure of the program that drives the slices of the cell, in a window."""
    load = provider("workloads", s.cell.workload).load(s.cell)
    name, params = load.window(s.cell.params)
    workload = provider("workloads", name or s.cell.workload)
    cell = replace_struct(s.cell, workload=workload.name, params=workload.params(params))
    s = replace(s, cell=cell)
    known = descendants(os.getpid())
    with ahead() if cell.priority == "real-time" else nullcontext(), ExitStack() as clients:
        with workload.serve(s):
            servers = descendants(os.getpid()) - known
            client = clients.enter_context(workload.start(s))
            if cell.priority == "real-time":
                raised(servers, SERVER)
                raised([client.pid], CLIENT)
            client.wait(20.0)
        found = workload.measurements(s)
    (value,) = (one.value for one in found.readings if one.metric == load.metric)
    return float(value)


def paired(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean log ratio of pairs and the half width of its 95 % interval (Student)."""
    logs = [math.log(one / other) for one, other in pairs]
    deviation = statistics.stdev(logs)
    return statistics.mean(logs), float(t.ppf(0.975, len(logs) - 1)) * deviation / math.sqrt(
        len(logs)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="tcp-rr")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--parts", type=int, default=12)
    parser.add_argument("--priority", choices=["real-time", "normal"], default="real-time")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args()
    workload = provider("workloads", asked.workload)
    params = workload.params(dict(one.split("=", 1) for one in asked.set))
    print(
        f"kernel {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} (1"
        f" min), {asked.workload}, slices of {LENGTH * 1e3:g} ms, {asked.priority} priority"
    )
    cells = {
        label: Cell(
            label=label,
            profile=profile,
            placement="inter",
            workload=asked.workload,
            params=params,
            priority=asked.priority,
        )
        for label, profile in LABELS.items()
    }
    load = workload.load(cells["a"])
    count = max(FEWEST, round(asked.seconds / asked.parts / len(LABELS) / (LENGTH + LEAD_IN)))
    slices: list[Slice] = []
    walls, controls = [], []
    by_hand: dict[str, list[tuple[float, float]]] = {label: [] for label in LABELS}
    ratios = []
    spent = {"slices": 0.0, "windows": 0.0}
    with ExitStack() as made, tempfile.TemporaryDirectory() as folder:
        raw = Path(folder)
        deployments = {}
        for number, (label, profile) in enumerate(LABELS.items(), 1):
            deployments[label] = LabDeployment(label, builtin()[profile], Options(), number)
            made.callback(deployments[label].remove)
        for part in range(asked.parts):
            began = time.monotonic()
            driven = rounds(deployments, cells, count, part, raw)
            spent["slices"] += time.monotonic() - began
            walls.append(driven.wall)
            controls.append(driven.control)
            slices += [replace(one, round=one.round + part * count) for one in driven.slices]
            rates = {
                label: load.rate(one.rate)
                for label, one in values([[*LABELS]], driven.slices).items()
            }
            began = time.monotonic()
            seen = {}
            for label in order([*LABELS], part, 0, 1):
                folder_of = raw / f"{label}-window-{part}"
                seen[label] = window(context(label, deployments[label], cells[label], folder_of))
                by_hand[label].append((rates[label], seen[label]))
            spent["windows"] += time.monotonic() - began
            ratios.append((seen["flannel"], seen["a"]))
    fine, narrow = log_ratio(slices, "flannel", "a")
    same, equal = log_ratio(slices, "b", "a")
    coarse, wide = paired(ratios)
    print(f"slices:  {math.exp(fine):.4f} ± {narrow:.2%} in {spent['slices']:.1f} s")
    print(f"windows: {math.exp(coarse):.4f} ± {wide:.2%} in {spent['windows']:.1f} s")
    gain = (wide**2 * spent["windows"]) / (narrow**2 * spent["slices"])
    print(f"for the same half width windows take {gain:.1f} times as long")
    print(f"b to a in slices: {math.exp(same):.4f} ± {equal:.2%}")
    for label in LABELS:
        mean, half = paired(by_hand[label])
        print(f"{label}: slices / tool by hand = {math.exp(mean):.3f} ± {half:.1%}")
    within = len(slices) * (LENGTH + LEAD_IN)
    control = statistics.median(controls) / (LENGTH + LEAD_IN)
    print(
        f"a round takes {sum(walls) / within - 1:.1%} beyond its slices and lead-ins;"
        f" {control:.1%} is the control of a usual slice"
    )
    return 0


if __name__ == "__main__":
    sys.exit(tree.carry(main))
