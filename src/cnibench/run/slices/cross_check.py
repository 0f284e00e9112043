"""One window of the load's own program for each cell that was measured in slices: what the kernel
counted in slices of milliseconds should be what the program reports when it runs on, with the same
parameters and at the same priority.

Its samples are stored before, so that whatever happens to a window costs no sample.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from cnibench.errors import CnibenchError, EndedError, LimitError
from cnibench.model.cell import Cell, Priority, Reading
from cnibench.planning.forecast import CROSS_CHECK
from cnibench.registry import provider
from cnibench.run.checks.stalls import Evidence, disturbed
from cnibench.run.sample_context import SampleContext
from cnibench.run.sample_faults import private, recorded
from cnibench.run.session import Session
from cnibench.run.slices.priority import CLIENT, SERVER, raised
from cnibench.run.slices.readings.clocks import descendants
from cnibench.run.slices.remote import AnyGenerator
from cnibench.run.slices.rounds import Value
from cnibench.run.slices.running import OUTPUT
from cnibench.run.workload import Workload
from cnibench.rundir.files import FullError
from cnibench.system import usage
from cnibench.system.usage import look

SECONDS = 1.0  # of the window: what netperf and iperf3 take at least
_DISTURBED = 0.1  # share of slices on another machine, whose other load nobody knows
_GRACE = 5.0  # s beyond what the window should take


def cross_checks(
    session: Session,
    measured: Sequence[tuple[Cell, AnyGenerator, Value]],
    block: int,
    meanwhile: Callable[[], None],
) -> None:
    """Measures and stores a window for each of these cells that the run has none of yet, one after
    the other; ``meanwhile`` is called after each.

    At normal priority and on a machine that other programs use, a window says nothing of the
    slices, and has that as ``reason``.
    """
    writer = session.writer
    due = [one for one in measured if one[0].id not in writer.cross_checked]
    normal = any(_priority(ended) == "normal" and _is_here(ended) for _, ended, _ in due)
    busy = look() if normal else None  # while nothing of ours runs
    for cell, ended, value in due:
        session.progress.stage(f"cross-check of {cell.label} {cell.placement} {cell.workload}")
        record = _cross_check(session, ended, writer.raw_of_check(cell, block))
        if busy and busy.disturbs and _priority(ended) == "normal":
            record["reason"] = record["reason"] or str(busy)
        elif not _is_here(ended) and value.left_out > _DISTURBED * value.rounds:
            record["reason"] = record["reason"] or (
                f"{value.left_out} of {value.rounds} slices were disturbed, and the window may be"
            )
        elif _priority(ended) == "real-time" and not _is_here(ended):
            record["tool_priority"] = "normal"
            record["reason"] = record["reason"] or (
                "windows on other machines have normal priority, and the slices had real-time"
                " priority"
            )
        record |= {"value": ended.load.rate(value.rate), "half_width": value.half}
        with session.stop.held():
            writer.cross_check(cell, block, record)
        session.progress.made(CROSS_CHECK)
        meanwhile()


def _is_here(ended: AnyGenerator) -> bool:
    """Do its programs run on this machine?"""
    return ended.s.client.local


def _priority(ended: AnyGenerator) -> Priority:
    """That of the cell's slices."""
    return "normal" if ended.priority else ended.wanted


def _cross_check(session: Session, ended: AnyGenerator, raw: Path) -> dict[str, Any]:
    """The record of one cell: what its program found (metric to value), or ``reason``, why it has
    no usable figure. Its load generator has ended.

    Raises FullError and EndedError only: a program that fails here says nothing about
    the slices.
    """
    load, priority = ended.load, _priority(ended)
    name, params = load.window(ended.s.cell.params)
    workload: Workload = (
        provider("workloads", name) if name else session.workloads[ended.s.cell.workload]
    )
    cell = msgspec.structs.replace(
        ended.s.cell,
        workload=workload.name,
        params=workload.params(params),
        method="windows",
        priority=priority,
        duration=SECONDS,
    )
    s = replace(ended.s, cell=cell, duration=SECONDS, raw=raw)
    record: dict[str, Any] = {
        "metric": load.metric,
        "tool": workload.name,
        "tool_priority": priority,
        "seconds": SECONDS,
        "found": {},
        "reason": "",
    }
    try:
        with recorded(raw, session.writer), private([raw]):
            s.deployment.reset_state()
            readings, reason = _window(s, workload)
    except (FullError, EndedError):
        raise
    except CnibenchError as error:
        return record | {"reason": error.in_full}
    return record | {"found": {one.metric: one.value for one in readings}, "reason": reason}


def _window(s: SampleContext, workload: Workload) -> tuple[Sequence[Reading], str]:
    """What the workload's program reports of ``s.duration``, and what disturbed it, in words.
    Programs inherit the priority that their first process is given.
    """
    before, known = usage.read(), descendants(os.getpid())
    here, refused = s.client.local, ""  # of another machine no process is of ours by its number
    real_time = here and s.cell.priority == "real-time"
    # The server ends first: at its higher priority it can keep a dying client from their CPU.
    with ExitStack() as clients, workload.serve(s):
        if real_time:
            refused = raised(descendants(os.getpid()) - known, SERVER)
        began = time.monotonic()
        client = clients.enter_context(workload.start(s))
        if real_time:
            refused = refused or raised([client.pid], CLIENT)
        longest = workload.longest(s.cell.params, s.duration) + _GRACE
        client.watch(longest)
        if client.poll() is None:
            raise LimitError(f"{workload.name} did not end within {longest:.0f} s", OUTPUT)
        taken = time.monotonic() - began
    if not here:
        return workload.measurements(s).readings, ""
    share = usage.between(before, usage.read())
    others = share.others if s.client.of_lab else None
    seen = Evidence(taken, steal=share.steal, throttled=share.throttled, others=others)
    return workload.measurements(s).readings, refused or disturbed(seen)
