"""One machine sampled by perf record, and its recording as stacks.

perf.data, the names of its addresses and the windows are kept in raw.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cnibench.collectors import _counters
from cnibench.errors import MeasureError
from cnibench.run.sample_context import SampleContext
from cnibench.system import process as programs
from cnibench.system.files import write_private
from cnibench.system.guest import inside, patience
from cnibench.system.process import Process
from cnibench.testbed.place import Node

if TYPE_CHECKING:
    from cnibench.cpp.perfdata import Recording
    from cnibench.cpp.stacks import Stack
    from cnibench.cpp.symbols import Kallsyms

# Hz: beside the 500 of timers, so that samples do not march in step with them; at 999 a machine
# without a PMU loses 5 %
FREQUENCY = 499
# Hz: unwinding a stack takes an emulated processor so long that at 499 Hz little else is done
_EMULATED_FREQUENCY = 99
_BEGIN, _END = (
    20.0,
    20.0,
)  # s: limits of perf's start (it reads /proc of every process) and of its end
_MOST = (
    512 << 20
)  # bytes that perf may record of one machine; it is ended then, and the sample has failed
_KEEP = 64 << 20  # bytes: a larger perf.data is not kept; its folded stacks always are
_LONGEST = 30.0  # s: perf ends by itself so long after its time, whatever becomes of us
_READY = "sampling"
# No build ids and no thread that asks for eBPF programs (their names are in kallsyms): with them
# perf takes up to a second to end.
LEAN = ("-B", "-N", "--no-bpf-event")

Window = tuple[int, int]  # ns of our CLOCK_MONOTONIC


@dataclass
class Machine:
    """One kernel that perf samples; ``offset`` in ns is its CLOCK_MONOTONIC minus ours."""

    name: str
    node: Node
    local: bool
    process: Process
    data: Path
    log: Path
    offset: int = 0

    def await_ready(self) -> None:
        """Returns once perf samples. Raises MeasureError."""
        limit = time.monotonic() + _BEGIN * patience()
        while _READY not in self.log.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > limit:
                raise self._failed()
            time.sleep(0.01)
        if not self.local:
            asked = _counters.clock()
            uptime = float(self.node.read_text("/proc/uptime").split()[0])
            self.offset = int(uptime * 1e9) - (asked + _counters.clock()) // 2

    def stop(self) -> None:
        """Has perf end its recording."""
        self.process.interrupt()

    def finish(self) -> None:
        """Waits until the recording is written. Raises MeasureError."""
        status = self.process.wait(_END)
        if status < 0 and -status not in (signal.SIGINT, signal.SIGTERM):
            raise MeasureError(
                f"perf on {self.name} was ended by signal {-status}",
                "what ended it is in the kernel's log if it was the kernel (dmesg)",
            )
        if self.data.stat().st_size == 0:
            raise self._failed()

    def owned(self, namespaces: frozenset[int]) -> set[int]:
        """The processes of these network namespaces (inodes) on this machine now."""
        if not self.local:
            command = ["sh", "-c", "exec stat -L -c '%n %i' /proc/[0-9]*/ns/net 2>/dev/null"]
            done = self.node.run(command, timeout=_BEGIN, check=False)
            pairs = (line.split() for line in done.stdout.splitlines())
            return {int(path.split("/")[2]) for path, inode in pairs if int(inode) in namespaces}
        found = set()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if os.stat(path / "ns" / "net").st_ino in namespaces:
                    found.add(int(path.name))
            except OSError:  # it has ended
                continue
        return found

    def _failed(self) -> MeasureError:
        said = [
            line
            for line in self.log.read_text(errors="replace").splitlines()
            if line.strip() and line != _READY
        ]
        return MeasureError(
            f"perf does not sample {self.name}: {' | '.join(said[:3]) or 'no message'}",
            "'cnibench doctor' checks perf",
        )


class Recorded:
    """What perf recorded of a machine, read once; ``clock`` is true where cycles are estimated."""

    def __init__(self, machine: Machine) -> None:
        """Raises MeasureError when the recording cannot be read."""
        from cnibench.cpp import perfdata, symbols

        self._machine = machine
        content = machine.data.read_bytes()
        self._recording: Recording = perfdata.read(content)
        self._table: Kallsyms = symbols.Kallsyms(
            machine.node.read_text("/proc/kallsyms").encode(), self._recording.ksymbols
        )
        self.clock = self._recording.clock
        self._hertz = hertz(machine.node.read_text("/proc/cpuinfo")) if self.clock else 0.0
        if len(content) <= _KEEP:
            write_private(machine.data.with_suffix(".data.gz"), gzip.compress(content, 1))
        machine.data.unlink()

    def stacks(self, own: set[int], windows: Sequence[Window], raw: Path) -> list[Stack]:
        """Those of some windows; ``own`` are the cell's processes. What is needed to find them
        again is written to ``raw``. Raises MeasureError when there are none.
        """
        from cnibench.cpp import stacks, taxonomy

        machine = self._machine
        shifted = [(start + machine.offset, end + machine.offset) for start, end in windows]
        recording = self._recording.within(shifted)
        if not recording.samples:
            raise MeasureError(
                f"perf took no sample of {machine.name} in the window",
                "use a longer --duration; 'cnibench doctor' checks perf",
            )
        found = stacks.named(recording, self._table, self._hertz, own, taxonomy.load().is_network)
        facts = {
            "recording": os.path.relpath(machine.data.with_suffix(".data.gz"), raw),
            "windows": shifted,
            "hertz": self._hertz,
            "frequency": frequency(),
            "own": sorted(own),
            "lost": recording.lost,
        }
        write_private((raw / machine.data.name).with_suffix(".json"), json.dumps(facts))
        return found

    def write_symbols(self) -> None:
        """The names of all addresses that were looked up, beside the recording."""
        write_private(
            self._machine.data.with_suffix(".symbols"),
            "".join(f"{start:x} {end:x} {name}\n" for start, end, name in sorted(self._table.used)),
        )


@contextmanager
def sampling(s: SampleContext, group: Iterable[int], seconds: float) -> Iterator[Machine]:
    """perf, begun, on the nodes ``group`` of the sample's deployment, which share a kernel; it ends
    with the block, and by itself some time after ``seconds``.
    """
    nodes = [s.deployment.nodes()[index] for index in group]
    node = nodes[0]
    name = "+".join(one.name for one in nodes)
    local = (
        node.read_text("/proc/sys/kernel/random/boot_id").strip()
        == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    )
    data, log = s.raw / f"perf.{name}.data", s.raw / f"perf.{name}.err"
    # Written to stdout, so that a remote node's comes here; perf starts its command once it
    # samples, and the command says so.
    limit = f"echo {_READY} >&2; exec sleep {seconds + _LONGEST:.0f}"
    argv = [
        "perf",
        "record",
        "-o",
        "-",
        "--clockid",
        "mono",
        "-a",
        "-g",
        "-e",
        "cycles",
        "-F",
        str(frequency()),
        *LEAN,
        "--",
        "sh",
        "-c",
        limit,
    ]
    process = (
        programs.spawn(argv, stdout=data, stderr=log, most=_MOST)
        if local
        else node.spawn(argv, stdout=data, stderr=log)
    )
    with process:
        yield Machine(name, node, local, process, data, log)


def namespaces(s: SampleContext) -> frozenset[int]:
    """Network namespaces (inodes) whose processes are the cell's: those of its two Pods.

    In the lab also those of the nodes, where nothing runs but the daemons of the datapath. On a
    cluster the node's namespace holds everything, so the user space of a CNI's daemons is not
    counted there; their work in softirqs is.
    """
    places = [s.client, s.server, *(s.deployment.nodes() if s.deployment.fidelity != "cni" else ())]
    return frozenset(
        int(place.run(["stat", "-L", "-c", "%i", "/proc/self/ns/net"], timeout=_BEGIN).stdout)
        for place in places
    )


def frequency() -> int:
    """Samples per second and CPU."""
    return _EMULATED_FREQUENCY if inside() == "tcg" else FREQUENCY


def hertz(cpuinfo: str) -> float:
    """The clock frequency that /proc/cpuinfo gives, the median of all CPUs, in Hz. Raises
    MeasureError where it gives none.
    """
    clocks = [
        line.partition(":")[2].strip()
        for line in cpuinfo.splitlines()
        if line.startswith("cpu MHz")
    ]
    found = [float(word) for word in clocks if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", word)]
    if not found:
        raise MeasureError(
            "cycles cannot be estimated: no PMU, and /proc/cpuinfo gives no frequency",
            "measure on a machine with a PMU",
        )
    return statistics.median(found) * 1e6
