"""A/A runs of slices whose deployments, blocks and slices scatter by amounts that are known."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cnibench.run.slices import rounds
from cnibench.run.slices.rounds import Value
from cnibench.rundir.reader import RunReader
from tests.unit._runs import edited, synthetic
from tests.unit._slices import slice_of

LABELS = ("x.a", "x.b")
LEVEL = 4e4  # 1/s


def nested_run(
    folder: Path,
    *,
    deployments: int = 60,
    kept: int = 2,
    slices: int = 12,
    sds: tuple[float, float, float] = (0.01, 0.01, 0.03),
    method: str = "slices",
    name: str = "nested",
    seed: int = 1,
    values: Mapping[tuple[str, int], float] | None = None,
    fail: Sequence[tuple[str, int]] = (),
    **manifest: Any,
) -> RunReader:
    """``sds`` are of one label: between deployments, between blocks, of one slice. ``values`` takes
    the place of single blocks' values.
    """
    rng = np.random.default_rng(seed)
    blocks = deployments * kept
    run = synthetic(
        folder,
        dict.fromkeys(LABELS, 1.0),
        blocks=blocks,
        noise=0.0,
        seed=seed,
        workloads=("tcp-rr",),
        placements=("intra",),
        cpp=False,
        name=name,
        fail=fail,
        main={"tcp-rr": "transaction_rate"},
        deployment_blocks=kept,
        duration=0.25,
        **manifest,
    )
    own = {
        label: np.repeat(sds[0] * rng.standard_normal(deployments), kept)
        + sds[1] * rng.standard_normal(blocks)
        for label in LABELS
    }
    found: dict[tuple[str, int], Value] = {}
    for block in range(blocks):
        taken = [
            slice_of(label, number, LEVEL * math.exp(own[label][block] + sds[2] * error))
            for label in LABELS
            for number, error in enumerate(rng.standard_normal(slices))
        ]
        for label, value in rounds.values([LABELS], taken).items():
            found[label, block] = value

    def changed(line: dict[str, Any]) -> dict[str, Any]:
        key = (line["label"], line["block"])
        line = {**line, "method": method, "duration": 0.25}
        if line["metric"] == "transaction_rate":
            line["value"] = (values or {}).get(key, found[key].rate)
        return line

    run = edited(run, changed)
    ids = {cell.label: cell.id for cell in run.plan.cells}
    if method == "slices":
        plan = json.loads((run.path / "plan.json").read_text())
        plan["cells"] = [{**cell, "method": method, "duration": 0.25} for cell in plan["cells"]]
        (run.path / "plan.json").write_text(json.dumps(plan))
        records = [
            {
                "schema": 1,
                "cell": ids[label],
                "block": block,
                "rounds": slices,
                "left_out": 0,
                "half_width": value.half,
            }
            for (label, block), value in found.items()
        ]
        _write(run.path / "slices.jsonl", records)
    _write(run.path / "events.jsonl", _deployed(run.events(), kept))
    return RunReader(run.path)


def _deployed(events: Sequence[dict[str, Any]], kept: int) -> list[dict[str, Any]]:
    """The events with the installations of each deployment before its first block."""
    found: list[dict[str, Any]] = []
    last = -1
    for event in events:
        block = event.get("block", -1)
        if event["event"] == "cell-finished" and block != last:
            if last >= 0:
                found.append({**event, "event": "block-finished", "block": last})
            if block % kept == 0:
                found += [{**event, "event": "profile-installed", "label": label} for label in "ab"]
            last = block
        found.append(event)
    return found


def _write(path: Path, lines: Sequence[Any]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
