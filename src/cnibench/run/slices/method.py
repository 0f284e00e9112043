"""The method (blocks.Method) of slices: the cells of a block take turns, in rounds of random order.

Cells that are measured in windows, those of cycles per packet above all, follow.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import msgspec

from cnibench.errors import (
    CnibenchError,
    EndedError,
    Interrupted,
    LimitError,
    MeasureError,
    MissingError,
    UnsupportedError,
    UsageError,
)
from cnibench.model.cell import Cell, Status
from cnibench.model.context import IDENTITY, key
from cnibench.planning.plan import expected_seconds
from cnibench.run.blocks import Method
from cnibench.run.profiles import ProfileState
from cnibench.run.provenance import Measured, failure, lines
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.session import Session
from cnibench.run.slices.engine import LEAD_IN, LENGTH, Driven, drive
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.rounds import FEWEST, Slice, Value, values
from cnibench.rundir.files import FullError
from cnibench.rundir.schema import now
from cnibench.system.files import make_private

_MEMORY = 16 << 20  # bytes that a cell's client, server and socket buffers take, about
_FILES = 16  # descriptors of a cell
_MOST_DISTURBED = 0.5  # share of a sample's slices


@dataclass
class Slices:
    """``windows`` measures the cells whose method is not slices."""

    session: Session
    windows: Method

    def measure(
        self, states: Mapping[str, ProfileState], cells: Sequence[Cell], block: int, blocks: int
    ) -> int:
        """Measures and stores every cell; returns the number of samples that failed."""
        sliced = [cell for cell in cells if cell.method == "slices"]
        others = [cell for cell in cells if cell.method != "slices"]
        failed = self._slices(states, sliced, block, blocks) if sliced else 0
        return failed + (self.windows.measure(states, others, block, blocks) if others else 0)

    def _slices(
        self, states: Mapping[str, ProfileState], cells: Sequence[Cell], block: int, blocks: int
    ) -> int:
        session = self.session
        _room(len(cells))
        session.progress.cell(cells[0], block, blocks)
        start = now()
        failed: dict[str, CnibenchError] = {}
        generators: dict[str, Generator] = {}
        algorithms: dict[str, str] = {}
        with ExitStack() as running:
            for cell in cells:
                state = states[cell.label]
                try:
                    if state.reason or state.deployment is None:
                        raise MeasureError(state.reason or "it is not installed")
                    generator = Generator(
                        self._context(state, cell, block, generators),
                        session.workloads[cell.workload].load(cell),
                    )
                    generators[cell.id] = running.enter_context(generator)
                    algorithms[cell.id] = _checked(generator)
                except (Interrupted, FullError, EndedError):
                    raise
                except CnibenchError as error:
                    failed[cell.id] = error
            ready = {cell: one for cell, one in generators.items() if cell not in failed}
            driven = (
                drive(ready, self._rounds(cells), block, session.writer.manifest.seed)
                if ready
                else Driven()
            )
        failed |= driven.failed
        for cell in cells:
            if (ended := generators.get(cell.id)) and ended.failure:
                failed.setdefault(cell.id, ended.failure)
            self._died(states[cell.label], cell, failed)
        return self._store(cells, block, start, driven, failed, generators, algorithms, states)

    def _context(
        self, state: ProfileState, cell: Cell, block: int, generators: Mapping[str, Generator]
    ) -> SampleContext:
        deployment = state.deployment
        assert deployment is not None
        if not any(one.s.deployment is deployment for one in generators.values()):
            deployment.reset_state()
        manifest, cpus = self.session.writer.manifest, self.session.cpus
        client, server = deployment.pairs_for([cell])[0]
        workload = self.session.workloads[cell.workload]
        ports = workload.load(cell).ports
        # servers on one address need ports of their own, as those of several pairs do
        number = sum(
            one.s.server.addresses == server.addresses
            and one.s.deployment is deployment
            and one.load.ports == ports
            for one in generators.values()
        )
        return SampleContext(
            cell=msgspec.structs.replace(cell, pair=number) if number else cell,
            block=block,
            deployment=deployment,
            client=client,
            server=server,
            duration=cell.duration or manifest.duration,
            warmup=0.0,
            raw=self.session.writer.raw(cell, block),
            client_cpu=cpus[0][0],
            server_cpu=cpus[0][1],
            congestion_control=self.session.cluster.congestion_control,
        )

    def _rounds(self, cells: Sequence[Cell]) -> int:
        """As many as the longest duration takes; all cells are in all rounds."""
        manifest = self.session.writer.manifest
        longest = max(cell.duration or manifest.duration for cell in cells)
        return max(FEWEST, round(longest / LENGTH))

    def _died(self, state: ProfileState, cell: Cell, failed: dict[str, CnibenchError]) -> None:
        if state.deployment is not None and not state.reason and (died := state.deployment.alive()):
            state.reason = died
        if state.reason:
            failed.setdefault(cell.id, MeasureError(state.reason))

    def _store(
        self,
        cells: Sequence[Cell],
        block: int,
        start: str,
        driven: Driven,
        failed: dict[str, CnibenchError],
        generators: Mapping[str, Generator],
        algorithms: Mapping[str, str],
        states: Mapping[str, ProfileState],
    ) -> int:
        session = self.session
        found = values(_compared(cells), driven.slices)
        for cell in cells:
            if cell.id not in found:
                failed.setdefault(
                    cell.id, MeasureError(f"fewer than {FEWEST} of its slices were undisturbed")
                )
        for cell in cells:
            deployment = states[cell.label].deployment
            provenance = replace(
                session.provenance, fidelity=deployment.fidelity if deployment else ""
            )
            seconds = expected_seconds([cell], session.workloads, 0.0, 0.0)
            with session.stop.held():
                if cell.id in failed:
                    error = failed[cell.id]
                    status, reason = _status(error), error.message
                    session.writer.room()
                    session.writer.finish_all(
                        [(cell, failure(cell, block, provenance, status, reason, start), ())], block
                    )
                    said: str = status
                else:
                    generator = generators[cell.id]
                    own = [one for one in driven.slices if one.cell == cell.id]
                    _write(generator.s, own)
                    measured = _measured(generator, found[cell.id], driven, start)
                    made = lines(cell, block, provenance, measured)
                    if algorithms[cell.id]:
                        made = [
                            msgspec.structs.replace(one, congestion_control=algorithms[cell.id])
                            for one in made
                        ]
                    session.writer.finish_all([(cell, made, measured.findings.records)], block)
                    said, reason = "disturbed" if measured.disturbed else "ok", measured.disturbed
            session.progress.finished(cell, seconds, said, reason)
        return len(failed)


def _checked(generator: Generator) -> str:
    """The congestion control of its connections. Raises MeasureError when it is not what was asked
    for.
    """
    found, asked = generator.congestion_control, generator.s.congestion_control
    if asked and found and found != asked:
        raise MeasureError(
            f"its connection has the congestion control {found}, and {asked} was asked for",
            "leave --congestion-control out to measure with the Pods' own",
        )
    return found


def _compared(cells: Sequence[Cell]) -> list[list[str]]:
    """The ids of the cells that differ by their label alone."""
    places = [name for name in IDENTITY if name != "pairs"]

    def place(cell: Cell) -> str:
        return key({name: getattr(cell, name) for name in places}, tuple(places))

    return [
        [cell.id for cell in group] for _, group in groupby(sorted(cells, key=place), key=place)
    ]


def _measured(generator: Generator, value: Value, driven: Driven, start: str) -> Measured:
    load = generator.load
    found = Measurements()
    own = load.params()
    rate = load.rate(value.rate)
    found.add(load.metric, rate, **own)
    found.add(load.per, value.cpu, **own)
    if load.metric == "transaction_rate":  # one transaction at a time: its mean is the inverse
        found.add("latency_mean", 1 / rate, **own)
    record = {
        "rounds": value.rounds,
        "left_out": value.left_out,
        "seconds": round(value.seconds, 6),
        "length": LENGTH,
        "lead_in": LEAD_IN,
        "half_width": value.half,
        "control": round(driven.control, 6),
        "wall": round(driven.wall, 6),
        "priority": generator.priority or "real-time",
    }
    found.records.append(("slices", record))
    disturbed = ""
    if value.left_out > _MOST_DISTURBED * value.rounds:
        disturbed = f"{value.left_out} of {value.rounds} slices got too little of the machine"
    return Measured(found, start, now(), disturbed)


def _write(s: SampleContext, slices: Sequence[Slice]) -> None:
    """raw/CELL/BLOCK/slices.jsonl: one slice a line (rounds.Slice)."""
    path = s.raw / "slices.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in slices))
    make_private(s.raw)


def _status(error: CnibenchError) -> Status:
    if isinstance(error, LimitError):
        return "timeout"
    return "unsupported" if isinstance(error, UnsupportedError) else "failed"


def _available() -> int:
    """Bytes that programs can have without swapping."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 62


def _room(cells: int) -> None:
    """Raises UsageError when the load generators of all cells have no room in memory, MissingError
    when they need more descriptors than this process may have.
    """
    available = _available()
    if cells * _MEMORY > available:
        raise UsageError(
            f"{cells} cells have a load generator each, which take about"
            f" {cells * _MEMORY >> 20} MiB; {available >> 20} MiB are free",
            "measure fewer profiles or workloads at once, or use --method windows",
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = cells * _FILES + 256
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise MissingError(
            f"{cells} cells need {needed} open files, and the limit is {hard}",
            "raise the limit (ulimit -Hn), or measure fewer cells at once",
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
