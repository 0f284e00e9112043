"""Installs, attests and removes the profiles of a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cnibench.errors import CnibenchError, EndedError, Interrupted
from cnibench.model.cell import Attestation
from cnibench.run.checks.cpus import pins
from cnibench.run.session import Session
from cnibench.testbed.deployment import Deployment

_log = logging.getLogger(__name__)
REPEATS = 3  # of what an outage of the cluster has spoilt


@dataclass
class ProfileState:
    """A profile of this run. ``reason`` says why it cannot be measured, '' while it can."""

    label: str
    deployment: Deployment | None
    reason: str = ""


class Profiles:
    """Failures are recorded as events; the run goes on with the other profiles."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def install(self, label: str, block: int | None = None) -> ProfileState:
        """Installs and attests a profile, again when an outage of the cluster spoilt it.

        ``block`` is given when each block has a deployment of its own.
        """
        for _ in range(REPEATS):
            self.session.outages()
            state = self._install(label, block)
            if not state.reason or not self.session.outages(suspect=True):
                return state
            self.remove(state)
        return self._install(label, block)

    def _install(self, label: str, block: int | None) -> ProfileState:
        session = self.session
        profile = session.profiles[label]
        where = {} if block is None else {"block": block}
        session.progress.stage(f"installing {label}")
        _log.info("installing %s (profile %s)", label, profile.name)
        began = time.monotonic()
        deployment: Deployment | None = None
        try:
            deployment = session.cluster.install(label, profile)
            installed = time.monotonic()
            _log.info("attesting %s, because it was installed", label)
            attestations = deployment.attest()
            if not session.cluster.manages_nodes:  # now their CPUs are known
                session.cpus = pins(
                    session.writer.manifest.cells[0].cpus,
                    session.cluster.options.pairs,
                    deployment.nodes(),
                )
        except (Interrupted, EndedError):
            raise
        except CnibenchError as error:
            step = "installing" if deployment is None else "attesting"
            session.writer.event(
                "profile-failed", label=label, reason=f"{step}: {error.message}", **where
            )
            session.notify(f"{label} is not measured, {step}: {_with_remedy(error)}")
            return ProfileState(label, deployment, f"{step} the profile failed: {error.message}")
        log_checks(attestations)
        session.writer.attestations(attestations)
        seconds = {
            "install": round(installed - began, 3),
            "attest": round(time.monotonic() - installed, 3),
        }
        if reason := refuted(attestations):
            session.writer.event(
                "profile-failed", label=label, reason=reason, seconds=seconds, **where
            )
            session.notify(f"{label} is not measured: {reason}")
            return ProfileState(label, deployment, reason)
        session.writer.event(
            "profile-installed", label=label, profile=profile.name, seconds=seconds, **where
        )
        return ProfileState(label, deployment)

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
            self.session.notify(f"{state.label}: {_with_remedy(error)}")
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


def _with_remedy(error: CnibenchError) -> str:
    return f"{error.message}; remedy: {error.remedy}" if error.remedy else error.message
