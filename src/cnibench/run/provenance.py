"""The lines of samples.jsonl: what was measured, with everything that was in force meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import msgspec

from cnibench.model import context
from cnibench.model.cell import Cell, Reading, Sample, Status
from cnibench.model.coordinates import UNREAD
from cnibench.model.metrics import metric
from cnibench.run.sample_context import Measurements
from cnibench.run.slices.engine import LEAD_IN, LENGTH
from cnibench.rundir.schema import now


@dataclass(frozen=True)
class Provenance:
    """What all samples of one installed profile have in common."""

    testbed: str
    wire: str
    wire_offload: str
    fidelity: str
    wire_rate: float = 0.0  # bit/s, 0: unlimited
    pairs: int = 1
    duration: float = 0.0  # s
    warmup_time: float = 0.0  # s
    priority: str = UNREAD  # both until they are read from a sample
    congestion_control: str = UNREAD
    proxy: str = ""  # as in Sample

    def of(self, cell: Cell) -> dict[str, Any]:
        """What was in force for a cell, its own conditions and duration included."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["wire_offload"] = context.wire_offload(cell.params, self.wire_offload)
        values["duration"] = cell.duration or self.duration
        values["method"] = cell.method
        if cell.method == "slices":
            values |= {"warmup_time": 0.0, "slice_length": LENGTH, "lead_in": LEAD_IN}
        return values


@dataclass(frozen=True)
class Measured:
    """What one sample gave; ``start`` and ``end`` in RFC 3339 are those of the measured client,
    ``disturbed`` as in Sample.
    """

    measurements: Measurements
    start: str
    end: str
    disturbed: str = ""
    congestion_control: str = UNREAD  # as in Provenance
    priority: str = "normal"  # as in Sample


def lines(cell: Cell, block: int, provenance: Provenance, measured: Measured) -> list[Sample]:
    """The lines of samples.jsonl of a sample that succeeded, one a reading."""
    empty = _line(cell, block, provenance, "ok", "", measured.start, measured.end)
    empty = msgspec.structs.replace(
        empty,
        disturbed=measured.disturbed,
        congestion_control=measured.congestion_control,
        priority=measured.priority,
    )
    return [_with(empty, reading) for reading in measured.measurements.readings]


def failure(
    cell: Cell, block: int, provenance: Provenance, status: Status, reason: str, start: str
) -> list[Sample]:
    """The one line of a sample that failed."""
    return [_line(cell, block, provenance, status, reason, start, now())]


def _line(
    cell: Cell,
    block: int,
    provenance: Provenance,
    status: Status,
    reason: str,
    start: str,
    end: str,
) -> Sample:
    return Sample(
        **context.of_cell(cell),
        **provenance.of(cell),
        cell=cell.id,
        block=block,
        metric="",
        value=None,
        unit="",
        better="",
        status=status,
        reason=reason,
        start=start,
        end=end,
    )


def _with(empty: Sample, reading: Reading) -> Sample:
    known = metric(reading.metric)
    return msgspec.structs.replace(
        empty,
        metric=known.name,
        value=reading.value,
        unit=known.unit,
        better=known.better,
        params={**empty.params, **reading.params},
    )
