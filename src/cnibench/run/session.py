"""What the parts of one run share: cluster, run directory, settings and progress."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cnibench.errors import CnibenchError, UsageError
from cnibench.model.context import coordinate, differing, disagreements
from cnibench.model.coordinates import NONE
from cnibench.model.profile import Profile
from cnibench.model.units import duration
from cnibench.run.checks.busy_nodes import look_or_wait
from cnibench.run.checks.cpus import cores, doubts
from cnibench.run.progress import Progress
from cnibench.run.provenance import Provenance
from cnibench.run.ranking import Ranking
from cnibench.run.workload import Workload
from cnibench.rundir.files import FullError
from cnibench.rundir.writer import RunWriter
from cnibench.system.interrupt import Stop
from cnibench.system.process import priority_refused
from cnibench.testbed.capabilities.outages import Outages
from cnibench.testbed.cluster import Cluster
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Node

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
    ranking: Ranking | None = None
    wait_quiet: float = 0.0  # s
    provenance: Provenance = field(default_factory=lambda: Provenance("", "", "", ""))
    not_removed: dict[str, CnibenchError] = field(default_factory=dict)  # by label
    unheld: list[str] = field(default_factory=list)  # settings that do not hold, in words
    _facts: dict[str, Any] = field(default_factory=dict)  # that env.json has

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
        before = (self._facts or self.recorded).get("installed", {})
        now = facts.get("installed", {})
        if changed := differing(coordinate("installed"), before, now):
            raise UsageError(
                "what is measured is not what this run started with:"
                f" {'; '.join(map(str, changed))}",
                "start a new run, or resume this one when that is there again",
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
        )
        self._facts = {**self.recorded, **all_facts}
        if before:  # also that of labels that this session has not installed yet
            self._facts["installed"] = {**before, **now}
        for where in (self.recorded, self.environment, facts):
            for said in where.get("unheld", ()):
                self._note(said, known=where is self.recorded)
        siblings = cores() if self.cluster.manages_nodes else {}
        for said in (*priority_refused(), *doubts(self.cpus, siblings)):
            self._note(said)
        self._write()

    def look_at_nodes(self, nodes: Sequence[Node]) -> None:
        """How busy they are before anything is measured there, for env.json; once a session."""
        if "node_load" in self.environment:
            return
        found, missed = look_or_wait(nodes, self.wait_quiet, self.notify)
        loads = [{**asdict(one), "others": round(one.others, 2)} for one in found.loads]
        self.environment = {**self.environment, "node_load": loads}
        if missed:
            self.does_not_hold(missed)

    def does_not_hold(self, said: str) -> None:
        """A setting that was asked for and does not hold, in words. It becomes an event and a part
        of env.json, and reports begin with it.
        """
        self._note(said)
        self._write()

    def _note(self, said: str, known: bool = False) -> None:
        if said in self.unheld:
            return
        self.unheld.append(said)
        if not known:
            _log.warning("a setting does not hold: %s", said)
            self.writer.event("setting-does-not-hold", setting=said)

    def _write(self) -> None:
        more = {"unheld": sorted(self.unheld)} if self.unheld or "unheld" in self._facts else {}
        self.writer.environment({**self._facts, **more})

    def provenance_of(self, workload: str, deployment: Deployment | None) -> Provenance:
        """Of a sample of that workload before it is measured."""
        found = self.provenance
        if deployment is not None:
            found = replace(found, fidelity=deployment.fidelity, proxy=deployment.proxy)
        if self.workloads[workload].transport != "tcp":
            found = replace(found, congestion_control=NONE)
        return found

    def outages(self, suspect: bool = False) -> bool:
        """Whether the cluster was unavailable at any time since the last call; each such time
        becomes an event.

        ``suspect``: something has just failed that an outage would explain. Raises EndedError, and
        Interrupted if something swallowed it since the last call.
        """
        self.stop.check()
        if not isinstance(self.cluster, Outages):
            return False
        outages = self.cluster.outages(suspect)
        for one in outages:
            self.writer.event("outage", start=one.start, seconds=one.seconds, reason=one.reason)
            self.notify(
                f"the cluster did not answer for {duration(one.seconds)} ({one.reason}); the"
                " samples of that time are repeated"
            )
        return bool(outages)

    def notify(self, text: str) -> None:
        """Shows a message that stays to be read, and logs it."""
        _log.info("%s", text)
        self.progress.notify(text)

    def event_if_possible(self, kind: str, **fields: Any) -> None:
        """An event on the way out of a failure, which must not be replaced by a full disk."""
        try:
            self.writer.event(kind, **fields)
        except FullError:
            pass  # every finished sample is on the disk already
