"""Three bounds of the harness: its CPU time beside 99 + 99 background Pods, reading the state of
200 Pods, memory for 100 000 samples.

    python benchmarks/harness_scale.py [--cluster lab|kind] [--duration 10] [--profile
    veth-baseline] [--samples 100000]

Needs root; with kind what ``cnibench run --cluster kind`` needs (``--profile bridge-static`` takes
no chart). Prints each figure beside its bound; the exit status is always 0: the reader judges. The
samples of the memory's part are synthetic, written and read back by the real store in a process of
its own; nothing of them was measured.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cnibench.clusters.kind.cluster import KindCluster
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.model.cell import Cell, Reading
from cnibench.model.profile import builtin
from cnibench.planning.schedule import order
from cnibench.registry import provider, providers
from cnibench.run.collector import Collector
from cnibench.run.provenance import Measured, Provenance, lines
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.windows.sample import measure
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest, now
from cnibench.rundir.writer import RunWriter
from cnibench.testbed.cluster import Options

PODS = 99


class Own(Collector):
    """This process's own CPU time in the window, in seconds per second."""

    name = "own"
    title = "the harness itself"

    def __init__(self) -> None:
        self.share = 0.0

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        start, cpu = time.monotonic(), time.process_time()
        yield
        self.share = (time.process_time() - cpu) / (time.monotonic() - start)


def beside_load(
    deployment: LabDeployment | KubernetesDeployment, folder: Path, duration: float
) -> float:
    """The harness's share of a core while netperf is measured beside 99 connections over 99 + 99
    Pods.
    """
    workload = provider("workloads", "tcp-rr-under-load")
    params = workload.params({"connections": PODS, "pods": PODS, "rate": "1M"})
    cell = Cell(
        label="x",
        profile=deployment.label,
        placement="inter",
        workload=workload.name,
        params=params,
    )
    client, server = deployment.pair("inter")
    s = SampleContext(cell, 0, deployment, client, server, duration, 0.0, folder, None, None)
    own = Own()
    others = [
        collector for collector in providers("collectors").values() if "speed" in collector.windows
    ]
    measure(s, workload, [own, *others])
    return own.share


def node_state(deployment: LabDeployment | KubernetesDeployment) -> tuple[list[float], list[float]]:
    """(seconds, seconds of CPU) that it takes to read the counters of all Pods, ten times."""
    pods = list(deployment.pods())
    wall, cpu = [], []
    for _ in range(10):
        start, own = time.monotonic(), time.process_time()
        for file in ("/proc/net/dev", "/proc/net/snmp"):
            deployment.read_texts(pods, file)
        wall.append(time.monotonic() - start)
        cpu.append(time.process_time() - own)
    return wall, cpu


def store(samples: int) -> None:
    """Writes a run of so many samples, then reads what is done, as a resumed run does; prints the
    most memory that it took, in bytes.
    """
    cells = [
        Cell(
            label=f"profile-{number % 20}",
            profile=f"profile-{number % 20}",
            placement="inter",
            workload="tcp-rr",
            params={"n": number // 20},
        )
        for number in range(200)
    ]
    each = 10
    manifest = Manifest(
        id="synthetic",
        name="synthetic",
        created=now(),
        command=["cnibench"],
        tool_version="0",
        seed=1,
        blocks=samples // each // len(cells),
        duration=1,
        warmup=0,
        cluster="lab",
        cells=cells,
        profiles={},
    )
    readings = [
        Reading(metric="transaction_rate", value=1.0, params={"reading": number})
        for number in range(each)
    ]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "run"
        with RunWriter.create(path, manifest) as writer:
            for block in range(manifest.blocks):
                for cell in order(cells, block, 1):
                    moment = now()
                    found = Measured(Measurements(readings), moment, moment)
                    writer.finish(
                        cell,
                        block,
                        lines(cell, block, Provenance("lab", "veth", "", "baseline"), found),
                    )
        written = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        done = len(RunReader(path).done())
    print(written, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, done)


def print_result(deployment: LabDeployment | KubernetesDeployment, duration: float) -> None:
    """Prints what is found on a deployed profile."""
    with tempfile.TemporaryDirectory() as folder:
        share = beside_load(deployment, Path(folder), duration)
    print(f"CPU of the harness beside {PODS} + {PODS} Pods: {share:.2%} of a core; bound 3 %")
    wall, cpu = (statistics.median(times) * 1e3 for times in node_state(deployment))
    print(
        f"state of {len(list(deployment.pods()))} Pods: median {wall:.1f} ms, {cpu:.1f} ms of CPU"
        " time; bound 100 ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--duration", type=float, default=10.0)
    parser.add_argument("--cluster", default="lab", choices=("lab", "kind"))
    parser.add_argument("--profile", default="veth-baseline")
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--store", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.store:
        store(asked.store)
        return
    print(
        f"{asked.profile}, kernel {platform.release()}, {os.cpu_count()} CPUs, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    done = subprocess.run(
        [sys.executable, __file__, "--store", str(asked.samples)],
        capture_output=True,
        text=True,
        check=True,
    )
    written, read, cells = map(int, done.stdout.split())
    print(
        f"memory: {written / 1e6:.0f} MB to write {asked.samples} samples, {read / 1e6:.0f} MB to"
        f" resume them ({cells} cells); bound 150 MB"
    )
    profile = builtin()[asked.profile]
    if asked.cluster == "kind":
        with KindCluster(Options()) as cluster:
            print_result(cluster.install(asked.profile, profile), asked.duration)
        return
    with tree.entered():
        deployment = LabDeployment(asked.profile, profile, Options(), 1)
        try:
            print_result(deployment, asked.duration)
        finally:
            deployment.remove()


if __name__ == "__main__":
    main()
