"""Real-time priority for what is measured, and for whoever measures it (sched(7)).

One load runs at a time, for some milliseconds, and the kernel keeps a share of each second for
others (kernel.sched_rt_runtime_us), so the machine stays usable. Where it keeps none, nothing has
real-time priority.

The server has the higher priority of the two: a waking receiver then runs at once, as the fair
scheduler has it. With one priority for both it waits until the sender blocks, and a stream has
megabytes in flight that it would not have (docs/adr/0009-slices.md).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cnibench.errors import MeasureError
from cnibench.model.coordinates import UNREAD

CLIENT, SERVER, HARNESS = 1, 2, 3  # priorities of SCHED_RR
REFUSED = "real-time priority was refused"
_BOUND = Path("/proc/sys/kernel/sched_rt_runtime_us")
_PERIOD = Path("/proc/sys/kernel/sched_rt_period_us")


def raised(pids: Iterable[int], priority: int) -> str:
    """Gives all threads of the processes that priority and reads it back; '' when they have it,
    else why not.
    """
    if refused := _unbounded():
        return refused
    for pid in pids:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(priority))
                if os.sched_getscheduler(int(thread)) != os.SCHED_RR:
                    return f"{REFUSED} (it did not hold)"
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended: its generator says so
        except OSError as error:
            return f"{REFUSED} ({error.strerror})"
    return ""


def _unbounded() -> str:
    """Why nothing may have real-time priority here; '' when it may."""
    figures = []
    for path in (_BOUND, _PERIOD):
        try:
            figures.append(int(path.read_text()))
        except OSError as error:
            return f"{REFUSED} (kernel.{path.name}: {error.strerror})"
    return unbounded(*figures)


def unbounded(runtime: int, period: int) -> str:
    """Why real-time programs that may run for ``runtime`` of each ``period`` us are refused; ''
    when the kernel keeps a share for others. -1: it keeps none, as with the whole period.
    """
    if 0 <= runtime < period:
        return ""
    of = f" of {period}" if runtime >= 0 else ""
    return f"{REFUSED} (kernel.sched_rt_runtime_us is {runtime}{of}: the machine could hang)"


def remedy(refused: str) -> str:
    """What makes real-time priority possible, of the reason why it was refused."""
    if f"{_BOUND.name} is" in refused:
        # The kernel's defaults; the period first, which must not be below the runtime.
        return f"sysctl -w kernel.{_PERIOD.name}=1000000 kernel.{_BOUND.name}=950000"
    return "run it with CAP_SYS_NICE"


def priority_of(pid: int) -> str:
    """``real-time`` or ``normal``, as the kernel has it; UNREAD of a program that is gone."""
    try:
        policy = os.sched_getscheduler(pid)
    except ProcessLookupError:
        return UNREAD
    return "real-time" if policy in (os.SCHED_RR, os.SCHED_FIFO) else "normal"


def check_normal(pids: Iterable[int]) -> None:
    """Raises MeasureError when one of these programs has real-time priority all the same."""
    for pid in pids:
        if priority_of(pid) == "real-time":
            raise MeasureError(
                f"its program {pid} has real-time priority, and --priority normal was asked for",
                "start cnibench, and what it starts, without chrt",
            )


def refusal() -> str:
    """Why the kernel does not give this thread real-time priority; '' when it does."""
    with ahead() as refused:
        return refused


@contextlib.contextmanager
def ahead() -> Iterator[str]:
    """The calling thread before all loads; programs that it starts meanwhile are as before. Gives
    '' or why it could not be.
    """
    if refused := _unbounded():
        yield refused
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(HARNESS))
    except OSError as error:
        yield f"{REFUSED} ({error.strerror})"
        return
    try:
        yield ""
    finally:
        try:
            os.sched_setscheduler(0, policy, parameters)
        except PermissionError:  # only CAP_SYS_NICE takes the flag back, RLIMIT_RTPRIO does not
            os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, parameters)
