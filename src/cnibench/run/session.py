"""What the parts of one run share: cluster, run directory, settings and progress."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cnibench.errors import CnibenchError, UsageError
from cnibench.model.context import congestion_control, disagreements
from cnibench.model.profile import Profile
from cnibench.model.units import duration
from cnibench.run.progress import Progress
from cnibench.run.provenance import Provenance
from cnibench.run.workload import Workload
from cnibench.rundir.files import FullError
from cnibench.rundir.writer import RunWriter
from cnibench.system.interrupt import Stop
from cnibench.testbed.capabilities.outages import Outages
from cnibench.testbed.cluster import Cluster

_log = logging.getLogger(__name__)


@dataclass
class Session:
    """``cpus`` are the CPUs of (client, server) of each pair, used in turn. ``environment`` is what
    this machine reports, ``recorded`` what an earlier session of the same run stored.
    """

    cluster: Cluster
    writer: RunWriter
    profiles: Mapping[str, Profile]
    workloads: Mapping[str, Workload]
    cpus: Sequence[tuple[int | None, int | None]]
    progress: Progress
    environment: Mapping[str, Any]
    recorded: Mapping[str, Any]
    stop: Stop
    provenance: Provenance = field(default_factory=lambda: Provenance("", "", "", ""))
    not_removed: dict[str, CnibenchError] = field(default_factory=dict)  # by label

    def describe(self) -> None:
        """Stores the environment as it is known now, and what follows from it for every sample.

        Raises UsageError when the nodes are not those of an earlier session of this run.
        """
        facts, options, manifest = (
            self.cluster.environment(),
            self.cluster.options,
            self.writer.manifest,
        )
        offload = str(facts.get("wire_offload", options.wire_offload))
        all_facts = {
            **self.environment,
            **facts,
            "testbed": self.cluster.testbed,
            "wire": self.cluster.wire,
            "wire_offload": offload,
        }
        known = all_facts if self.cluster.manages_nodes else facts
        if differences := disagreements(self.recorded, known):
            raise UsageError(
                f"this run was measured on other nodes: {'; '.join(map(str, differences))}",
                "resume it on the machine where it was started, or start a new run",
            )
        self.provenance = Provenance(
            self.cluster.testbed,
            self.cluster.wire,
            offload,
            "",
            wire_rate=options.wire_rate,
            pairs=options.pairs,
            duration=manifest.duration,
            warmup_time=manifest.warmup,
            congestion_control=self.cluster.congestion_control or congestion_control(all_facts),
        )
        self.writer.environment({**self.recorded, **all_facts})

    def outages(self, suspect: bool = False) -> bool:
        """Whether the cluster was unavailable at any time since the last call; each such time
        becomes an event.

        ``suspect``: something has just failed that an outage would explain. Raises EndedError.
        """
        if not isinstance(self.cluster, Outages):
            return False
        outages = self.cluster.outages(suspect)
        for one in outages:
            self.writer.event("outage", start=one.start, seconds=one.seconds, reason=one.reason)
            self.tell(
                f"the cluster did not answer for {duration(one.seconds)} ({one.reason}); the"
                " samples of that time are repeated"
            )
        return bool(outages)

    def tell(self, text: str) -> None:
        """Shows a message that stays to be read, and logs it."""
        _log.info("%s", text)
        self.progress.tell(text)

    def event_if_possible(self, kind: str, **fields: Any) -> None:
        """An event on the way out of a failure, which must not be replaced by a full disk."""
        try:
            self.writer.event(kind, **fields)
        except FullError:
            pass  # every finished sample is on the disk already
