"""Carries out a plan on a cluster: blocks of cells in random order, each sample stored before the
next one starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cnibench.errors import ClusterError, CnibenchError, EndedError, Interrupted
from cnibench.model.profile import Profile
from cnibench.run.blocks import Blocks
from cnibench.run.collector import Collector
from cnibench.run.progress import Progress, Silent
from cnibench.run.ranking import Ranking
from cnibench.run.session import Session
from cnibench.run.slices.method import Slices
from cnibench.run.windows.method import Windows
from cnibench.run.workload import Workload
from cnibench.rundir.writer import RunWriter
from cnibench.system.interrupt import Stop
from cnibench.testbed.cluster import Cluster


@dataclass
class Runner:
    """One run. ``done`` are the samples that earlier sessions finished; ``enough`` is asked after
    so many blocks why the run may stop now ('': it may not), unless their number is fixed.

    ``cpus`` are the CPUs of (client, server) of each pair, used in turn; where the nodes are other
    machines they are chosen from theirs when a profile is installed; then other programs are given
    ``wait_quiet`` s at most to leave those idle. ``environment`` is what this machine reports; the
    cluster's facts are added. ``recorded`` is what an earlier session of this run stored of both.
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
    ranking: Ranking | None = None
    wait_quiet: float = 0.0

    def run(self) -> int:
        """Measures all that is missing; returns the number of samples that failed.

        Raises Interrupted after Ctrl-C and FullError when nothing can be stored any more; the
        cluster is cleaned up in every case. Raises ClusterError when a profile could not be
        removed; the run is complete then.
        """
        stop, writer = Stop(), self.writer
        session = Session(
            self.cluster,
            writer,
            self.profiles,
            self.workloads,
            self.cpus,
            self.progress,
            self.environment,
            self.recorded,
            stop,
            self.ranking,
            self.wait_quiet,
        )
        cycles = next((one for one in self.collectors if one.cycles), None)
        method = Slices(session, Windows(session, self.collectors), cycles)
        blocks = Blocks(session, method, self.done, self.enough)
        self.cluster.notify = session.notify
        with stop:
            try:
                writer.event(
                    "run-resumed" if writer.sessions else "run-started",
                    command=writer.manifest.command,
                    missing=len(blocks.missing()),
                )
                with stop.around(self.cluster):
                    session.describe()
                    failed = blocks.run()
            except Interrupted:
                session.event_if_possible("run-interrupted")
                left = ", ".join(session.not_removed)
                state = f"not removed: {left}" if left else "everything that was made is removed"
                raise Interrupted(
                    f"interrupted; {state}, every finished sample is kept",
                    f"go on with: cnibench run --resume {writer.path}",
                ) from None
            except EndedError as error:
                session.event_if_possible("run-failed", reason=error.message)
                remedy = f"{error.remedy}; go on with: cnibench run --resume {writer.path}"
                raise EndedError(
                    f"{error.message}; every finished sample is kept", remedy
                ) from None
            except CnibenchError as error:
                session.event_if_possible("run-failed", reason=error.message)
                raise
            finally:
                self.progress.end()
            writer.event("run-finished", failed=failed)
            _check_removed(session)
            return failed


def _check_removed(session: Session) -> None:
    if not session.not_removed:
        return
    reasons = [f"{label} ({error.message})" for label, error in session.not_removed.items()]
    remedies = [error.remedy for error in session.not_removed.values() if error.remedy]
    raise ClusterError(
        "every sample is stored, but this could not be removed from the cluster:"
        f" {'; '.join(reasons)}",
        remedies[0] if remedies else "'cnibench clean' removes what runs left behind",
    )
