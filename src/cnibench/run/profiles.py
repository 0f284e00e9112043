"""Installs, attests and removes the profiles of a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cnibench.errors import CnibenchError, EndedError
from cnibench.model.cell import Attestation
from cnibench.run.checks.cpus import pins
from cnibench.run.session import Session
from cnibench.run.workers import Workers
from cnibench.testbed.capabilities.quick_attestation import QuickAttestation
from cnibench.testbed.deployment import Deployment

_log = logging.getLogger(__name__)
REPEATS = 3  # of what an outage of the cluster has spoilt


@dataclass
class ProfileState:
    """A profile of this run. ``reason`` says why it cannot be measured, '' while it can."""

    label: str
    deployment: Deployment | None
    reason: str = ""


@dataclass
class _Made:
    """What became of one profile: its deployment and attestations, or the ``error`` that ended it.
    ``seconds`` of both steps.
    """

    deployment: Deployment | None = None
    attestations: Sequence[Attestation] = ()
    error: CnibenchError | None = None
    seconds: dict[str, float] = field(default_factory=dict)


class Profiles:
    """Failures are recorded as events; the run goes on with the other profiles."""

    def __init__(self, session: Session, workers: Workers) -> None:
        self.session, self._workers = session, workers
        self._proven: dict[str, Deployment] = {}  # by label

    def proven(self, states: Iterable[ProfileState]) -> None:
        """They were attested in full after their block: one that the next block has as it is (the
        CNI is the cluster's own) is not attested once more before it.
        """
        for state in states:
            there = state.deployment
            quick = isinstance(there, QuickAttestation)  # compared alone after blocks
            if there is not None and not (quick or state.reason or there.broken):
                self._proven[state.label] = there

    def install(self, labels: Sequence[str], block: int | None = None) -> Iterator[ProfileState]:
        """Installs and attests profiles, at the same time where the cluster can; again when an
        outage of the cluster spoilt one.

        ``block`` is given when each block has a deployment of its own.
        """
        if not self.session.cluster.concurrent:
            for label in labels:
                yield self._install(label, block)
            return
        self.session.progress.stage(f"installing {', '.join(labels)}")
        for label, made in zip(labels, self._workers.each(self._make, labels), strict=True):
            yield self._recorded(label, made, block)

    def _install(self, label: str, block: int | None) -> ProfileState:
        for last in (False,) * REPEATS + (True,):
            self.session.outages()
            self.session.progress.stage(f"installing {label}")
            state = self._recorded(label, self._make(label), block)
            if last or not state.reason or not self.session.outages(suspect=True):
                return state
            with self.session.stop.held():
                self.remove(state)
        raise AssertionError

    def _make(self, label: str) -> _Made:
        """In any thread where the cluster is ``concurrent``."""
        profile = self.session.profiles[label]
        _log.info("installing %s (profile %s)", label, profile.name)
        made, began = _Made(), time.monotonic()
        try:
            made.deployment = self.session.cluster.install(label, profile)
            installed = time.monotonic()
            if made.deployment is not self._proven.pop(label, None):
                _log.info("attesting %s, because it was installed", label)
                made.attestations = made.deployment.attest()
        except EndedError:
            raise
        except CnibenchError as error:
            made.error = error
            return made
        made.seconds = {
            "install": round(installed - began, 3),
            "attest": round(time.monotonic() - installed, 3),
        }
        return made

    def _recorded(self, label: str, made: _Made, block: int | None) -> ProfileState:
        session = self.session
        where = {} if block is None else {"block": block}
        error = made.error
        if error is None and not session.cluster.manages_nodes:  # now their CPUs are known
            assert made.deployment is not None
            try:
                session.cpus = pins(
                    session.writer.manifest.cells[0].cpus,
                    session.cluster.options.pairs,
                    made.deployment.nodes(),
                )
            except EndedError:
                raise
            except CnibenchError as refused:
                error = refused
        if error is not None:
            step = "installing" if made.deployment is None else "attesting"
            session.writer.event(
                "profile-failed", label=label, reason=f"{step}: {error.message}", **where
            )
            session.notify(f"{label} is not measured, {step}: {error.in_full}")
            reason = f"{step} the profile failed: {error.message}"
            return ProfileState(label, made.deployment, reason)
        log_checks(made.attestations)
        if made.attestations:
            session.writer.attestations(made.attestations)
        if reason := refuted(made.attestations):
            session.writer.event(
                "profile-failed", label=label, reason=reason, seconds=made.seconds, **where
            )
            session.notify(f"{label} is not measured: {reason}")
            return ProfileState(label, made.deployment, reason)
        if not session.cluster.manages_nodes and made.deployment is not None:
            session.look_at_nodes(made.deployment.nodes())
        name = session.profiles[label].name
        session.writer.event(
            "profile-installed", label=label, profile=name, seconds=made.seconds, **where
        )
        return ProfileState(label, made.deployment)

    def remove(self, state: ProfileState) -> None:
        """Removes the deployment, unless the run keeps it; a failure becomes an event and is raised
        at the end of the run.
        """
        if state.deployment is None:
            return
        deployment, state.deployment = state.deployment, None
        if self.session.cluster.options.keep:
            _log.info("%s is kept (--keep)", state.label)
            return
        _log.info("removing %s", state.label)
        try:
            deployment.remove()
            self.session.not_removed.pop(state.label, None)
        except CnibenchError as error:
            self.session.event_if_possible(
                "profile-not-removed", label=state.label, reason=error.message
            )
            self.session.notify(f"{state.label}: {error.in_full}")
            self.session.not_removed[state.label] = error


def log_checks(attestations: Sequence[Attestation]) -> None:
    """Each check as one record, failed ones as warnings."""
    for one in attestations:
        level = logging.DEBUG if one.passed else logging.WARNING
        _log.log(
            level,
            "%s: %s: expected %s, observed %s",
            one.label,
            one.check,
            one.expected,
            one.observed,
        )


def refuted(attestations: Sequence[Attestation]) -> str:
    """Which checks failed and what was observed; '' when every check passed."""
    wrong = [
        f"{item.check}: expected {item.expected}, observed {item.observed}"
        for item in attestations
        if not item.passed
    ]
    return f"attestation failed: {'; '.join(wrong)}" if wrong else ""
