"""Cycles per packet: perf samples each machine with call stacks while the client's packets are
counted.

``cycles`` where the PMU gives them; else perf falls back to cpu-clock by itself, and cycles are
estimated: samples x period x the frequency of the TSC (/proc/cpuinfo, which on machines without a
PMU, virtual ones, shows the TSC's). perf.data, the names of its addresses and the folded stacks are
kept in raw, so that a report needs neither perf nor this machine.

In slices one recording has the turns of all cells; each cell's samples are those of its turns.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cnibench.collectors import _counters
from cnibench.collectors._recording import (
    FREQUENCY,
    Machine,
    Recorded,
    frequency,
    namespaces,
    sampling,
)
from cnibench.errors import MeasureError
from cnibench.run.collector import Collector, Turns
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.system.files import write_private
from cnibench.testbed.capabilities.node_inspection import KernelAccess
from cnibench.testbed.cluster import Cluster

_LEAST = 10  # samples of the cell: with fewer, what they say of cycles is chance


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
        if not cluster.manages_nodes:
            return cluster.kernel_access_denied() if isinstance(cluster, KernelAccess) else ""
        if shutil.which("perf") is None:
            return (
                "perf is not installed (Debian: apt-get install linux-perf; Ubuntu:"
                " linux-tools-generic)"
            )
        return hidden(Path("/proc/kallsyms"), Path("/proc/sys/kernel/perf_event_paranoid"))

    def __init__(self) -> None:
        self._machines: dict[Path, list[Machine]] = {}
        self._evaluations: dict[Path, Callable[[], None]] = {}

    @contextmanager
    def prepare(self, s: SampleContext) -> Iterator[None]:
        """perf samples from before the client starts; what observe took is evaluated once the
        client has ended, whom that would disturb.
        """
        with ExitStack() as running:
            machines = [
                running.enter_context(sampling(s, group, 2 * s.duration))
                for group in _counters.kernels(s).values()
            ]
            for machine in machines:
                machine.await_ready()
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
        machines, of_cell = self._machines[s.raw], namespaces(s)
        own = [machine.owned(of_cell) for machine in machines]
        first, bytes_first = _counters.traffic(s.client, kind, s.cell.ip), _bytes(s)
        start = _counters.clock()
        yield
        last, bytes_last = _counters.traffic(s.client, kind, s.cell.ip), _bytes(s)
        end = _counters.clock()
        for machine, known in zip(machines, own, strict=True):
            known |= machine.owned(of_cell)
            machine.stop()
        _counters.seconds(start, end)
        packets = _counters.grown(first, last, "sent", s.client.name)
        turns = Turns([(start, end)], packets, bytes_last - bytes_first)

        def evaluate() -> None:
            for machine in machines:
                machine.finish()
            recorded = [Recorded(machine) for machine in machines]
            _evaluate(s, into, recorded, own, turns)
            for one in recorded:
                one.write_symbols()

        self._evaluations[s.raw] = evaluate

    @contextmanager
    def rounds(
        self, samples: Sequence[SampleContext], seconds: float
    ) -> Iterator[Callable[[SampleContext, Turns, Measurements], None]]:
        """One recording, kept with the first sample; all samples are of this machine."""
        of_cells = {s.raw: namespaces(s) for s in samples}
        ended: list[Recorded] = []
        own: dict[Path, set[int]] = {}

        def evaluate(s: SampleContext, turns: Turns, into: Measurements) -> None:
            if not ended:
                machine.stop()
                machine.finish()
                ended.append(Recorded(machine))
            _evaluate(s, into, ended, [own[s.raw]], turns)
            ended[0].write_symbols()

        with sampling(samples[0], range(len(samples[0].deployment.nodes())), seconds) as machine:
            machine.await_ready()
            own |= {raw: machine.owned(of_cell) for raw, of_cell in of_cells.items()}
            yield evaluate


def _evaluate(
    s: SampleContext,
    into: Measurements,
    machines: Sequence[Recorded],
    own: Sequence[set[int]],
    turns: Turns,
) -> None:
    """Adds what a cell's turns say of its cycles. Raises MeasureError when they say too little."""
    from cnibench.cpp import attribution, stacks, taxonomy

    names = taxonomy.load()
    found = [
        stack
        for machine, known in zip(machines, own, strict=True)
        for stack in machine.stacks(known, turns.windows, s.raw)
    ]
    write_private(s.raw / "stacks.folded", stacks.fold(found))
    breakdown = attribution.attribute(found, names)
    seconds = sum(end - start for start, end in turns.windows) / 1e9
    if breakdown.counted < _LEAST:
        raise MeasureError(
            f"perf saw the workload in {breakdown.counted} samples only, in a window of"
            f" {seconds:.1f} s",
            "use a longer --duration, and let the machine do nothing else",
        )
    clock = any(machine.clock for machine in machines)
    line = attribution.record(breakdown, turns.packets, clock=clock, version=names.version) | {
        "frequency": frequency(),
        "seconds": seconds,
    }
    into.records.append(("cpp", line))
    into.add("cycles_per_packet", line["total"])
    if turns.bytes > 0:
        into.add("cycles_per_byte", breakdown.total / turns.bytes)


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


def _bytes(s: SampleContext) -> int:
    """Bytes that the Pod's device sent so far, link headers of super-packets included; 0 without a
    device of its own.
    """
    return (
        _counters.devices(s.client.read_text("/proc/net/dev"))
        .get(s.client.interface, {})
        .get("tx_bytes", 0)
    )


PROVIDER = Perf()
