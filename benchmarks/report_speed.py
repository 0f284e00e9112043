"""Time and peak memory of a report, as a ratio to a plain decoding pass over the same files; time
of making and verifying a bundle of them; and of deciding, which a run does between its blocks.

    python benchmarks/report_speed.py [SAMPLES ...]

The samples are synthetic: 15 profiles, 2 placements, 5 workloads (many blocks) or 22 (many cells),
5 metrics; of runs that decide, 4 to 16 profiles and one metric. Each figure is the best of three
runs in a process of its own. Targets: 1 000 000 samples in 30 s; a bundle of 100 000 made in 5 s,
and verified in 5 s; 16 profiles, 24 cells, 30 blocks in 3 s; a look in 50 ms.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cnibench.cli.main import GARBAGE

_PROFILES, _WORKLOADS, _MANY, _METRICS = (
    15,
    5,
    22,
    ("throughput", "retransmits", "cpu_softirq", "latency_p50", "packets"),
)
_LARGEST_BUNDLE = 400  # MB of samples; verify reads no larger one


def write(
    folder: Path,
    blocks: int,
    profiles: int = _PROFILES,
    workloads: int = _WORKLOADS,
    metrics: Sequence[str] = _METRICS,
) -> None:
    """A synthetic run directory."""
    import numpy as np

    from cnibench.model.cell import Cell, Sample
    from cnibench.model.metrics import METRICS
    from cnibench.rundir.schema import Manifest
    from cnibench.rundir.writer import RunWriter

    rng = np.random.default_rng(1)
    cells = [
        Cell(
            label=f"profile-{p}",
            profile=f"profile-{p}",
            placement=placement,
            workload=f"workload-{w}",
            params={"size": 4194304},
        )
        for p in range(profiles)
        for placement in ("intra", "inter")
        for w in range(workloads)
    ]
    manifest = Manifest(
        id="synthetic",
        name="synthetic",
        created="2026-01-01T00:00:00Z",
        command=["cnibench", "run"],
        tool_version="0",
        seed=1,
        blocks=blocks,
        duration=10.0,
        warmup=2.0,
        cluster="lab",
        cells=cells,
        profiles={f"profile-{p}": {} for p in range(profiles)},
        main={f"workload-{w}": metrics[0] for w in range(workloads)},
        until_decided=True,
    )
    with RunWriter.create(folder, manifest) as writer:
        writer.environment({"kernel": "6.1.0"})
        for block in range(blocks):
            for number, cell in enumerate(cells):
                second = block * len(cells) + number
                start = f"2026-01-{1 + second // 86400 % 28:02d}T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000000Z"  # noqa: E501
                lines = []
                for metric in metrics:
                    kind = METRICS[metric]
                    line = Sample(
                        cell=cell.id,
                        block=block,
                        profile=cell.profile,
                        label=cell.label,
                        placement=cell.placement,
                        path=cell.path,
                        workload=cell.workload,
                        params=cell.params,
                        ip=4,
                        mtu=1500,
                        cpus="shared",
                        pair=0,
                        window="speed",
                        testbed="lab",
                        wire="veth",
                        wire_offload="plain",
                        metric=metric,
                        value=float(1e9 * np.exp(0.02 * rng.standard_normal())),
                        unit=kind.unit,
                        better=kind.better,
                        fidelity="datapath-model",
                        status="ok",
                        start=start,
                        end=start,
                    )
                    lines.append(line)
                writer.finish(cell, block, lines)
        writer.event("run-finished", failed=0)


def decode(folder: Path) -> None:
    """The plain pass: every line decoded as what it is, by the fastest decoder that we know, and
    thrown away.
    """
    import msgspec

    from cnibench.model.cell import Sample

    decoder = msgspec.json.Decoder(Sample)
    with (folder / "samples.jsonl").open("rb") as file:
        for line in file:
            decoder.decode(line)


def report(folder: Path) -> None:
    """What ``cnibench report`` does, from the imports to the text."""
    from cnibench.analysis import analyse
    from cnibench.registry import provider
    from cnibench.rundir.reader import RunReader

    provider("reports", "text").render(analyse([RunReader(folder)]))


def make_bundle(folder: Path) -> None:
    """What ``cnibench bundle`` does."""
    from cnibench.reports.bundle.making import bundle
    from cnibench.rundir.reader import RunReader

    _bundle_of(folder).write_bytes(bundle(RunReader(folder)))


def verify_bundle(folder: Path) -> None:
    """What ``cnibench verify`` does with it."""
    from cnibench.reports.bundle.verifying import verified

    with verified(_bundle_of(folder)) as (found, _, _):
        assert not found.problems, found.problems


def _bundle_of(folder: Path) -> Path:
    return folder.with_name("run.cnibench")


def look(folder: Path, fewer: int = 0) -> None:
    """What a run does at a look, which has so many blocks ``fewer`` than the last one."""
    from cnibench.analysis.comparison.decided import decided
    from cnibench.rundir.reader import RunReader

    reader = RunReader(folder)
    decided(reader, reader.plan.blocks - fewer)


def measure(what: str, folder: Path) -> tuple[float, float]:
    """(CPU seconds, peak MB) of a process that does ``what``, the best of three."""
    best: tuple[float, float] = (float("inf"), 0.0)
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, __file__, "--child", what, str(folder)],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # as cnibench's own process
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        seconds, megabytes = json.loads(done.stdout)
        best = min(best, (seconds, megabytes))
    return best


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--child"]:
        tasks = {
            "decode": decode,
            "report": report,
            "bundle": make_bundle,
            "verify": verify_bundle,
            "look": look,
        }
        if arguments[1] == "look":
            look(Path(arguments[2]), fewer=2)  # a run has imported everything by its second look
        gc.set_threshold(GARBAGE)
        start = time.process_time()
        tasks[arguments[1]](Path(arguments[2]))
        print(
            json.dumps(
                [
                    time.process_time() - start,
                    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                ]
            )
        )
        return
    asked = [int(item) for item in arguments] or [100_000]
    for wished, workloads in itertools.product(asked, (_WORKLOADS, _MANY)):
        with tempfile.TemporaryDirectory(prefix="cnibench-") as scratch:
            folder = Path(scratch) / "run"
            cells = _PROFILES * 2 * workloads
            blocks = max(1, wished // (cells * len(_METRICS)))
            samples = blocks * cells * len(_METRICS)
            write(folder, blocks, workloads=workloads)
            size = (folder / "samples.jsonl").stat().st_size / 1e6
            (plain, _), (whole, peak) = measure("decode", folder), measure("report", folder)
            print(
                f"{samples} samples ({size:.0f} MB), {_PROFILES} profiles, {cells} cells,"
                f" {blocks} blocks: report {whole:.2f} s of CPU, plain"
                f" decoding {plain:.2f} s, ratio {whole / plain:.2f}; peak memory {peak:.0f} MB"
            )
            if size < _LARGEST_BUNDLE:
                (made, _), (checked, _) = measure("bundle", folder), measure("verify", folder)
                print(f"a bundle of them: made in {made:.2f} s of CPU, verified in {checked:.2f} s")
    for profiles, workloads, blocks in ((4, 2, 12), (8, 2, 12), (16, 2, 12), (16, 12, 30)):
        with tempfile.TemporaryDirectory(prefix="cnibench-") as scratch:
            folder = Path(scratch) / "run"
            write(folder, blocks, profiles, workloads, _METRICS[:1])
            (whole, _), (between, _) = measure("report", folder), measure("look", folder)
            print(
                f"{profiles} profiles x {2 * workloads} cells x {blocks} blocks: report"
                f" {whole:.2f} s of CPU, a look {1000 * between:.0f} ms"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
