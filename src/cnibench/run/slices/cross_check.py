"""One window of the workload's own tool for each cell that was measured in slices: what the kernel
counted in slices of milliseconds should be what the tool reports when it runs on.

Its samples are stored before, so that whatever happens to a window costs no sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from cnibench.errors import CnibenchError, EndedError, Interrupted
from cnibench.model.cell import Cell
from cnibench.planning.forecast import CROSS_CHECK
from cnibench.run.sample_context import SampleContext
from cnibench.run.sample_faults import private, recorded
from cnibench.run.session import Session
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.load import Load
from cnibench.run.slices.rounds import Value
from cnibench.run.windows.sample import measure
from cnibench.run.workload import Workload
from cnibench.rundir.files import FullError
from cnibench.rundir.writer import RunWriter
from cnibench.system.usage import look

SECONDS = 1.0  # of the window: what netperf and iperf3 take at least


def cross_checks(
    session: Session, measured: Sequence[tuple[Cell, Generator, Value]], block: int
) -> None:
    """Measures and stores a window for each of these cells that the run has none of yet, one after
    the other.

    Windows have ordinary priority. On a machine that other programs use they say nothing of the
    slices, whose priority is real-time, and have that as ``reason``.
    """
    writer = session.writer
    due = [one for one in measured if one[0].id not in writer.cross_checked]
    busy = look() if due else None  # while nothing of ours runs
    for cell, ended, value in due:
        session.progress.stage(f"cross-check of {cell.label} {cell.placement} {cell.workload}")
        s = replace(ended.s, raw=writer.raw_of_check(cell, block))
        record = cross_check(s, session.workloads[cell.workload], ended.load, writer)
        if busy and busy.disturbs:
            record["reason"] = record["reason"] or str(busy)
        record |= {"value": ended.load.rate(value.rate), "half_width": value.half}
        with session.stop.held():
            writer.cross_check(cell, block, record)
        session.progress.made(CROSS_CHECK)


def cross_check(
    s: SampleContext, workload: Workload, load: Load, writer: RunWriter
) -> dict[str, Any]:
    """The record of one cell: what the tool found (metric to value), or ``reason``, why it has no
    usable figure. ``s`` is the cell's own; its load generator has ended.

    Raises Interrupted, FullError and EndedError only: a tool that fails here says nothing about the
    slices.
    """
    record: dict[str, Any] = {"metric": load.metric, "seconds": SECONDS, "found": {}, "reason": ""}
    cell = msgspec.structs.replace(
        s.cell, params={**s.cell.params, **load.params()}, method="windows", duration=SECONDS
    )
    try:
        with recorded(s.raw, writer), private([s.raw]):
            s.deployment.reset_state()
            measured = measure(replace(s, cell=cell, duration=SECONDS), workload, ())
    except (Interrupted, FullError, EndedError):
        raise
    except CnibenchError as error:
        return record | {"reason": error.message}
    found = {one.metric: one.value for one in measured.findings.readings}
    return record | {"found": found, "reason": measured.disturbed}
