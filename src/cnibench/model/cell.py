"""Cells and samples: what is measured, and the lines that samples.jsonl is made of (INTERFACE)."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cached_property
from typing import Any, Literal

import msgspec

Placement = Literal["intra", "inter"]
Window = Literal["speed", "cpp"]
Method = Literal["windows", "slices"]
Priority = Literal["real-time", "normal"]
Status = Literal["ok", "failed", "timeout", "unsupported"]

SCHEMA = 2


class Cell(msgspec.Struct, frozen=True, kw_only=True, dict=True):  # dict: for the id
    """One profile, placement, path, workload with its parameters and pinning. ``window`` is
    ``speed`` (no perf) or ``cpp`` (with perf).

    ``duration`` (s) and ``blocks`` are this cell's own where its plan gives it others than the
    run's; they are no part of its identity, and neither are ``method`` and ``priority`` (None: that
    of the method, see usual_priority).
    """

    label: str
    profile: str
    placement: Placement
    workload: str
    params: dict[str, Any] = {}
    window: Window = "speed"
    path: str = "pod"
    ip: int = 4
    mtu: int = 1500
    cpus: str = "shared"
    pair: int = 0
    duration: float | None = None
    blocks: int | None = None
    method: Method = "windows"
    priority: Priority | None = None

    @property
    def usual_priority(self) -> Priority:
        """Of client and server where none is asked for."""
        return "real-time" if self.method == "slices" else "normal"

    @cached_property
    def id(self) -> str:
        """Stable, readable, safe as a folder's name: the same cell has the same id in every run."""
        name = [] if re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", self.workload) else [self.workload]
        rest = json.dumps(
            [*name, self.params, self.path, self.mtu, self.cpus, self.pair, self.profile],
            sort_keys=True,
        )
        digest = hashlib.sha256(rest.encode()).hexdigest()[:8]
        label, workload = (
            re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:60] for text in (self.label, self.workload)
        )
        return f"{label}.{self.placement}.{workload}.ip{self.ip}.{self.window}.{digest}"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One figure in the SI base unit of its metric, as a workload or collector found it.

    ``params`` are added to the cell's own (for instance ``{"node": "a"}``), so that several
    readings of one metric stay apart.
    """

    metric: str
    value: float
    params: dict[str, Any] = {}


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One line of samples.jsonl: one metric of one cell in one block. A failed cell has one line
    with metric '' and value None.

    ``attempt`` counts from 1; the last attempt at a cell in a block is the one that counts.
    """

    schema: int = SCHEMA
    cell: str
    block: int
    profile: str
    label: str
    placement: str
    path: str
    workload: str
    params: dict[str, Any]
    ip: int
    mtu: int
    cpus: str
    pair: int
    window: str
    testbed: str
    wire: str
    wire_offload: str
    metric: str
    value: float | None
    unit: str
    better: str
    fidelity: str
    status: Status
    reason: str = ""
    warmup: bool = False
    # why this is no measurement of the profile (a stall, say) and is not used; '' when it is one
    disturbed: str = ""
    start: str
    end: str
    # What was in force; None on lines of earlier versions: then the run's plan says it.
    wire_rate: float | None = None  # bit/s, 0: unlimited
    pairs: int | None = None
    duration: float | None = None  # s, of the measured window
    warmup_time: float | None = None  # s
    method: str = "windows"
    slice_length: float = 0.0  # s that count of each slice; 0 in windows
    lead_in: float = 0.0  # s of each slice that do not count; 0 in windows
    priority: str = "normal"  # of client and server: normal, real-time
    congestion_control: str | None = None
    proxy: str = ""  # how Services were implemented; '': not recorded
    attempt: int = 1


AFTER_BLOCK = "kernel-state after a block"  # the check that all comparisons after a block passed


class Attestation(msgspec.Struct, frozen=True, kw_only=True):
    """One check of an installed profile: what its claim makes us expect, what was observed.
    ``block`` is the one after which it was made, None for checks of other moments.
    """

    label: str
    profile: str
    check: str
    expected: str
    observed: str
    passed: bool
    ip: int = 4
    block: int | None = None
