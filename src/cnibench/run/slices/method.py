"""The method (blocks.Method) of slices: the cells of a block take turns, in rounds of random order.

Rounds with perf, for cycles per packet, come after those without; cells that are measured in
windows follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cnibench.errors import (
    CnibenchError,
    EndedError,
    LimitError,
    MeasureError,
    UnsupportedError,
    UsageError,
)
from cnibench.model.cell import Cell, Status, Window
from cnibench.model.context import alike
from cnibench.model.coordinates import NONE, UNREAD
from cnibench.planning.forecast import expected_seconds
from cnibench.run.blocks import Method
from cnibench.run.checks.congestion import remedy
from cnibench.run.checks.stalls import disturbed as stalls_disturbed
from cnibench.run.collector import Collector
from cnibench.run.profiles import REPEATS, ProfileState
from cnibench.run.provenance import Measured, failure, lines
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.sample_faults import private, recorded
from cnibench.run.session import Session
from cnibench.run.slices import priority
from cnibench.run.slices.cross_check import cross_checks
from cnibench.run.slices.cycles import with_cycles
from cnibench.run.slices.engine import LEAD_IN, LENGTH, Driven, drive
from cnibench.run.slices.evidence import evidence, left_out
from cnibench.run.slices.generator import Generator, Shared
from cnibench.run.slices.remote import AnyGenerator, Controllers, RemoteGenerator, drive_remotely
from cnibench.run.slices.room import require
from cnibench.run.slices.rounds import FEWEST, Value, kept, modes, undisturbed, values
from cnibench.run.slices.slice import Slice
from cnibench.rundir.files import FullError
from cnibench.rundir.reader import STALLS
from cnibench.rundir.schema import SLICES, now
from cnibench.system.files import make_private, write_private
from cnibench.testbed.capabilities.pods.controlled import ControlledPods
from cnibench.testbed.capabilities.pods.entered import EnteredPods


@dataclass
class Slices:
    """``windows`` measures the cells whose method is not slices, ``cycles`` reads the cycles of
    rounds of their own.
    """

    session: Session
    windows: Method
    cycles: Collector | None

    def measure(
        self, states: Mapping[str, ProfileState], cells: Sequence[Cell], block: int, blocks: int
    ) -> int:
        """Measures and stores every cell; returns the number of samples that failed."""
        sliced = [cell for cell in cells if cell.method == "slices"]
        others = [cell for cell in cells if cell.method != "slices"]
        failed = self._in_slices(states, sliced, block, blocks) if sliced else 0
        return failed + (self.windows.measure(states, others, block, blocks) if others else 0)

    def _in_slices(
        self, states: Mapping[str, ProfileState], cells: Sequence[Cell], block: int, blocks: int
    ) -> int:
        require(len(cells))
        known = {label: state.reason for label, state in states.items()}
        for last in (False,) * REPEATS + (True,):
            for label, state in states.items():
                state.reason = known[label]
            if (failed := self._attempt(states, cells, block, blocks, last)) is not None:
                return failed
        raise AssertionError

    def _attempt(
        self,
        states: Mapping[str, ProfileState],
        cells: Sequence[Cell],
        block: int,
        blocks: int,
        last: bool,
    ) -> int | None:
        """The number of samples that failed; None when the cluster was unavailable meanwhile:
        nothing is stored then, unless it is the ``last`` attempt.
        """
        session = self.session
        session.outages()
        session.progress.cell(cells[0], block, blocks)
        start = now()
        failed: dict[str, CnibenchError] = {}
        generators: dict[str, AnyGenerator] = {}
        windows = {cell.window for cell in cells}
        turns = sum(self._rounds([c for c in cells if c.window == one]) for one in windows)
        with ExitStack() as running:
            controllers = running.enter_context(Controllers())
            for cell in sorted(cells, key=lambda cell: cell.window != "speed"):
                state = states[cell.label]
                try:
                    if state.reason or state.deployment is None:
                        raise MeasureError(state.reason or "it is not installed")
                    workload = session.workloads[cell.workload]
                    raw = session.writer.raw(cell, block)
                    with recorded(raw, session.writer):
                        s = self._context(state, cell, block, raw, generators, turns)
                        packets = workload.transport if cell.window == "cpp" else ""
                        generator: AnyGenerator
                        if isinstance(s.deployment, ControlledPods):
                            load = workload.load(cell)
                            generator = RemoteGenerator(cell.id, s, load, controllers)
                        elif same := _same_load(cell, generators):
                            generator = Shared(s, same, packets)
                        else:
                            generator = Generator(s, workload.load(cell), packets)
                        running.enter_context(generator)
                        generators[cell.id] = generator
                    check_congestion_control(generator)
                except (FullError, EndedError):
                    raise
                except CnibenchError as error:
                    failed[cell.id] = error
            driven = self._drive(cells, "speed", generators, failed, block)
            with_perf = self._drive(cells, "cpp", generators, failed, block)
        for cell in cells:
            if (ended := generators.get(cell.id)) and ended.failure:
                failed.setdefault(cell.id, ended.failure)
        self._died(states, cells, failed)
        if session.outages(suspect=bool(failed)) and not last:
            return None
        found = dict[str, Value]()
        for window, rounds in (("speed", driven), ("cpp", with_perf)):
            here = [cell for cell in cells if cell.window == window]
            found |= self._store(here, block, start, rounds, failed, generators, states)
        checked = [
            (cell, generators[cell.id], found[cell.id])
            for cell in cells
            if cell.window == "speed" and cell.id not in failed
        ]
        cross_checks(session, checked, block, self._meanwhile)
        return len(failed)

    def _drive(
        self,
        cells: Sequence[Cell],
        window: Window,
        generators: Mapping[str, AnyGenerator],
        failed: dict[str, CnibenchError],
        block: int,
    ) -> Driven:
        """The rounds of these cells that run, with perf where their ``window`` is cpp; adds those
        that failed.
        """
        here = [cell for cell in cells if cell.window == window and cell.id not in failed]
        ready = {cell.id: generators[cell.id] for cell in here}
        if not ready:
            return Driven()
        rounds, seed = self._rounds(here), self.session.writer.manifest.seed
        local = {cell: one for cell, one in ready.items() if isinstance(one, Generator)}
        raw = [generator.s.raw for generator in ready.values()]
        try:
            with recorded(raw[0], self.session.writer), private(raw):
                if remote := {
                    cell: one for cell, one in ready.items() if isinstance(one, RemoteGenerator)
                }:
                    driven = drive_remotely(remote, rounds, block, seed)
                    self._tell(driven.slices, ready, block, last=True)
                elif window == "speed":
                    driven = drive(
                        local,
                        rounds,
                        block,
                        seed,
                        after=lambda done, slices: self._tell(slices, ready, block, done == rounds),
                    )
                else:
                    driven = with_cycles(
                        self.cycles,
                        local,
                        rounds,
                        block,
                        seed,
                        after=lambda done, slices: self._meanwhile(),
                    )
        except (FullError, EndedError, UsageError):
            raise
        except CnibenchError as error:
            driven = Driven(failed=dict.fromkeys(ready, error))
        failed |= driven.failed
        alone = all(generator.s.client.of_lab for generator in ready.values())
        if disturbance := driven.share.disturbance(alone):
            self.session.progress.stage(f"during the slices of block {block + 1}: {disturbance}")
        return driven

    def _tell(
        self,
        slices: Sequence[Slice],
        generators: Mapping[str, AnyGenerator],
        block: int,
        last: bool,
    ) -> None:
        """The rounds so far, for a first ranking; after the ``last`` one in any case."""
        ranking = self.session.ranking
        if ranking is not None and (last or ranking.due()):
            good = undisturbed(slices)
            ranking.rounds(
                block,
                {
                    cell: {
                        number: math.log(generators[cell].load.rate(one.rate))
                        for number, one in its.items()
                    }
                    for cell, its in good.items()
                },
                {
                    cell: {
                        number: math.log(one.cpu)
                        for number, one in its.items()
                        if one.server is not None and one.cpu > 0
                    }
                    for cell, its in good.items()
                },
            )

    def _meanwhile(self) -> None:
        if self.session.ranking is not None:
            self.session.ranking.meanwhile()

    def _context(
        self,
        state: ProfileState,
        cell: Cell,
        block: int,
        raw: Path,
        generators: Mapping[str, AnyGenerator],
        turns: int,
    ) -> SampleContext:
        deployment = state.deployment
        assert deployment is not None
        if not any(one.s.deployment is deployment for one in generators.values()):
            deployment.reset_state()
        manifest, cpus = self.session.writer.manifest, self.session.cpus
        client, server = pair = deployment.pairs_for([cell])[0]
        if isinstance(deployment, EnteredPods):
            client, server = deployment.entered(pair)
        elif isinstance(deployment, ControlledPods):
            client, server = deployment.controlled(pair)
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
            turns=turns * (LEAD_IN + LENGTH),
            raw=raw,
            client_cpu=cpus[0][0],
            server_cpu=cpus[0][1],
            congestion_control=self.session.cluster.congestion_control,
        )

    def _rounds(self, cells: Sequence[Cell]) -> int:
        """As many as the longest duration takes; all cells are in all rounds."""
        manifest = self.session.writer.manifest
        longest = max(cell.duration or manifest.duration for cell in cells)
        return max(FEWEST, round(longest / LENGTH))

    def _died(
        self,
        states: Mapping[str, ProfileState],
        cells: Sequence[Cell],
        failed: dict[str, CnibenchError],
    ) -> None:
        """Adds the cells of deployments that have died to ``failed``."""
        for label in dict.fromkeys(cell.label for cell in cells):
            state = states[label]
            if state.deployment is not None and not state.reason:
                state.reason = state.deployment.alive()
        for cell in cells:
            if reason := states[cell.label].reason:
                failed.setdefault(cell.id, MeasureError(reason))

    def _store(
        self,
        cells: Sequence[Cell],
        block: int,
        start: str,
        driven: Driven,
        failed: dict[str, CnibenchError],
        generators: Mapping[str, AnyGenerator],
        states: Mapping[str, ProfileState],
    ) -> dict[str, Value]:
        """Adds what has no value to ``failed``; returns the values."""
        session = self.session
        for refused in dict.fromkeys(
            [driven.priority, *(one.priority for one in generators.values())]
        ):
            if refused:
                how = priority.remedy(refused)
                session.does_not_hold(f"{refused} to what is measured in slices: {how}")
        found = values([[cell.id for cell in group] for group in alike(cells)], driven.slices)
        for cell in cells:
            if cell.id not in found:
                failed.setdefault(
                    cell.id,
                    MeasureError(
                        f"fewer than {FEWEST} of its slices delivered anything",
                        f"use a longer --duration, or --method windows where {LENGTH * 1e3:.0f} ms"
                        " are too short for it",
                    ),
                )
        for cell in cells:
            provenance = session.provenance_of(cell.workload, states[cell.label].deployment)
            duration = session.writer.manifest.duration
            seconds = expected_seconds([cell], session.workloads, duration, 0.0)
            with session.stop.held():
                if cell.id in failed:
                    error = failed[cell.id]
                    status, reason = _status(error), error.in_full
                    session.writer.room()
                    session.writer.finish_all(
                        [(cell, failure(cell, block, provenance, status, reason, start), ())], block
                    )
                    said: str = status
                else:
                    generator = generators[cell.id]
                    own = [one for one in driven.slices if one.cell == cell.id]
                    with session.writer.storing(generator.s.raw):
                        _write(generator.s, own)
                    measured = _measured(
                        cell,
                        generator,
                        found[cell.id],
                        driven,
                        start,
                        provenance.congestion_control != NONE,
                    )
                    made = lines(cell, block, provenance, measured)
                    session.writer.finish_all([(cell, made, measured.measurements.records)], block)
                    said, reason = "disturbed" if measured.disturbed else "ok", measured.disturbed
            session.progress.finished(cell, seconds, said, reason)
        return found


def _same_load(cell: Cell, generators: Mapping[str, AnyGenerator]) -> Generator | None:
    """The one that runs already for the cell without perf."""
    if cell.window == "speed":
        return None
    wanted = _load(cell)
    return next(
        (
            one
            for one in generators.values()
            if isinstance(one, Generator) and _load(one.s.cell) == wanted
        ),
        None,
    )


def _load(cell: Cell) -> Cell:
    """What is alike in all cells whose load is the same."""
    return msgspec.structs.replace(cell, window="speed", duration=None, blocks=None, pair=0)


def check_congestion_control(generator: AnyGenerator) -> None:
    """Raises MeasureError when one end of its connections does not have what was asked for."""
    found, asked = generator.congestion_control, generator.s.congestion_control
    if asked and found and found != asked:
        raise MeasureError(
            f"its connection has the congestion control {found}, and {asked} was asked for",
            remedy(generator.s),
        )


def _measured(
    cell: Cell, generator: AnyGenerator, value: Value, driven: Driven, start: str, tcp: bool
) -> Measured:
    load = generator.load
    found = driven.cycles.get(cell.id) or Measurements()
    refused = generator.priority or driven.priority
    algorithm = generator.congestion_control or (UNREAD if tcp else NONE)
    rate = load.rate(value.rate)
    found.add(load.metric, rate)
    found.add(load.per, value.cpu + driven.server.get(cell.id, 0.0))
    own = [one for one in driven.slices if one.cell == cell.id]
    if cell.id not in driven.server:  # of whose node only the clock of its programs is read
        for mode, seconds in modes(value.cpu, driven.user.get(cell.id), kept(own)).items():
            found.add(load.per.replace("cpu_", f"cpu_{mode}_", 1), seconds)
    if load.metric == "transaction_rate":  # one transaction at a time: its mean is the inverse
        found.add("latency_mean", 1 / rate)
    record = {
        "rounds": value.rounds,
        "left_out": value.left_out,
        "seconds": round(value.seconds, 6),
        "length": LENGTH,
        "lead_in": LEAD_IN,
        "half_width": value.half,
        "control": round(driven.control, 6),
        "wall": round(driven.wall, 6),
        "priority": refused or generator.wanted,
        **({"server_cpu": "of all turns together"} if cell.id in driven.server else {}),
    }
    found.records.append(("slices", record))
    client, server = generator.s.client, generator.s.server
    seen = evidence(
        own,
        driven.wall,
        driven.share,
        cpus=driven.cpus.get(cell.id) or 1,
        nodes=frozenset() if client.of_lab else {client.node.name, server.node.name},
        loads=None if client.local else driven.loads,
        where="" if client.local else f"on node {client.node.name}",
    )
    disturbed = "; ".join(filter(None, (stalls_disturbed(seen), left_out(value))))
    if disturbed:  # who reads records leaves these out
        found.records = [(name, {**one, "disturbed": disturbed}) for name, one in found.records]
    found.records.append((STALLS, seen.record(disturbed)))
    had = "normal" if refused else generator.wanted
    return Measured(found, start, now(), disturbed, algorithm, had)


def _write(s: SampleContext, slices: Sequence[Slice]) -> None:
    """raw/CELL/BLOCK/slices.jsonl: one slice a line (rounds.Slice)."""
    content = b"".join(msgspec.json.encode(one) + b"\n" for one in slices)
    write_private(s.raw / SLICES, content)
    make_private(s.raw)


def _status(error: CnibenchError) -> Status:
    if isinstance(error, LimitError):
        return "timeout"
    return "unsupported" if isinstance(error, UnsupportedError) else "failed"
