"""Synthetic runs of one machine, one a night."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnibench.rundir.reader import RunReader
from tests.unit._runs import synthetic


def nights(
    folder: Path,
    levels: Mapping[str, Sequence[float]],
    *,
    noise: float = 0.005,
    machine: float = 0.0,
    facts: Sequence[Mapping[str, Any]] = (),
    seed: int = 1,
    **more: Any,
) -> list[RunReader]:
    """``levels``: label to its factor in each run, which scatters by ``noise``; ``machine`` is the
    scatter that all labels of a run share. ``facts`` are each run's environment.
    """
    rng = np.random.default_rng(seed)
    found = []
    for night in range(len(next(iter(levels.values())))):
        shared = machine * rng.standard_normal()
        truth = {
            label: row[night] * math.exp(shared + noise * rng.standard_normal())
            for label, row in levels.items()
            if row[night] > 0
        }
        run = synthetic(
            folder,
            truth,
            **{
                "name": f"n{night + 1:02d}",
                "seed": night + 1,
                "blocks": 4,
                "noise": 0.002,
                "cpp": False,
                "workloads": ("tcp-rr",),
                "placements": ("intra",),
                "environment": facts[night] if facts else None,
                **more,
            },
        )
        found.append(dated(run, f"2026-01-{night + 1:02d}"))
    return found


def dated(run: RunReader, day: str) -> RunReader:
    """The run as if it had been made on that day."""
    for name in ("events.jsonl", "plan.json", "samples.jsonl"):
        file = run.path / name
        file.write_text(file.read_text().replace("2026-01-01T", f"{day}T"))
    return RunReader(run.path)
