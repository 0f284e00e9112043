"""Program: controls the loads whose programs run on this node. It is sent to the agent there
(system/carried.py), so that pausing and counting cost no round trip. Standard library only.

One request a line of JSON, one answer each: {number, do: the name of a method of Controller, ...}.
The answer has the same number. An error is {error: its class, message, remedy}. Before the answer
to a long one there are lines {alive: ...}.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from cnibench.errors import CnibenchError, MeasureError, as_data
from cnibench.run.slices.engine import drive
from cnibench.run.slices.priority import SERVER, raised
from cnibench.run.slices.readings.accepted import Accepted
from cnibench.run.slices.readings.clocks import Clocks, descendants
from cnibench.run.slices.readings.counters import Counted, Counter
from cnibench.run.slices.running import Running, seen
from cnibench.system import heartbeat, namespaces

MODULES = (
    "errors",
    "model.coordinates",
    "model.units",
    "run.slices.engine",
    "run.slices.looks",
    "run.slices.on_node",
    "run.slices.priority",
    "run.slices.readings.accepted",
    "run.slices.readings.clocks",
    "run.slices.readings.cost",
    "run.slices.readings.counters",
    "run.slices.readings.machine",
    "run.slices.readings.quota",
    "run.slices.readings.sock_diag",
    "run.slices.running",
    "run.slices.slice",
    "system.heartbeat",
    "system.namespaces",
    "system.usage",
)


_SIGN = 2.0  # s between signs of life
_LINE = 400  # bytes of /proc/stat, whose first line is shorter


class Controller:
    """``loads`` have their client here, ``servers`` only their server."""

    def __init__(self) -> None:
        self.counters: dict[str, Counter] = {}
        self.loads: dict[str, Running] = {}
        self.servers: dict[str, Clocks] = {}

    def count(self, cell: str, process: int, kind: Any, arguments: list[Any]) -> dict[str, Any]:
        """Makes the counter of a cell, before its client starts, in the network namespace of a
        process.
        """
        with _inside(process):
            self.counters[cell] = Counted(kind, tuple(arguments)).made()
        return {}

    def begin(self, cell: str, leader: int, unit: float, wanted: Any) -> dict[str, Any]:
        """The client has started: it is waited for until it delivers something."""
        running = self.loads[cell] = Running(unit, wanted)
        running.begun(leader, self.counters[cell])
        return {"congestion_control": running.congestion_control}

    def seen(self, process: int, port: int, ip: int) -> dict[str, Any]:
        """The congestion control of a server's end, in the network namespace of a process, while
        its client runs.
        """
        with _inside(process):
            accepted = Accepted(port, ip)
        try:
            return {"congestion_control": seen(accepted)}
        finally:
            accepted.close()

    def take(
        self, cell: str, leader: int, servers: list[int], cpus: list[int | None]
    ) -> dict[str, Any]:
        """The client that has begun is paused. ``servers`` are the programs of its server here."""
        running = self.loads[cell]
        clients, serving = _with_children([leader]), _with_children(servers)
        for pids, cpu, who in zip((clients, serving), cpus, ("client", "server"), strict=True):
            _check_pinned(pids, cpu, who)
        running.taken(clients, serving)
        return {"priority": running.priority}

    def serve(self, cell: str, servers: list[int], wanted: str, cpu: int | None) -> dict[str, Any]:
        """The server of a cell whose client is on another node: its CPU time is read."""
        serving = _with_children(servers)
        _check_pinned(serving, cpu, "server")
        self.servers[cell] = Clocks(serving)
        return {"priority": raised(serving, SERVER) if wanted == "real-time" else ""}

    def time(self) -> dict[str, Any]:
        """ns of CPU time of those servers by now."""
        return {cell: clocks.read()[0] for cell, clocks in self.servers.items()}

    def used(self) -> dict[str, Any]:
        """What all programs of this machine used of its CPUs by now, and what these loads and this
        program used, in s.
        """
        tick = os.sysconf("SC_CLK_TCK")
        with open("/proc/stat", "rb", buffering=0) as file:
            line = file.read(_LINE).partition(b"\n")[0]
        loads = sum(one.used() for one in self.loads.values())
        loads += sum(clocks.read()[0] for clocks in self.servers.values())
        return {
            "at": time.monotonic(),
            "used": heartbeat.used(line) / tick,
            "own": time.process_time() + loads / 1e9,
            "kernel": heartbeat.kernel(),
            "cpus": os.cpu_count() or 1,
        }

    def drive(
        self, cells: list[str], rounds: int, block: int, seed: int, length: float, lead_in: float
    ) -> dict[str, Any]:
        """The rounds; ``units`` is what each cell delivered in all of its turns, lead-ins
        included. Says now and then that it is alive.
        """
        loads = {cell: self.loads[cell] for cell in cells}
        before = {cell: load.read().count for cell, load in loads.items()}
        driven = drive(loads, rounds, block, seed, length=length, lead_in=lead_in, after=_alive())
        left = {cell: load for cell, load in loads.items() if cell not in driven.failed}
        units = {
            cell: (load.read().count - before[cell]) * load.unit for cell, load in left.items()
        }
        return {
            **asdict(driven),
            "failed": {cell: as_data(error) for cell, error in driven.failed.items()},
            "units": units,
        }


def _alive() -> Callable[[int, object], None]:
    said = time.monotonic()

    def after(done: int, slices: object) -> None:
        nonlocal said
        if time.monotonic() - said >= _SIGN:
            said = time.monotonic()
            print(json.dumps({"alive": done}), flush=True)

    return after


@contextmanager
def _inside(process: int) -> Iterator[None]:
    """The calling thread in the network namespace of a process."""
    fd = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with namespaces.inside(fd, "net"):
            yield
    finally:
        os.close(fd)


def _with_children(roots: list[int]) -> list[int]:
    found = set(roots)
    for root in roots:
        found |= descendants(root)
    return sorted(found)


def _check_pinned(pids: list[int], cpu: int | None, who: str) -> None:
    for pid in pids if cpu is not None else ():
        try:
            allowed = os.sched_getaffinity(pid)
        except ProcessLookupError:
            continue
        if allowed != {cpu}:
            raise MeasureError(
                f"its {who} may run on the CPUs {', '.join(map(str, sorted(allowed)))}, and"
                f" {cpu} was asked for",
                "--cpus none pins nothing",
            )


def main() -> None:
    """Until its input ends."""
    controller = Controller()
    for line in sys.stdin:
        request = json.loads(line)
        number = request.pop("number", 0)
        try:
            answer = getattr(controller, request.pop("do"))(**request)
        except CnibenchError as error:
            answer = as_data(error)
        except OSError as error:
            said = f"{error.strerror}: {error.filename}"
            answer = as_data(
                MeasureError(said, "has a Pod of the pair started again? kubectl get pods")
            )
        print(json.dumps({**answer, "number": number}), flush=True)


if __name__ == "__main__":
    main()
