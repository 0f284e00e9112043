"""Carries out a plan on a cluster: blocks of cells in random order, each sample stored before the
next one starts.
"""

from __future__ import annotations

import errno
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from cnibench.errors import (
    ClusterError,
    CnibenchError,
    EndedError,
    Interrupted,
    LimitError,
    MeasureError,
    UnsupportedError,
    UsageError,
)
from cnibench.model.cell import Attestation, Cell, Status
from cnibench.model.context import congestion_control, disagreements
from cnibench.model.profile import Profile
from cnibench.model.units import duration
from cnibench.planning.forecast import whole
from cnibench.planning.plan import expected_seconds
from cnibench.planning.schedule import by_pairs, order
from cnibench.run.collector import Collector
from cnibench.run.progress import Progress, Silent
from cnibench.run.sample import Provenance, failure, lines, measure_pairs, pins
from cnibench.run.sample_context import SampleContext
from cnibench.run.workload import Workload
from cnibench.rundir.schema import now
from cnibench.rundir.writer import FullError, RunWriter
from cnibench.system.files import make_private
from cnibench.system.interrupt import Stop
from cnibench.testbed.cluster import Cluster
from cnibench.testbed.deployment import Deployment

_log = logging.getLogger(__name__)
_REPEATS = 3  # of what an outage of the cluster has spoilt


@dataclass
class ProfileState:
    """A profile of this run: installed and proven, or why not."""

    label: str
    deployment: Deployment | None
    reason: str = ""  # '' while it can be measured


@dataclass
class Runner:
    """One run. ``done`` are the samples that an earlier attempt finished; ``enough`` is asked
    after so many blocks why the run may stop now ('': it may not), when the plan has a target.

    ``cpus`` are the CPUs of (client, server) of each pair, over and over; where the nodes are other
    machines they are chosen from theirs when a profile stands. ``environment`` is what the machine
    says of itself; the cluster's facts are added. ``recorded`` is what an earlier attempt of this
    run stored of both.
    """

    cluster: Cluster
    writer: RunWriter
    profiles: Mapping[str, Profile]
    workloads: Mapping[str, Workload]
    collectors: Sequence[Collector] = ()
    cpus: Sequence[tuple[int | None, int | None]] = ((None, None),)
    done: set[tuple[str, int]] = field(default_factory=set)
    progress: Progress = field(default_factory=Silent)
    environment: Mapping[str, Any] = field(default_factory=dict)
    enough: Callable[[int], str] | None = None
    recorded: Mapping[str, Any] = field(default_factory=dict)
    _stop: Stop = field(default_factory=Stop)
    _ground: Provenance = field(default_factory=lambda: Provenance("", "", "", ""))

    def run(self) -> int:
        """Measures all that is missing; the number of samples that failed.

        Raises Interrupted after Ctrl-C and FullError when nothing can be stored any more; the
        cluster is cleaned up in every case.
        """
        manifest = self.writer.manifest
        self.cluster.tell = self._tell
        with self._stop:
            try:
                self.writer.event(
                    "run-resumed" if self.writer.sessions else "run-started",
                    command=manifest.command,
                    missing=len(self._missing()),
                )
                with self._clean(self.cluster):
                    self._describe()
                    failed = (
                        self._together()
                        if self.cluster.simultaneous
                        else self._one_after_the_other()
                    )
            except Interrupted:
                self._last_words("run-interrupted")
                raise Interrupted(
                    "interrupted; everything that was made is removed, every finished sample is"
                    " kept",
                    f"go on with: cnibench run --resume {self.writer.path}",
                ) from None
            except EndedError as error:
                self._last_words("run-failed", reason=error.message)
                remedy = f"{error.remedy}; go on with: cnibench run --resume {self.writer.path}"
                raise EndedError(
                    f"{error.message}; every finished sample is kept", remedy
                ) from None
            except CnibenchError as error:
                self._last_words("run-failed", reason=error.message)
                raise
            finally:
                self.progress.end()
            self.writer.event("run-finished", failed=failed)
            return failed

    def _together(self) -> int:
        """All profiles stand side by side, so that each block interleaves them."""
        states: dict[str, ProfileState] = {}
        labels = {cell.label for cell, _ in self._missing()}
        try:
            for label in (label for label in self.profiles if label in labels):
                states[label] = self._install(label, None)
            self._describe()  # once more: what was installed is known now
            self._announce()
            return self._blocks(lambda block, cells: self._samples(states, cells, block))
        finally:
            with self._stop.held():
                for state in states.values():
                    self._remove(state)

    def _one_after_the_other(self) -> int:
        """One profile at a time: each block installs each profile anew, in the block's own
        order.
        """
        self._announce()

        def block_of(block: int, cells: list[Cell]) -> int:
            failed = 0
            for label, group in groupby(cells, key=lambda cell: cell.label):
                state = self._install(label, block)
                self.progress.made(self.cluster.seconds(self.profiles[label]))
                self._describe()  # once more: what was installed is known now
                try:
                    failed += self._samples({label: state}, group, block)
                finally:
                    with self._stop.held():
                        self._remove(state)
            return failed

        return self._blocks(block_of)

    def _blocks(self, carry_out: Callable[[int, list[Cell]], int]) -> int:
        manifest = self.writer.manifest
        failed = 0
        for block in range(self._most_blocks()):
            here = [cell for cell in manifest.cells if _due(cell, block)]
            cells = order(here, block, manifest.seed, together=not self.cluster.simultaneous)
            missing = [cell for cell in cells if (cell.id, block) not in self.done]
            if missing:
                failed += carry_out(block, missing)
                self.writer.event("block-finished", block=block)
            if (
                manifest.target_ci
                and self.enough is not None
                and (reason := self.enough(block + 1))
            ):
                self.writer.event("stopped", block=block, reason=reason)
                self._tell(reason)
                break
        return failed

    def _most_blocks(self) -> int:
        manifest = self.writer.manifest
        return manifest.max_blocks if manifest.target_ci else manifest.blocks

    def _missing(self) -> list[tuple[Cell, int]]:
        manifest = self.writer.manifest
        blocks = range(self._most_blocks())
        return [
            (cell, block)
            for block in blocks
            for cell in manifest.cells
            if _due(cell, block) and (cell.id, block) not in self.done
        ]

    def _announce(self) -> None:
        missing = self._missing()
        manifest = self.writer.manifest
        seconds = whole(
            missing, self.workloads, manifest.duration, manifest.warmup, self.cluster, self.profiles
        )
        self.progress.begin(len(missing), seconds)

    def _expected(self, cell: Cell) -> float:
        """Seconds; 0 for a pair that is measured while the first one is."""
        manifest = self.writer.manifest
        return expected_seconds(
            [cell], self.workloads, manifest.duration, manifest.warmup, self.cluster.pod_seconds
        )

    def _describe(self) -> None:
        """Raises UsageError when the nodes are others than those that an earlier attempt of this
        run was measured on.
        """
        facts, options, manifest = (
            self.cluster.environment(),
            self.cluster.options,
            self.writer.manifest,
        )
        offload = str(facts.get("wire_offload", options.wire_offload))
        told = {
            **self.environment,
            **facts,
            "testbed": self.cluster.testbed,
            "wire": self.cluster.wire,
            "wire_offload": offload,
        }
        if found := disagreements(self.recorded, told if self.cluster.ours else facts):
            raise UsageError(
                f"this run was measured on other nodes: {'; '.join(map(str, found))}",
                "resume it where it was begun, or start a new run",
            )
        self._ground = Provenance(
            self.cluster.testbed,
            self.cluster.wire,
            offload,
            "",
            wire_rate=options.wire_rate,
            pairs=options.pairs,
            duration=manifest.duration,
            warmup_time=manifest.warmup,
            congestion_control=congestion_control(told),
        )
        self.writer.environment({**self.recorded, **told})

    def _install(self, label: str, block: int | None) -> ProfileState:
        """Installs and attests; a profile that fails either is not measured, and the run goes
        on.
        """
        for _ in range(_REPEATS):
            self._outages()
            state = self._installed(label, block)
            if not state.reason or not self._outages(suspect=True):
                return state
            self._remove(state)
        return self._installed(label, block)

    def _installed(self, label: str, block: int | None) -> ProfileState:
        profile = self.profiles[label]
        where = {} if block is None else {"block": block}
        self.progress.stage(f"installing {label}")
        _log.info("installing %s (profile %s)", label, profile.name)
        began = time.monotonic()
        deployment: Deployment | None = None
        try:
            deployment = self.cluster.install(label, profile)
            installed = time.monotonic()
            _log.info("attesting %s, because it was installed", label)
            found = deployment.attest()
            if not self.cluster.ours:  # what CPUs other machines have is known now
                self.cpus = pins(
                    self.writer.manifest.cells[0].cpus,
                    self.cluster.options.pairs,
                    deployment.nodes(),
                )
        except (Interrupted, EndedError):
            raise
        except CnibenchError as error:
            step = "installing" if deployment is None else "attesting"
            self.writer.event(
                "profile-failed", label=label, reason=f"{step}: {error.message}", **where
            )
            self._tell(f"{label} is not measured, {step}: {_with_remedy(error)}")
            return ProfileState(label, deployment, f"{step} the profile failed: {error.message}")
        for one in found:
            _log.log(
                logging.DEBUG if one.passed else logging.WARNING,
                "%s: %s: expected %s, observed %s",
                label,
                one.check,
                one.expected,
                one.observed,
            )
        self.writer.attestations(found)
        seconds = {
            "install": round(installed - began, 3),
            "attest": round(time.monotonic() - installed, 3),
        }
        if reason := _refuted(found):
            self.writer.event(
                "profile-failed", label=label, reason=reason, seconds=seconds, **where
            )
            self._tell(f"{label} is not measured: {reason}")
            return ProfileState(label, deployment, reason)
        self.writer.event(
            "profile-installed", label=label, profile=profile.name, seconds=seconds, **where
        )
        return ProfileState(label, deployment)

    def _remove(self, state: ProfileState) -> None:
        if state.deployment is None:
            return
        deployment, state.deployment = state.deployment, None
        if self.cluster.options.keep:
            _log.info("%s is kept (--keep)", state.label)
            return
        _log.info("removing %s", state.label)
        try:
            deployment.remove()
        except CnibenchError as error:
            self._last_words("profile-not-removed", label=state.label, reason=error.message)
            self._tell(f"{state.label}: {_with_remedy(error)}")

    def _samples(
        self, states: Mapping[str, ProfileState], cells: Iterable[Cell], block: int
    ) -> int:
        """All those cells of a block, pairs at the same time where they can be; the number of
        samples that failed.
        """
        failed = 0
        for pairs in by_pairs(cells):
            several = any(self.workloads[cell.workload].runs_concurrently(cell) for cell in pairs)
            for group in [pairs] if several else [[cell] for cell in pairs]:
                failed += self._sample(states[group[0].label], group, block)
        return failed

    def _sample(self, state: ProfileState, cells: Sequence[Cell], block: int) -> int:
        """One cell, or those of several pairs at the same time: the number that failed, all or
        none; they are stored in both cases.
        """
        known = state.reason
        for last in (False,) * _REPEATS + (True,):
            state.reason = known
            if (failed := self._attempt(state, cells, block, last)) is not None:
                return failed
        raise AssertionError

    def _attempt(
        self, state: ProfileState, cells: Sequence[Cell], block: int, last: bool
    ) -> int | None:
        """The same, None when the cluster did not answer meanwhile: nothing is stored then, unless
        it is the ``last`` time.
        """
        self._outages()
        self.progress.cell(cells[0], block, self._most_blocks())
        _log.info("block %d: %s starts", block + 1, ", ".join(cell.id for cell in cells))
        start = now()
        status: Status = "failed"
        reason = state.reason
        ground = replace(
            self._ground, fidelity=state.deployment.fidelity if state.deployment else ""
        )
        where = f"block {block + 1}, {cells[0].id}"
        if not reason and state.deployment is not None:
            raw = [self.writer.raw(cell, block) for cell in cells]
            try:
                with _recorded(raw[0], self.writer), _private(raw):
                    found = measure_pairs(
                        [
                            (s, self._reading(s.cell))
                            for s in self._situations(state.deployment, cells, block, raw)
                        ],
                        self.workloads[cells[0].workload],
                    )
                    if died := state.deployment.alive():
                        state.reason = f"{died} (found after {where})"
                        raise ClusterError(died)
                if self._outages():
                    if not last:
                        return None
                    raise ClusterError(
                        "the cluster did not answer for a part of the window, again and again",
                        "see events.jsonl",
                    )
                with self._stop.held():
                    both = zip(cells, found, strict=True)
                    self.writer.finish_all(
                        [
                            (cell, lines(cell, block, ground, one), one.findings.records)
                            for cell, one in both
                        ],
                        block,
                    )
                for cell, one in zip(cells, found, strict=True):
                    said = "disturbed" if one.disturbed else "ok"
                    _log.info("%s: %s%s", cell.id, said, one.disturbed and f": {one.disturbed}")
                    self.progress.finished(cell, self._expected(cell), said, one.disturbed)
                return 0
            except (Interrupted, FullError, EndedError):
                raise
            except LimitError as error:
                status, reason = "timeout", error.message
            except UnsupportedError as error:
                status, reason = "unsupported", error.message
            except CnibenchError as error:
                reason = error.message
            if status != "unsupported" and self._outages(suspect=True) and not last:
                return None
            if status != "unsupported" and not state.reason and (died := state.deployment.alive()):
                state.reason = f"{died} (found after {where})"
        # what failed because the disk is full has not failed: it is missing, and resuming does it
        self.writer.room()
        with self._stop.held():
            self.writer.finish_all(
                [(cell, failure(cell, block, ground, status, reason, start), ()) for cell in cells],
                block,
            )
        for cell in cells:
            _log.warning("%s: %s: %s", cell.id, status, reason)
            self.progress.finished(cell, self._expected(cell), status, reason)
        return len(cells)

    def _outages(self, suspect: bool = False) -> bool:
        """Has the cluster not answered since this was asked last? Each such time becomes an event.
        Raises EndedError.
        """
        found = self.cluster.outages(suspect)
        for one in found:
            self.writer.event("outage", start=one.start, seconds=one.seconds, reason=one.reason)
            self._tell(
                f"the cluster did not answer for {duration(one.seconds)} ({one.reason}); what was"
                " under way is done again"
            )
        return bool(found)

    def _reading(self, cell: Cell) -> list[Collector]:
        workload = self.workloads[cell.workload]
        if not workload.collected:
            return []
        return [
            one
            for one in self.collectors
            if cell.window in one.windows and (one.of_pair or not workload.runs_concurrently(cell))
        ]

    def _situations(
        self, deployment: Deployment, cells: Sequence[Cell], block: int, raw: Sequence[Path]
    ) -> list[SampleContext]:
        deployment.reset_state()
        manifest = self.writer.manifest
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
                client_cpu=self.cpus[cell.pair % len(self.cpus)][0],
                server_cpu=self.cpus[cell.pair % len(self.cpus)][1],
            )
            for cell, folder, (client, server) in zip(
                cells, raw, deployment.pairs_for(cells), strict=True
            )
        ]

    @contextmanager
    def _clean(self, cluster: Cluster) -> Iterator[None]:
        """The cluster's own ``with``, whose end no signal cuts in two."""
        cluster.__enter__()
        try:
            yield
        finally:
            with self._stop.held():
                cluster.__exit__(*sys.exc_info())

    def _tell(self, text: str) -> None:
        _log.info("%s", text)
        self.progress.tell(text)

    def _last_words(self, kind: str, **what: Any) -> None:
        try:
            self.writer.event(kind, **what)
        except FullError:
            pass  # the disk is full: what is finished is on it already


@contextmanager
def _private(folders: Sequence[Path]) -> Iterator[None]:
    """What tools wrote there names programs, addresses and machines: in the end only its owner may
    read it.
    """
    try:
        yield
    finally:
        for folder in folders:
            make_private(folder)


@contextmanager
def _recorded(raw: Path, writer: RunWriter) -> Iterator[None]:
    """Makes every fault of one sample one that is recorded: a parser's defect must not end a
    night's run.
    """
    try:
        yield
    except CnibenchError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise writer.full() from None
        where = f"{error.filename}: " if error.filename else ""
        raise MeasureError(f"{where}{error.strerror or error}") from None
    except Exception as error:
        _log.exception("a defect of cnibench")
        with writer.storing(raw / "defect.txt"):
            (raw / "defect.txt").write_text(traceback.format_exc(), encoding="utf-8")
            (raw / "defect.txt").chmod(0o600)
        raise MeasureError(
            f"a defect of cnibench: {type(error).__name__}: {error}", f"report {raw / 'defect.txt'}"
        ) from None


def _due(cell: Cell, block: int) -> bool:
    """Is the cell measured in that block? One with a number of blocks of its own is in the first
    ones.
    """
    return cell.blocks is None or block < cell.blocks


def _refuted(found: Sequence[Attestation]) -> str:
    """'' when every check passed, else which did not and what was seen."""
    wrong = [
        f"{item.check}: expected {item.expected}, observed {item.observed}"
        for item in found
        if not item.passed
    ]
    return f"attestation failed: {'; '.join(wrong)}" if wrong else ""


def _with_remedy(error: CnibenchError) -> str:
    return f"{error.message}; remedy: {error.remedy}" if error.remedy else error.message
