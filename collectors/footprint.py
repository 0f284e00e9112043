"""Memory and CPU time of the CNI's own processes: memory that is theirs, and CPU seconds per
second, over the window.

The lab's models are kernel objects; only those whose CNI forwards packets in user space have a
process there, and it is our model of that program: where there is none, the record says so. What
the model's rules, maps and devices take is in the kernel, and not in these figures.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnibench.collectors import _counters
from cnibench.errors import CnibenchError, MeasureError
from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.testbed.capabilities.cni_processes import PROXY, CniProcesses
from cnibench.testbed.capabilities.pods.extra import ExtraPods
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Node

NONE = "no process of the CNI runs in the lab's model"
NO_AGENT = "the CNI has no process that stays: its plugins run while a Pod is made, and not longer"
BEFORE = "it ended before the window"
WITHIN = "it ended within the window: its figures are left out"
CHILD = (
    "a child process ended within the window, which adds its CPU time from before the window: no"
    " CPU time"
)
ALL = "all"  # the process of a node's total
_EVERY = 1.0  # s between two readings
_TICK = os.sysconf("SC_CLK_TCK")  # USER_HZ, 100 on every architecture that Kubernetes runs on


@dataclass(frozen=True)
class Look:
    """A process now: ``memory`` in bytes, ``user`` and ``system`` in ticks. ``began`` tells it from
    a later one of its number.
    """

    parent: int
    began: int
    memory: int
    user: int
    system: int


def look(stat: str, status: str) -> Look | None:
    """Of /proc/PID/stat and /proc/PID/status (proc_pid_stat(5), proc_pid_status(5)); None when it
    has ended and is not yet waited for.

    Memory is RssAnon and RssShmem: resident, without pages of files. CPU time has that of children
    that were waited for (cutime, cstime): agents have iptables-restore do their work. A program's
    name may hold blanks and brackets. Raises MeasureError.
    """
    fields = stat.rpartition(")")[2].split()
    sizes = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "RssAnon" not in sizes:
        return None
    sizes_kb = [sizes.get(name, "").split()[:1] for name in ("RssAnon", "RssShmem")]
    if len(fields) < 20 or not all(sizes_kb):
        raise MeasureError("/proc/PID/stat or status lacks a field", "report the files' text")
    memory = (
        sum(_counters.count(word, "/proc/PID/status") for (word,) in sizes_kb) << 10
    )  # the kernel's kB are KiB
    parent, user, system, of_children, system_of_children, began = (
        _counters.count(fields[at], "/proc/PID/stat") for at in (1, 11, 12, 13, 14, 19)
    )
    return Look(parent, began, memory, user + of_children, system + system_of_children)


@dataclass
class _Process:
    name: str
    node: str  # '' where it is of none
    pid: int
    looks: list[Look] = field(default_factory=list)
    gone: bool = False

    def take(self, found: Look | None) -> None:
        if found is None or (self.looks and found.began != self.looks[0].began):
            self.gone = True
        else:
            self.looks.append(found)


@dataclass
class _Place:
    """Processes that are read together: those of one node, or of this machine (None)."""

    node: Node | None
    processes: list[_Process] = field(default_factory=list)
    times: list[int] = field(default_factory=list)  # ns

    def look(self) -> None:
        """One more reading of each that is still there. Raises ClusterError when the node does not
        answer.
        """
        there = [process for process in self.processes if not process.gone]
        paths = [f"/proc/{process.pid}/{file}" for process in there for file in ("stat", "status")]
        now = _counters.clock()
        texts = _here(paths) if self.node is None else self.node.read_each(paths)
        self.times.append(now)  # only with what was read then
        for process, stat, status in zip(there, texts[::2], texts[1::2], strict=True):
            process.take(look(stat, status) if stat and status else None)


class Footprint(Collector):
    name = "footprint"
    needs = (CniProcesses,)
    title = "memory and CPU of the CNI's own processes"
    windows = ("speed",)
    of_pair = False

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        """Adds memory (the largest of the window), cpu_user and cpu_system for each process
        (``process``) and for all of a node together (``process=all``, ``node``), and the same over
        time as records; CPU time there is in s since the window began.

        A process that ends is named in its record and has no figures, and its node has no total
        then. Raises ClusterError.
        """
        found = CniProcesses.of(s.deployment).processes()
        if found is None:
            yield
            return
        if not found:
            said = NO_AGENT if s.deployment.fidelity == "cni" else NONE
            into.records.append(("footprint", {"process": "", "said": said}))
            yield
            return
        places = _places(found, [node.name for node in s.deployment.nodes()])
        pods = _pods(s.deployment)
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_EVERY):
                try:
                    for place in places:
                        place.look()
                except CnibenchError:
                    return  # reported at the window's end

        for place in places:
            place.look()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
        for place in places:
            place.look()
            _tell(place, pods, into)


def _tell(place: _Place, pods: Mapping[str, int] | None, into: Measurements) -> None:
    # What a process has waited for counts whole, its time from before the window too.
    bereft = {
        process.looks[0].parent for process in place.processes if process.gone and process.looks
    }
    for process in place.processes:
        where = _where(process.node, pods)
        if process.gone:
            into.records.append(
                (
                    "footprint",
                    {"process": process.name, **where, "said": WITHIN if process.looks else BEFORE},
                )
            )
            continue
        fields: dict[str, Any] = {"process": process.name, **where}
        cpu = process.pid not in bereft
        _add(
            into,
            place.times,
            [process.looks],
            fields if cpu else {**fields, "said": CHILD},
            cpu,
            process=process.name,
        )
    own = [one for one in place.processes if not one.name.startswith(f"{PROXY} ")]
    for node in dict.fromkeys(process.node for process in own if process.node):
        there = [process for process in own if process.node == node]
        fields = {
            "process": ALL,
            **_where(node, pods),
            "processes": [process.name for process in there],
        }
        if gone := [process.name for process in there if process.gone]:
            into.records.append(
                ("footprint", {**fields, "said": f"no total: {', '.join(gone)} ended"})
            )
        else:
            _add(
                into,
                place.times,
                [process.looks for process in there],
                fields,
                True,
                process=ALL,
                node=node,
            )


def _add(
    into: Measurements,
    clock: Sequence[int],
    looks: Sequence[Sequence[Look]],
    fields: Mapping[str, Any],
    cpu: bool,
    **params: str,
) -> None:
    """The sum of the processes that ran all the time: readings, and a record over time."""
    window = _counters.seconds(clock[0], clock[-1])
    memory = [sum(each.memory for each in at_once) for at_once in zip(*looks, strict=True)]
    into.add("memory", max(memory), **params)
    record = {
        **fields,
        "unit": "B",
        "times": [(at - clock[0]) / 1e9 for at in clock],
        "values": memory,
    }
    if cpu:
        for metric, part in (("cpu_user", "user"), ("cpu_system", "system")):
            ticks = [
                sum(getattr(each, part) for each in at_once) for at_once in zip(*looks, strict=True)
            ]
            grown = [(now - ticks[0]) / _TICK for now in ticks]
            into.add(metric, grown[-1] / window, **params)
            record |= {metric: grown}
    into.records.append(("footprint", record))


def _places(found: Mapping[str, int | tuple[Node, int]], nodes: Sequence[str]) -> list[_Place]:
    """Those of this machine are of the node that their name ends with (``bgpd-a``), if any."""
    places: dict[str, _Place] = {}
    for name, process in found.items():
        if isinstance(process, int):
            end = name.rpartition("-")[2]
            places.setdefault("", _Place(None)).processes.append(
                _Process(name, end if end in nodes else "", process)
            )
        else:
            node, pid = process
            places.setdefault(node.name, _Place(node)).processes.append(
                _Process(name, node.name, pid)
            )
    return list(places.values())


def _pods(deployment: Deployment) -> dict[str, int] | None:
    """Node to how many Pods with a network of their own it has; None where the Pods cannot be
    reported.
    """
    if not isinstance(deployment, ExtraPods):
        return None
    count = {node.name: 0 for node in deployment.nodes()}
    for pod in deployment.pods():
        if pod.interface:
            count[pod.node.name] = count.get(pod.node.name, 0) + 1
    return count


def _where(node: str, pods: Mapping[str, int] | None) -> dict[str, Any]:
    """The node, and how many of our Pods it has."""
    if not node:
        return {}
    return {"node": node} if pods is None else {"node": node, "pods": pods.get(node, 0)}


def _here(paths: Sequence[str]) -> list[str | None]:
    """Files of this machine, None for each that is gone."""
    found: list[str | None] = []
    for path in paths:
        try:
            found.append(Path(path).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            found.append(None)
    return found


PROVIDER = Footprint()
