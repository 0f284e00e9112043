"""The blocks of a run: which cells each one has, in which order, and which profiles are installed
meanwhile. How the cells of a block are measured is a Method's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from cnibench.model.cell import Cell
from cnibench.model.units import duration
from cnibench.planning.forecast import whole
from cnibench.planning.schedule import order
from cnibench.run.profiles import Profiles, ProfileState
from cnibench.run.session import Session
from cnibench.run.verification import Verification
from cnibench.run.workers import Workers


class Method(Protocol):
    """How the cells of a block are measured."""

    def measure(
        self, states: Mapping[str, ProfileState], cells: Sequence[Cell], block: int, blocks: int
    ) -> int:
        """Measures and stores every cell, in this order or interleaved; returns the number of
        samples that failed.

        ``states`` has the profile of each cell, by label. ``blocks`` is the most that there can
        be. Called again with other cells of the same block where profiles are installed one after
        the other.
        """


@dataclass
class Blocks:
    """``done`` are the samples that earlier sessions finished. ``enough`` is asked after each block
    why the run may stop now ('': it may not), unless the number of blocks is fixed.
    """

    session: Session
    method: Method
    done: Set[tuple[str, int]]
    enough: Callable[[int], str] | None = None

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self.workers = Workers(self.session.cluster.concurrent)
        self.profiles = Profiles(self.session, self.workers)
        self.verification = Verification(self.session, self.workers)

    @property
    def most(self) -> int:
        manifest = self.session.writer.manifest
        return manifest.max_blocks if manifest.target_ci else manifest.blocks

    def missing(self) -> list[tuple[Cell, int]]:
        """The samples that are not stored yet, each as (cell, block)."""
        return [
            (cell, block)
            for block in range(self.most)
            for cell in self.session.writer.manifest.cells
            if _due(cell, block) and (cell.id, block) not in self.done
        ]

    def run(self) -> int:
        """Measures all that is missing; returns the number of samples that failed."""
        try:
            return self._run()
        finally:
            self.workers.close()

    def _run(self) -> int:
        if not self._interleaved:
            return self._one_by_one()
        manifest = self.session.writer.manifest
        again = self._sliced or manifest.deployment_blocks
        return self._redeployed(manifest.deployment_blocks or 1) if again else self._together()

    @property
    def _sliced(self) -> bool:
        return any(cell.method == "slices" for cell in self.session.writer.manifest.cells)

    @property
    def _interleaved(self) -> bool:
        """Are all profiles installed at once?"""
        cluster = self.session.cluster
        return cluster.simultaneous or (self._sliced and cluster.slices == "together")

    def _redeployed(self, kept: int) -> int:
        """Deploys all profiles again for each ``kept`` blocks: the spread between deployments is
        then in the spread between blocks.
        """
        session = self.session
        states: dict[str, ProfileState] = {}
        last = 0  # block that was measured
        self._announce()

        def remove() -> None:
            with session.stop.held():
                while states:
                    _, state = states.popitem()
                    self.verification.forget(state.label)
                    self.profiles.remove(state)

        def measure(block: int, cells: list[Cell]) -> int:
            nonlocal last
            if block // kept != last // kept:
                remove()
            last = block
            labels = dict.fromkeys(cell.label for cell in cells if cell.label not in states)
            for state in self.profiles.install(list(labels), block):
                states[state.label] = state
                session.progress.made(session.cluster.seconds(session.profiles[state.label]))
            session.describe()  # again: what was installed is known now
            failed = self.method.measure(states, cells, block, self.most)
            failed += self.verification.after_block(states, cells, block)
            if (block + 1) % kept == 0:
                failed += self.verification.before_removal(states)
                self.profiles.proven(states.values())
            return failed

        try:  # the last deployments are there until it is known that no block follows
            return self._each(measure) + self.verification.after_run(states)
        finally:
            remove()

    def _together(self) -> int:
        """Every profile is installed during all blocks, so that each block interleaves them."""
        session = self.session
        states: dict[str, ProfileState] = {}
        labels = {cell.label for cell, _ in self.missing()}
        try:
            wanted = [label for label in session.profiles if label in labels]
            for state in self.profiles.install(wanted):
                states[state.label] = state
            session.describe()  # again: what was installed is known now
            self._announce()

            def measure(block: int, cells: list[Cell]) -> int:
                failed = self.method.measure(states, cells, block, self.most)
                return failed + self.verification.after_block(states, cells, block)

            return self._each(measure) + self.verification.after_run(states)
        finally:
            with session.stop.held():
                for state in states.values():
                    self.profiles.remove(state)

    def _one_by_one(self) -> int:
        """One profile at a time: each block installs each profile again, in the block's own
        order.
        """
        session = self.session
        self._announce()

        def measure(block: int, cells: list[Cell]) -> int:
            failed = 0
            for label, group in groupby(cells, key=lambda cell: cell.label):
                (state,) = self.profiles.install([label], block)
                session.progress.made(session.cluster.seconds(session.profiles[label]))
                session.describe()  # again: what was installed is known now
                try:
                    here = list(group)
                    failed += self.method.measure({label: state}, here, block, self.most)
                    failed += self.verification.after_block({label: state}, here, block)
                    failed += self.verification.before_removal({label: state})
                    self.profiles.proven([state])
                finally:
                    self.verification.forget(label)
                    with session.stop.held():
                        self.profiles.remove(state)
            return failed

        return self._each(measure)

    def _each(self, measure: Callable[[int, list[Cell]], int]) -> int:
        session, manifest = self.session, self.session.writer.manifest
        failed, expected = 0, 0.0
        for block in range(self.most):
            here = [cell for cell in manifest.cells if _due(cell, block)]
            cells = order(here, block, manifest.seed, together=not self._interleaved)
            missing = [cell for cell in cells if (cell.id, block) not in self.done]
            if missing:
                expected += self._seconds([(cell, block) for cell in missing])
                failed += measure(block, missing)
                session.writer.event("block-finished", block=block)
                if session.ranking is not None:
                    session.ranking.finished(block + 1)
            reason = self.enough(block + 1) if self.enough is not None else ""
            if not reason and missing and block + 1 < self.most:
                reason = self._spent(block + 1, expected)
            if reason:
                session.writer.event("stopped", block=block, reason=reason)
                session.notify(reason)
                break
        return failed

    def _spent(self, block: int, expected: float) -> str:
        """Why that block is not started any more; '' where there is time. It will take longer than
        expected by as much as this session did, which had so many seconds ``expected``. Each
        session of a run has the whole budget.
        """
        manifest = self.session.writer.manifest
        if not manifest.budget:
            return ""
        spent = time.monotonic() - self._began
        due = [(cell, block) for cell in manifest.cells if _due(cell, block)]
        needed = self._seconds(due) * spent / expected if expected else 0.0
        if spent + needed <= manifest.budget:
            return ""
        return (
            f"the budget of {duration(manifest.budget)} is used: another block would take about"
            f" {duration(needed)}"
        )

    def _seconds(self, samples: Sequence[tuple[Cell, int]]) -> float:
        """What these cells take, each in its block."""
        session, manifest = self.session, self.session.writer.manifest
        return whole(
            samples,
            session.workloads,
            manifest.duration,
            manifest.warmup,
            session.cluster,
            session.profiles,
            manifest.deployment_blocks or 1,
        )

    def _announce(self) -> None:
        session, manifest = self.session, self.session.writer.manifest
        missing = self.missing()
        seconds = self._seconds(missing)
        session.progress.begin(len(missing), min(seconds, manifest.budget or seconds))


def _due(cell: Cell, block: int) -> bool:
    """Whether the cell is measured in that block; one with a number of blocks of its own is in the
    first ones.
    """
    return cell.blocks is None or block < cell.blocks
