"""Synthetic run directories: invented figures for tests of what reads runs. No figure in them was
ever measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cnibench.model.cell import Attestation, Cell, Sample
from cnibench.model.metrics import METRICS
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import (
    ATTESTATIONS,
    ENVIRONMENT,
    EVENTS,
    PLAN,
    RAW,
    SAMPLES,
    Manifest,
    Unsupported,
    coordinates,
)

DISTURBANCE = "netperf was stopped for 1.00 s of 2.00 s"
SCHEMA = 1  # of a version that did not chain its files: a test may edit them
WORK: Mapping[str, tuple[str, float]] = {
    "tcp-stream": ("throughput", 1e10),
    "tcp-rr": ("transaction_rate", 4e4),
}


def synthetic(
    folder: Path,
    truth: Mapping[str, float],
    *,
    blocks: int = 12,
    noise: float = 0.01,
    seed: int = 1,
    workloads: Sequence[str] = ("tcp-stream", "tcp-rr"),
    placements: Sequence[str] = ("intra", "inter"),
    name: str = "synthetic",
    environment: Mapping[str, Any] | None = None,
    fidelity: Mapping[str, str] | None = None,
    cpp: bool = True,
    unsupported: Sequence[Unsupported] = (),
    fail: Sequence[tuple[str, int]] = (),
    finished: bool = True,
    **manifest: Any,
) -> RunReader:
    """A run directory named by ``name`` below ``folder``: ``truth`` maps labels to factors of each
    workload's level, log-normal noise.

    ``fail`` are (label, block) that fail in every cell. ``manifest`` overrides fields of the
    manifest.
    """
    rng = np.random.default_rng(seed)
    cells = [
        Cell(
            label=label,
            profile=label,
            placement=placement,
            workload=workload,
            params={"size": 1},
            window=window,
        )  # type: ignore[arg-type]
        for label in truth
        for workload in workloads
        for placement in placements
        for window in (("speed", "cpp") if cpp else ("speed",))
    ]
    plan = Manifest(
        **{
            "schema": SCHEMA,
            "id": f"{name}-{seed}",
            "name": name,
            "created": "2026-01-01T00:00:00.000000Z",
            "command": ["cnibench", "run"],
            "tool_version": "0.1.0",
            "seed": seed,
            "blocks": blocks,
            "duration": 10.0,
            "warmup": 2.0,
            "cluster": "lab",
            "cells": cells,
            "profiles": {label: {"title": label} for label in truth},
            "unsupported": list(unsupported),
            **manifest,
        }
    )
    path = folder / name
    (path / RAW).mkdir(parents=True)
    (path / PLAN).write_bytes(msgspec.json.encode(plan))
    facts = {
        "kernel": "6.1.0",
        "cpu_model": "Synthetic CPU",
        "testbed": "lab",
        "wire": "veth",
        **(environment or {}),
    }
    (path / ENVIRONMENT).write_bytes(msgspec.json.encode({"schema": SCHEMA, **facts}))
    checks = [
        Attestation(
            label=label,
            profile=label,
            check="encapsulation",
            expected="none",
            observed="none",
            passed=True,
        )
        for label in truth
    ]
    _write(
        path / ATTESTATIONS,
        [{"schema": SCHEMA, **msgspec.structs.asdict(check)} for check in checks],
    )
    clock = datetime(2026, 1, 1, tzinfo=UTC)
    samples: list[Sample] = []
    records: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = [_event(clock, "run-started")]
    for block in range(blocks):
        common = 0.02 * rng.standard_normal()
        for cell in cells:
            clock += timedelta(seconds=12)
            factor = truth[cell.label] * math.exp(common + noise * rng.standard_normal())
            failed = (cell.label, block) in fail
            lines = [
                _sample(cell, block, clock, *reading, fidelity or {})
                for reading in _readings(cell, factor)
            ]
            if failed:
                gone = {
                    "metric": "",
                    "value": None,
                    "unit": "",
                    "status": "failed",
                    "reason": "the server is gone",
                }
                lines = [msgspec.structs.replace(lines[0], **gone)]
            if cell.window == "cpp" and not failed:
                records.append({**coordinates(cell, block), "schema": SCHEMA, **_cpp(factor)})
            samples += lines
            events.append(
                _event(
                    clock,
                    "cell-finished",
                    cell=cell.id,
                    block=block,
                    status=lines[0].status,
                    lines=len(lines),
                    sizes={},
                )
            )
    if finished:
        events.append(_event(clock, "run-finished", failed=0))
    for file, content in ((SAMPLES, samples), ("cpp.jsonl", records), (EVENTS, events)):
        _write(path / file, content)
    return RunReader(path)


def counted(folder: Path, counts: dict[str, list[float]]) -> RunReader:
    """A run whose metric is a count: label to its value in each block."""
    reader = synthetic(
        folder,
        dict.fromkeys(counts, 1.0),
        blocks=len(next(iter(counts.values()))),
        workloads=("tcp-rr",),
        placements=("intra",),
        cpp=False,
    )
    file = reader.path / "samples.jsonl"
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    lines = [line for line in lines if line["metric"] == "transaction_rate"]
    lines = [
        line
        | {
            "metric": "rules",
            "unit": "1",
            "better": "lower",
            "value": counts[line["label"]][line["block"]],
        }
        for line in lines
    ]
    _write(file, lines)
    return RunReader(reader.path)


def edited(
    run: RunReader, edit: Callable[[dict[str, Any]], dict[str, Any]], file: str = "samples.jsonl"
) -> RunReader:
    """The run after each line of ``file`` became what ``edit`` makes of it."""
    path = run.path / file
    _write(path, [edit(msgspec.json.decode(line)) for line in path.read_bytes().splitlines()])
    return RunReader(run.path)


def disturb(run: RunReader, which: Callable[[dict[str, Any]], bool], **change: Any) -> RunReader:
    """Marks those lines of samples.jsonl and of the records, and changes their figures."""
    for file, changes in (("samples.jsonl", change), ("cpp.jsonl", {"total": 1.0})):
        marks = {"disturbed": DISTURBANCE, **changes}
        run = edited(run, lambda line, m=marks: line | m if which(line) else line, file)
    return run


def _event(clock: datetime, kind: str, **what: Any) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "time": clock.isoformat().replace("+00:00", "Z"),
        "event": kind,
        **what,
    }


def _write(path: Path, lines: Sequence[Any]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _readings(cell: Cell, factor: float) -> list[tuple[str, float]]:
    metric, level = WORK[cell.workload]
    inter = 0.6 if cell.placement == "inter" else 1.0
    if cell.window == "cpp":
        return [(metric, 0.9 * level * factor * inter), ("cycles_per_packet", 2000 / factor)]
    return [(metric, level * factor * inter), ("retransmits", 0.0), ("cpu_softirq", 0.5 / factor)]


def _sample(
    cell: Cell, block: int, clock: datetime, metric: str, value: float, fidelity: Mapping[str, str]
) -> Sample:
    kind = METRICS[metric]
    return Sample(
        schema=SCHEMA,
        cell=cell.id,
        block=block,
        profile=cell.profile,
        label=cell.label,
        placement=cell.placement,
        path=cell.path,
        workload=cell.workload,
        params=cell.params,
        ip=cell.ip,
        mtu=cell.mtu,
        cpus=cell.cpus,
        pair=cell.pair,
        window=cell.window,
        testbed="lab",
        wire="veth",
        wire_offload="plain",
        metric=metric,
        value=value,
        unit=kind.unit,
        better=kind.better,
        fidelity=fidelity.get(cell.label, "datapath-model"),
        status="ok",
        start=clock.isoformat().replace("+00:00", "Z"),
        end=(clock + timedelta(seconds=10)).isoformat().replace("+00:00", "Z"),
    )


def _cpp(factor: float) -> dict[str, Any]:
    parts = {"netfilter": 300 / factor, "veth": 100 / factor, "tcp-ip": 1500 / factor}
    rest = 100 / factor
    return {
        "cycles_source": "estimated",
        "cycles": 2e9,
        "idle_cycles": 1e9,
        "packets": 1e6,
        "total": sum(parts.values()) + rest,
        "components": parts,
        "unclassified": rest,
        "functions": {"nf_hook_slow": [10.0, 300.0]},
        "samples": 5000,
        "taxonomy": "1",
    }
