"""Memory and CPU time of the CNI's own processes: resident memory that is theirs, and CPU seconds per second, over the window.

The lab's models are kernel objects; only those whose CNI forwards packets in user space have a process there, and it is our model of that
program: where there is none, the record says so. What the model's rules, maps and devices take is in the kernel, and not in these figures.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cnibench.cluster import Node
from cnibench.collector import Collector
from cnibench.collectors import _counters
from cnibench.errors import CnibenchError, MeasureError
from cnibench.situation import Findings, Situation

NONE = "no process of the CNI runs in the lab's model"
NO_AGENT = "the CNI has no process that stays: its plugins run while a Pod is made, and not longer"
_EVERY = 1.0  # s between two readings of the memory
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


def resident(statm: str) -> int:
    """Bytes in /proc/PID/statm (proc_pid_statm(5)) that are the process's own: resident, without pages of files."""
    fields = statm.split()
    return (int(fields[1]) - int(fields[2])) * _PAGE


def cpu(stat: str) -> tuple[int, int]:
    """(user, system) ticks in /proc/PID/stat (proc_pid_stat(5)); a program's name may hold blanks and brackets."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


class Footprint(Collector):
    name = "footprint"
    title = "memory and CPU of the CNI's own processes"
    windows = ("speed",)
    of_pair = False

    @contextmanager
    def observe(self, s: Situation, into: Findings) -> Iterator[None]:
        """Adds memory (the largest of the window), cpu_user and cpu_system for each process, and its memory over time as a record."""
        found = s.standing.processes()
        if found is None:
            yield
            return
        if not found:
            said = NO_AGENT if s.standing.fidelity == "cni" else NONE
            into.records.append(("footprint", {"process": "", "said": said}))
            yield
            return
        series: dict[str, list[tuple[float, int]]] = {name: [] for name in found}
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_EVERY):
                for name, pid in found.items():
                    try:
                        series[name].append((_counters.clock() / 1e9, resident(_read(pid, "statm"))))
                    except CnibenchError:
                        return  # told at the window's end

        start = _counters.clock()
        before = {name: cpu(_read(pid, "stat")) for name, pid in found.items()}
        for name, pid in found.items():
            series[name].append((start / 1e9, resident(_read(pid, "statm"))))
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
        window = _counters.seconds(start, _counters.clock())
        for name, pid in found.items():
            series[name].append((_counters.clock() / 1e9, resident(_read(pid, "statm"))))
            for metric, then, now in zip(("cpu_user", "cpu_system"), before[name], cpu(_read(pid, "stat")), strict=True):
                into.add(metric, (now - then) / _TICK / window, process=name)
            into.add("memory", max(size for _, size in series[name]), process=name)
            times = [at - start / 1e9 for at, _ in series[name]]
            into.records.append(("footprint", {"process": name, "unit": "B", "times": times, "values": [size for _, size in series[name]]}))


def _read(process: int | tuple[Node, int], file: str) -> str:
    """Of a process of this machine, or of a node's. Raises MeasureError when it is gone, what the node says when that does not answer."""
    node, pid = (None, process) if isinstance(process, int) else process
    try:
        if node is not None:
            return node.read_text(f"/proc/{pid}/{file}")
        return Path(f"/proc/{pid}/{file}").read_text(encoding="ascii", errors="replace")
    except (OSError, CnibenchError) as error:
        if isinstance(error, CnibenchError) and "No such" not in error.message:
            raise
        raise MeasureError(f"the CNI's process {pid} is gone") from None


PROVIDER = Footprint()
