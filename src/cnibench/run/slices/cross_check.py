"""One window of the workload's own tool for each cell that was measured in slices: what the kernel
counted in slices of milliseconds should be what the tool reports when it runs on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from cnibench.errors import CnibenchError, EndedError, Interrupted
from cnibench.run.sample_context import SampleContext
from cnibench.run.sample_faults import private, recorded
from cnibench.run.slices.load import Load
from cnibench.run.windows.sample import measure
from cnibench.run.workload import Workload
from cnibench.rundir.files import FullError
from cnibench.rundir.writer import RunWriter

SECONDS = 1.0  # of the window: what netperf and iperf3 take at least


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
