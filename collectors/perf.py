"""Cycles per packet: perf samples each machine with call stacks while the client's packets are
counted.

``cycles`` where the PMU gives them; else perf falls back to cpu-clock by itself, and cycles are
estimated: samples x period x the frequency of the TSC (/proc/cpuinfo, which on machines without a
PMU, virtual ones, shows the TSC's). perf.data, the names of its addresses and the folded stacks are
kept in raw, so that a report needs neither perf nor this machine.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cnibench.collectors import _counters
from cnibench.errors import MeasureError
from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.system import process as programs
from cnibench.system.guest import inside, patience
from cnibench.system.process import Process
from cnibench.testbed.capabilities.node_inspection import NodeInspection
from cnibench.testbed.cluster import Cluster
from cnibench.testbed.place import Node

if TYPE_CHECKING:
    from cnibench.cpp.stacks import Stack

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
_LEAST = 10  # samples of the cell: with fewer, what they say of cycles is chance
_LONGEST = 30.0  # s: perf ends by itself so long after twice the duration, whatever becomes of us
_READY = "sampling"
# No build ids and no thread that asks for eBPF programs (their names are in kallsyms): with them
# perf takes up to a second to end.
LEAN = ("-B", "-N", "--no-bpf-event")


@dataclass
class _Machine:
    """One kernel that perf samples; ``offset`` in ns is its CLOCK_MONOTONIC minus ours,
    ``namespaces`` are the cell's network ones.
    """

    name: str
    node: Node
    local: bool
    process: Process
    data: Path
    log: Path
    namespaces: frozenset[int]
    offset: int = 0


class Perf(Collector):
    name = "perf"
    title = (
        f"cycles per packet: call stacks of the whole machine at {FREQUENCY} Hz, by component and"
        " function"
    )
    tools = {"perf": "linux-perf"}
    windows = ("cpp",)
    cycles = True

    def missing(self, cluster: Cluster) -> str:
        """perf is not there, or the kernel does not let us sample it."""
        if cluster.testbed not in ("lab", "vm", "kind"):
            return cluster.kernel_access_denied() if isinstance(cluster, NodeInspection) else ""
        if shutil.which("perf") is None:
            return (
                "perf is not installed (Debian: apt-get install linux-perf; Ubuntu:"
                " linux-tools-generic)"
            )
        return hidden(Path("/proc/kallsyms"), Path("/proc/sys/kernel/perf_event_paranoid"))

    def __init__(self) -> None:
        self._machines: dict[Path, list[_Machine]] = {}
        self._evaluations: dict[Path, Callable[[], None]] = {}

    @contextmanager
    def prepare(self, s: SampleContext) -> Iterator[None]:
        """perf samples from before the client starts; what observe took is evaluated once the
        client has ended, whom that would disturb.
        """
        with ExitStack() as running:
            machines = [
                running.enter_context(_sampling(s, group))
                for group in _counters.kernels(s).values()
            ]
            for machine in machines:
                _await(machine)
            self._machines[s.raw] = machines
            try:
                yield
                if evaluate := self._evaluations.get(s.raw):
                    evaluate()
            finally:
                del self._machines[s.raw]
                self._evaluations.pop(s.raw, None)

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        """Has ``prepare`` add a ``cpp`` record (attribution.record), cycles_per_packet and, of the
        device's bytes, cycles_per_byte.
        """
        kind = _counters.transport(s)
        machines = self._machines[s.raw]
        own = [_own(machine) for machine in machines]
        first, bytes_first = _counters.traffic(s.client, kind, s.cell.ip), _bytes(s)
        start = _counters.clock()
        yield
        last, bytes_last = _counters.traffic(s.client, kind, s.cell.ip), _bytes(s)
        end = _counters.clock()
        for machine, known in zip(machines, own, strict=True):
            known |= _own(machine)
            machine.process.interrupt()
        _counters.seconds(start, end)
        packets = _counters.grown(first, last, "sent", s.client.name)
        self._evaluations[s.raw] = lambda: self._evaluate(
            s, into, machines, own, (start, end), packets, bytes_last - bytes_first
        )

    def _evaluate(
        self,
        s: SampleContext,
        into: Measurements,
        machines: Sequence[_Machine],
        own: Sequence[set[int]],
        window: tuple[int, int],
        packets: int,
        size: int,
    ) -> None:
        from cnibench.cpp import attribution, stacks, taxonomy

        for machine in machines:
            _finish(machine)
        names = taxonomy.load()
        all_stacks, clock = [], False
        for machine, known in zip(machines, own, strict=True):
            found, estimated = _stacks(machine, known, window)
            all_stacks += found
            clock = clock or estimated
        (s.raw / "stacks.folded").write_text(stacks.fold(all_stacks))
        breakdown = attribution.attribute(all_stacks, names)
        if breakdown.counted < _LEAST:
            words = (
                f"perf saw the workload in {breakdown.counted} samples only, in a window of"
                f" {(window[1] - window[0]) / 1e9:.1f} s"
            )
            raise MeasureError(
                words, "use a longer --duration, and let the machine do nothing else"
            )
        line = attribution.record(breakdown, packets, clock=clock, version=names.version) | {
            "frequency": frequency()
        }
        into.records.append(("cpp", line))
        into.add("cycles_per_packet", line["total"])
        if size > 0:
            into.add("cycles_per_byte", breakdown.total / size)


def frequency() -> int:
    """Samples per second and CPU."""
    return _EMULATED_FREQUENCY if inside() == "tcg" else FREQUENCY


def hidden(kallsyms: Path, paranoid: Path) -> str:
    """Why the kernel cannot be sampled by this user, '' when it can."""
    try:
        with kallsyms.open("rb") as file:
            address = file.readline().split()[:1]
        level = int(paranoid.read_text())
    except (OSError, ValueError) as error:
        return f"perf cannot name the kernel's functions: {error}"
    if not address or _all_zero(kallsyms):
        return (
            "the kernel hides its symbols' addresses (as root: sysctl -w kernel.kptr_restrict=0"
            " kernel.perf_event_paranoid=-1)"
        )
    if level > -1 and os.geteuid() != 0:
        return (
            "sampling the whole machine needs root (or as root: sysctl -w"
            " kernel.perf_event_paranoid=-1)"
        )
    return ""


def _all_zero(kallsyms: Path) -> bool:
    """Per-CPU symbols at the beginning are near zero in any case; text is not."""
    with kallsyms.open("rb") as file:
        return all(
            int(line.split()[0], 16) == 0 for line, _ in zip(file, range(2000), strict=False)
        )


@contextmanager
def _sampling(s: SampleContext, group: Sequence[int]) -> Iterator[_Machine]:
    nodes = s.deployment.nodes()
    node = nodes[group[0]]
    name = "+".join(nodes[index].name for index in group)
    local = (
        node.read_text("/proc/sys/kernel/random/boot_id").strip()
        == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    )
    data, log = s.raw / f"perf.{name}.data", s.raw / f"perf.{name}.err"
    # Written to stdout, so that a remote node's comes here; perf starts its command once it
    # samples, and the command says so.
    limit = f"echo {_READY} >&2; exec sleep {2 * s.duration + _LONGEST:.0f}"
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
        yield _Machine(name, node, local, process, data, log, _namespaces(s))


def _await(machine: _Machine) -> None:
    limit = time.monotonic() + _BEGIN * patience()
    while _READY not in machine.log.read_text(errors="replace"):
        if machine.process.poll() is not None or time.monotonic() > limit:
            raise _failed(machine)
        time.sleep(0.01)
    if not machine.local:
        asked = _counters.clock()
        uptime = float(machine.node.read_text("/proc/uptime").split()[0])
        machine.offset = int(uptime * 1e9) - (asked + _counters.clock()) // 2


def _finish(machine: _Machine) -> None:
    machine.process.wait(_END)
    if machine.data.stat().st_size == 0:
        raise _failed(machine)


def _failed(machine: _Machine) -> MeasureError:
    said = [
        line
        for line in machine.log.read_text(errors="replace").splitlines()
        if line.strip() and line != _READY
    ]
    return MeasureError(
        f"perf does not sample {machine.name}: {' | '.join(said[:3]) or 'no message'}",
        "'cnibench doctor' checks perf",
    )


def _namespaces(s: SampleContext) -> frozenset[int]:
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


def _own(machine: _Machine) -> set[int]:
    """Processes of the cell on this machine now."""
    if not machine.local:
        command = ["sh", "-c", "exec stat -L -c '%n %i' /proc/[0-9]*/ns/net 2>/dev/null"]
        pairs = (
            line.split()
            for line in machine.node.run(command, timeout=_BEGIN, check=False).stdout.splitlines()
        )
        return {
            int(path.split("/")[2]) for path, inode in pairs if int(inode) in machine.namespaces
        }
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.stat(path / "ns" / "net").st_ino in machine.namespaces:
                found.add(int(path.name))
        except OSError:  # it has ended
            continue
    return found


def _bytes(s: SampleContext) -> int:
    """Bytes that the Pod's device sent so far, link headers of super-packets included; 0 without a
    device of its own.
    """
    return (
        _counters.devices(s.client.read_text("/proc/net/dev"))
        .get(s.client.interface, {})
        .get("tx_bytes", 0)
    )


def hertz(cpuinfo: str) -> float:
    """The clock frequency that /proc/cpuinfo gives, the median of all CPUs, in Hz. Raises
    MeasureError where it gives none.
    """
    told = [
        line.partition(":")[2].strip()
        for line in cpuinfo.splitlines()
        if line.startswith("cpu MHz")
    ]
    found = [float(word) for word in told if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", word)]
    if not found:
        raise MeasureError(
            "cycles cannot be estimated: no PMU, and /proc/cpuinfo gives no frequency",
            "measure on a machine with a PMU",
        )
    return statistics.median(found) * 1e6


def _stacks(machine: _Machine, own: set[int], window: tuple[int, int]) -> tuple[list[Stack], bool]:
    """(stacks of the window, were cycles estimated?); perf.data becomes perf.data.gz beside what is
    needed to read it elsewhere.
    """
    from cnibench.cpp import perfdata, stacks, symbols, taxonomy

    content = machine.data.read_bytes()
    recording = perfdata.read(content).between(
        window[0] + machine.offset, window[1] + machine.offset
    )
    if not recording.samples:
        raise MeasureError(
            f"perf took no sample of {machine.name} in the window",
            "use a longer --duration; 'cnibench doctor' checks perf",
        )
    table = symbols.Kallsyms(machine.node.read_text("/proc/kallsyms").encode(), recording.ksymbols)
    clock = hertz(machine.node.read_text("/proc/cpuinfo")) if recording.clock else 0.0
    found = stacks.named(recording, table, clock, own, taxonomy.load().is_network)
    kept = sorted(table.used)
    machine.data.with_suffix(".symbols").write_text(
        "".join(f"{start:x} {end:x} {name}\n" for start, end, name in kept)
    )
    facts = {
        "start": window[0] + machine.offset,
        "end": window[1] + machine.offset,
        "hertz": clock,
        "frequency": frequency(),
        "own": sorted(own),
        "lost": recording.lost,
    }
    machine.data.with_suffix(".json").write_text(json.dumps(facts))
    if len(content) <= _KEEP:
        machine.data.with_suffix(".data.gz").write_bytes(gzip.compress(content, 1))
    machine.data.unlink()
    return found, recording.clock


PROVIDER = Perf()
