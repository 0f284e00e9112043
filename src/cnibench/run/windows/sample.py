"""One sample: a workload driven inside the window of the collectors, and what was found as lines
for the store.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from cnibench.errors import CnibenchError, MeasureError
from cnibench.model import conditions
from cnibench.model.coordinates import NONE, UNREAD
from cnibench.run.checks import congestion, stalls
from cnibench.run.checks.cpus import check_pinned
from cnibench.run.checks.stall_monitor import watch
from cnibench.run.checks.stalls import Evidence
from cnibench.run.collector import Collector
from cnibench.run.provenance import Measured
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.slices.priority import priority_of
from cnibench.run.task import Task
from cnibench.run.windows.cpu_time import CpuTime, reading
from cnibench.run.workload import Workload
from cnibench.rundir.reader import STALLS
from cnibench.rundir.schema import now
from cnibench.system.files import write_private
from cnibench.system.guest import inside
from cnibench.system.process import Process, ending
from cnibench.testbed.capabilities.cell_conditions import CellConditions

_MARGIN = 0.5  # s: what the window leaves out at each end, where client and server start and stop
_LEAST = 0.2  # of a window that must be left once all pairs' clients have started
_SEEN = 3.0  # s for a connection to be seen: a loaded machine is slow to make it
_SHORTEST = 1.0  # s: no client of whole seconds runs for less
# times as long a client runs under emulation, where the readers take a second or more to begin
_HEADROOM = 2.0
# seconds beyond its time that a client may take to end: a loaded machine is slow to, a dead peer
# never does
_GRACE = 20.0


def measure(s: SampleContext, workload: Workload, collectors: Sequence[Collector]) -> Measured:
    """Drives ``workload`` once and reads ``collectors`` during the middle of it.

    Raises MeasureError (LimitError when the client does not end) and ClusterError; whatever was
    started is gone then, too.
    """
    return measure_pairs([(s, collectors)], workload)[0]


def measure_pairs(
    pairs: Sequence[tuple[SampleContext, Sequence[Collector]]], workload: Workload
) -> list[Measured]:
    """The same with several pairs at the same time: all servers first, then all warm-ups, then all
    clients; one window for all collectors.

    What goes wrong with one pair goes wrong with all: the others did not run beside what they were
    to run beside. Raises as ``measure``.
    """
    emulated = inside() == "tcg"
    pairs = [
        (replace(s, duration=s.duration * _HEADROOM) if emulated else s, collectors)
        for s, collectors in pairs
    ]
    window = pairs[0][0].duration / (_HEADROOM if emulated else 1)
    margin = min(_MARGIN, window / 10)
    all_of_them = [s for s, _ in pairs]
    found = [Measurements() for _ in pairs]
    cpu_times = [CpuTime(s, workload) for s in all_of_them]
    with watch(all_of_them) as watched, ExitStack() as served:
        for s, into, cpu_time in zip(all_of_them, found, cpu_times, strict=True):
            with _named(s, all_of_them):
                if asked := conditions.of(s.cell.params):
                    made = served.enter_context(
                        CellConditions.of(s.deployment).apply_conditions(
                            asked, s.client, s.server, s.cell
                        )
                    )
                    into.records += [("conditions", record) for record in made]
                with cpu_time.starting():
                    served.enter_context(workload.serve(s))
        _warm_up(all_of_them, workload)
        with ExitStack() as prepared:
            for s, collectors in pairs:
                for collector in collectors:
                    prepared.enter_context(collector.prepare(s))
            watched.await_ready()
            began, clients = time.monotonic(), list[tuple[str, Process]]()
            for s in all_of_them:
                with _named(s, all_of_them):
                    clients.append((now(), prepared.enter_context(workload.start(s))))
            priorities = [
                "normal"
                if isinstance(client, Task) or not s.client.local
                else priority_of(client.pid)
                for s, (_, client) in zip(all_of_them, clients, strict=True)
            ]
            clients[0][1].watch(margin)
            algorithms = _congestion(all_of_them, workload, [client for _, client in clients])
            for s, (_, client) in zip(all_of_them, clients, strict=True):
                if s.client_cpu is not None and s.client.local and not isinstance(client, Task):
                    with _named(s, all_of_them):
                        check_pinned(client.pid, s.client_cpu, "its client")
            with _observing(pairs, found):
                late = time.monotonic() - began
                left = (
                    all_of_them[0].duration - margin - late
                )  # before a client ends, however long they took
                if len(pairs) > 1 and left < _LEAST * window:
                    raise MeasureError(
                        f"starting {len(pairs)} pairs took most of their window",
                        "use a longer --duration or fewer --pairs",
                    )
                # what is counted may end sooner, and without collectors nothing is late
                timed = workload.collected and not workload.counts and any(c for _, c in pairs)
                if timed and late > max(_SHORTEST, all_of_them[0].duration):
                    raise MeasureError(
                        f"the workload ended before the collectors started ({late:.1f} s)",
                        "use a longer --duration",
                    )
                with reading(cpu_times, [client for _, client in clients]):
                    clients[0][1].watch(min(left, window - 2 * margin))
            ended = [
                _wait(s, client, workload, all_of_them, began)
                for s, (_, client) in zip(all_of_them, clients, strict=True)
            ]
            longest = (
                workload.longest(pairs[0][0].cell.params, pairs[0][0].duration)
                if workload.collected
                else math.inf
            )
            evidence = [
                _with_known_load(one, s, workload)
                for s, one in zip(
                    all_of_them,
                    watched.evidence([(began, over, longest) for _, _, over in ended]),
                    strict=True,
                )
            ]
        measured = []
        for s, into, cpu_time, (start, client), (status, end, _), seen, algorithm, priority in zip(
            all_of_them,
            found,
            cpu_times,
            clients,
            ended,
            evidence,
            algorithms,
            priorities,
            strict=True,
        ):
            with _named(s, all_of_them):
                _note(s, client.argv, status, start, end)
                driven = workload.measurements(s)
                if status != 0:
                    raise MeasureError(
                        f"{client.argv[0]} {ending(status)}",
                        "its output is in the sample's raw folder",
                    )
            disturbed = stalls.disturbed(seen)
            records = [*driven.records, *into.records]
            if disturbed:  # who reads records leaves these out
                records = [(name, {**record, "disturbed": disturbed}) for name, record in records]
            records.append((STALLS, seen.record(disturbed)))
            measured.append(
                Measured(
                    Measurements(
                        [*driven.readings, *into.readings, *cpu_time.readings(driven)], records
                    ),
                    start,
                    end,
                    disturbed,
                    algorithm,
                    priority,
                )
            )
    return measured


def _with_known_load(seen: Evidence, s: SampleContext, workload: Workload) -> Evidence:
    """On a cluster it is not known what other programs used where the load is more than client and
    server, nor while cycles are counted: then cnibench itself has programs on the nodes.
    """
    known = workload.alone and workload.collected and s.cell.window == "speed"
    return seen if s.client.of_lab or known else seen.on_nodes(())


def _congestion(
    pairs: Sequence[SampleContext], workload: Workload, clients: Sequence[Process]
) -> list[str]:
    """The congestion control of each pair's connection, read before the collectors begin: UNREAD
    where the client ended before it could be read, NONE where there is no connection.

    Raises MeasureError when it is not what was asked for, or cannot be seen although it runs on.
    """
    ports = [workload.data_port(s) for s in pairs]

    def read(number: int) -> str:
        if not ports[number]:
            return NONE
        client = clients[number]
        return congestion.of_sample(
            pairs[number], ports[number], _SEEN, lambda: client.poll() is not None
        )

    if len(pairs) == 1:
        found = [read(0)]
    else:
        with ThreadPoolExecutor(max_workers=len(pairs)) as pool:
            found = list(pool.map(read, range(len(pairs))))
    for s, client, said in zip(pairs, clients, found, strict=True):
        if s.congestion_control and not said and client.poll() is None:
            raise MeasureError(
                f"the congestion control of its connection could not be read: within {_SEEN:.0f} s"
                f" there was none on port {workload.data_port(s)}",
                "is the machine overloaded? a longer --duration leaves more time",
            )
    return [said or UNREAD for said in found]


@contextmanager
def _observing(
    pairs: Sequence[tuple[SampleContext, Sequence[Collector]]], found: Sequence[Measurements]
) -> Iterator[None]:
    """The collectors of all pairs, each pair's one after the other; several pairs' are opened, and
    closed, at the same time.
    """
    stacks = [ExitStack() for _ in pairs]
    several = [s for s, _ in pairs]

    def begin(number: int) -> None:
        s, collectors = pairs[number]
        for collector in collectors:
            stacks[number].enter_context(collector.observe(s, found[number]))

    def end(number: int) -> None:
        stacks[number].close()

    def everywhere(do: Callable[[int], None]) -> None:
        if len(pairs) == 1:
            do(0)
            return
        with ThreadPoolExecutor(max_workers=len(pairs)) as pool:
            jobs = [pool.submit(do, number) for number in range(len(pairs))]
        for s, job in zip(several, jobs, strict=True):
            with _named(s, several):
                job.result()

    try:
        everywhere(begin)
        yield
    except BaseException:
        for stack in stacks:  # nothing is read any more
            stack.__exit__(*sys.exc_info())
        raise
    everywhere(end)


def _warm_up(pairs: Sequence[SampleContext], workload: Workload) -> None:
    warm = [s for s in pairs if s.warmup > 0]
    if len(warm) < 2:
        for s in warm:
            workload.warm_up(s)
        return
    with ThreadPoolExecutor(max_workers=len(warm)) as pool:
        for s, job in [(s, pool.submit(workload.warm_up, s)) for s in warm]:
            with _named(s, pairs):
                job.result()


def _wait(
    s: SampleContext,
    client: Process,
    workload: Workload,
    pairs: Sequence[SampleContext],
    began: float,
) -> tuple[int, str, float]:
    """(exit status, when it had ended, the same in s of CLOCK_MONOTONIC)"""
    longest = workload.longest(s.cell.params, s.duration)
    with _named(s, pairs):
        return (
            client.wait(max(0.0, longest + _GRACE - (time.monotonic() - began))),
            now(),
            time.monotonic(),
        )


@contextmanager
def _named(s: SampleContext, pairs: Sequence[SampleContext]) -> Iterator[None]:
    """Says of which pair an error is, where there are several."""
    try:
        yield
    except CnibenchError as error:
        if len(pairs) > 1:
            error.message = f"pair {s.cell.pair}, of {len(pairs)} at the same time: {error.message}"
        raise


def _note(s: SampleContext, argv: Sequence[str], status: int, start: str, end: str) -> None:
    """raw/CELL/BLOCK/cmd.json: what was run, as the parsers of tomorrow will want to know."""
    record: dict[str, Any] = {
        "argv": list(argv),
        "status": status,
        "start": start,
        "end": end,
        "duration": s.duration,
        "warmup": s.warmup,
        "client_cpu": s.client_cpu,
        "server_cpu": s.server_cpu,
        "cell": s.cell,
    }
    write_private(s.raw / "cmd.json", msgspec.json.encode(record) + b"\n")
