"""Measures the cells of a block one after the other, each in a window of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cnibench.errors import ClusterError, CnibenchError, EndedError, LimitError, UnsupportedError
from cnibench.model.cell import Cell, Status
from cnibench.planning.forecast import expected_seconds, of_services
from cnibench.planning.schedule import by_pairs
from cnibench.run.collector import Collector
from cnibench.run.profiles import REPEATS, ProfileState
from cnibench.run.provenance import failure, lines
from cnibench.run.sample_context import SampleContext
from cnibench.run.sample_faults import private, recorded
from cnibench.run.session import Session
from cnibench.run.windows.sample import measure_pairs
from cnibench.rundir.files import FullError
from cnibench.rundir.schema import now
from cnibench.testbed.deployment import Deployment

_log = logging.getLogger(__name__)


@dataclass
class Windows:
    """The method (blocks.Method) of one window per sample, with a client of its own."""

    session: Session
    collectors: Sequence[Collector]

    def measure(
        self, states: Mapping[str, ProfileState], cells: Sequence[Cell], block: int, blocks: int
    ) -> int:
        """Each cell in turn, pairs at the same time where they can be; the number of samples that
        failed.
        """
        workloads = self.session.workloads
        failed = 0
        for pairs in by_pairs(cells):
            several = any(workloads[cell.workload].runs_concurrently(cell) for cell in pairs)
            for group in [pairs] if several else [[cell] for cell in pairs]:
                failed += self._sample(states[group[0].label], group, block, blocks)
        return failed

    def _sample(self, state: ProfileState, cells: Sequence[Cell], block: int, blocks: int) -> int:
        """One cell, or those of several pairs at the same time: the number that failed, all or
        none; they are stored in both cases.
        """
        known = state.reason
        for last in (False,) * REPEATS + (True,):
            state.reason = known
            if (failed := self._attempt(state, cells, block, blocks, last)) is not None:
                return failed
        raise AssertionError

    def _attempt(
        self, state: ProfileState, cells: Sequence[Cell], block: int, blocks: int, last: bool
    ) -> int | None:
        """The same; None when the cluster was unavailable meanwhile: nothing is stored then,
        unless it is the ``last`` attempt.
        """
        session = self.session
        session.outages()
        session.progress.cell(cells[0], block, blocks)
        _log.info("block %d: %s starts", block + 1, ", ".join(cell.id for cell in cells))
        start = now()
        status: Status = "failed"
        reason = state.reason
        provenance = session.provenance_of(cells[0].workload, state.deployment)
        where = f"block {block + 1}, {cells[0].id}"
        if not reason and state.deployment is not None:
            raw = [session.writer.raw(cell, block) for cell in cells]
            try:
                with recorded(raw[0], session.writer), private(raw):
                    measured = measure_pairs(
                        [
                            (s, self._collectors_of(s.cell))
                            for s in self._contexts(state.deployment, cells, block, raw)
                        ],
                        session.workloads[cells[0].workload],
                    )
                    if died := state.deployment.alive():
                        state.reason = f"{died} (found after {where})"
                        raise ClusterError(died)
                if session.outages():
                    if not last:
                        return None
                    raise ClusterError(
                        "the cluster did not answer for a part of the window, repeatedly",
                        "see events.jsonl",
                    )
                with session.stop.held():
                    session.writer.finish_all(
                        [
                            (cell, lines(cell, block, provenance, one), one.measurements.records)
                            for cell, one in zip(cells, measured, strict=True)
                        ],
                        block,
                    )
                for cell, one in zip(cells, measured, strict=True):
                    said = "disturbed" if one.disturbed else "ok"
                    _log.info("%s: %s%s", cell.id, said, one.disturbed and f": {one.disturbed}")
                    session.progress.finished(cell, self.expected(cell), said, one.disturbed)
                return 0
            except (FullError, EndedError):
                raise
            except LimitError as error:
                status, reason = "timeout", error.in_full
            except UnsupportedError as error:
                status, reason = "unsupported", error.in_full
            except CnibenchError as error:
                reason = error.in_full
            if status != "unsupported" and session.outages(suspect=True) and not last:
                return None
            if status != "unsupported" and not state.reason and (died := state.deployment.alive()):
                state.reason = f"{died} (found after {where})"
        # a sample that failed because the disk is full is not stored as failed: it is missing, and
        # the next session measures it
        session.writer.room()
        with session.stop.held():
            session.writer.finish_all(
                [
                    (cell, failure(cell, block, provenance, status, reason, start), ())
                    for cell in cells
                ],
                block,
            )
        for cell in cells:
            _log.warning("%s: %s: %s", cell.id, status, reason)
            session.progress.finished(cell, self.expected(cell), status, reason)
        return len(cells)

    def expected(self, cell: Cell) -> float:
        """Seconds that are forecast for one sample; 0 for a pair that is measured while the first
        one is.
        """
        session, manifest = self.session, self.session.writer.manifest
        seconds = expected_seconds(
            [cell],
            session.workloads,
            manifest.duration,
            manifest.warmup,
            session.cluster.pod_seconds,
        )
        return seconds + of_services(cell, session.cluster, session.profiles)

    def _collectors_of(self, cell: Cell) -> list[Collector]:
        workload = self.session.workloads[cell.workload]
        if not workload.collected:
            return []
        return [
            one
            for one in self.collectors
            if cell.window in one.windows and (one.of_pair or not workload.runs_concurrently(cell))
        ]

    def _contexts(
        self, deployment: Deployment, cells: Sequence[Cell], block: int, raw: Sequence[Path]
    ) -> list[SampleContext]:
        deployment.reset_state()
        manifest, cpus = self.session.writer.manifest, self.session.cpus
        return [
            SampleContext(
                cell=cell,
                block=block,
                deployment=deployment,
                client=client,
                server=server,
                duration=cell.duration or manifest.duration,
                warmup=manifest.warmup,
                raw=folder,
                client_cpu=cpus[cell.pair % len(cpus)][0],
                server_cpu=cpus[cell.pair % len(cpus)][1],
                congestion_control=self.session.cluster.congestion_control,
            )
            for cell, folder, (client, server) in zip(
                cells, raw, deployment.pairs_for(cells), strict=True
            )
        ]
