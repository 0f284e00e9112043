"""The manifest of a run that a test writes itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cnibench.model.cell import Cell
from cnibench.rundir.schema import Manifest


def manifest(cells: Sequence[Cell], **more: Any) -> Manifest:
    """Two blocks of windows of one second in the lab; ``more`` overrides fields."""
    fields: dict[str, Any] = {
        "id": "r",
        "name": "",
        "created": "2026-01-01T00:00:00.000000Z",
        "command": ["cnibench", "run"],
        "tool_version": "0",
        "seed": 1,
        "blocks": 2,
        "duration": 1.0,
        "warmup": 0.0,
        "cluster": "lab",
        "cells": list(cells),
        "profiles": {cell.label: {} for cell in cells},
    }
    return Manifest(**{**fields, **more})


def transactions(label: str, **more: Any) -> Cell:
    """tcp-rr on one node, of the profile of that name; ``more`` are further fields."""
    params = {"request": 1, "response": 1}
    return Cell(
        label=label, profile=label, placement="intra", workload="tcp-rr", params=params, **more
    )
