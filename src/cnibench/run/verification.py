"""Compares deployments with what their profiles declare, between blocks and at the end; revokes the
samples of a deployment that changed meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from cnibench.errors import CnibenchError, EndedError
from cnibench.model.cell import AFTER_BLOCK, Attestation, Cell
from cnibench.model.units import plural
from cnibench.run.profiles import REPEATS, ProfileState, log_checks, refuted
from cnibench.run.provenance import failure
from cnibench.run.session import Session
from cnibench.run.workers import Workers
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import now
from cnibench.testbed.capabilities.quick_attestation import QuickAttestation
from cnibench.testbed.deployment import Deployment

_log = logging.getLogger(__name__)


class Verification:
    """What was measured on each deployment, and since when it is known to be as declared."""

    def __init__(self, session: Session, workers: Workers) -> None:
        self.session, self._workers = session, workers
        self._measured: dict[str, list[tuple[Cell, int]]] = {}  # since the last full attestation
        self._unverified: dict[str, list[tuple[Cell, int]]] = {}  # since the last comparison

    def after_block(
        self, states: Mapping[str, ProfileState], cells: Sequence[Cell], block: int
    ) -> int:
        """Compares each deployment; returns the number of samples that it revokes, those since the
        last comparison that passed.
        """
        for cell in cells:
            for record in (self._measured, self._unverified):
                record.setdefault(cell.label, []).append((cell, block))
        labels = list(dict.fromkeys(cell.label for cell in cells))
        for label in labels:
            _log.info("comparing %s with its declaration, because block %d ended", label, block + 1)
        here = [states[label] for label in labels]
        return self._checked(here, _quickly, self._unverified, block)

    def after_run(self, states: Mapping[str, ProfileState]) -> int:
        """Attests each deployment in full once more; returns the number of samples that it revokes:
        all since the deployment was last attested in full, as nothing says when the traffic
        changed.
        """
        measured = [state for label, state in states.items() if label in self._measured]
        for state in measured:
            _log.info("attesting %s again, because its measurement ended", state.label)
        return self._checked(measured, lambda it: it.attest(), self._measured)

    def before_removal(self, states: Mapping[str, ProfileState]) -> int:
        """``after_run`` of those deployments that are not compared after each block."""
        return self.after_run(
            {
                label: state
                for label, state in states.items()
                if not isinstance(state.deployment, QuickAttestation)
            }
        )

    def forget(self, label: str) -> None:
        """The deployment goes; the next one begins without samples."""
        self._measured.pop(label, None)
        self._unverified.pop(label, None)

    def _checked(
        self,
        states: Sequence[ProfileState],
        check: Callable[[Deployment], list[Attestation]],
        measured: dict[str, list[tuple[Cell, int]]],
        block: int | None = None,
    ) -> int:
        """Those that are there, at the same time where the cluster can. Takes the samples that
        depend on it from ``measured``; returns the number of those that it revokes. Of checks after
        a ``block`` that all passed one line is stored, of others each check.
        """
        samples = {state.label: measured.pop(state.label, []) for state in states}
        there = [
            (state, state.deployment)
            for state in states
            if state.deployment is not None and not state.reason and not state.deployment.broken
        ]
        outcomes = list(self._workers.each(lambda one: self._outcome(check, one[1]), there))
        if block is None:
            each = [found for found, _ in outcomes]
        else:  # at once: each is synced to the disk
            each = [[one for found, _ in outcomes for one in _with_block(found, block)]]
        for found in filter(None, each):
            self.session.writer.attestations(found)
        revoked = 0
        for (state, _), (_, reason) in zip(there, outcomes, strict=True):
            if reason:
                state.reason = f"changed during the run, {reason}"
                self.session.writer.event("profile-failed", label=state.label, reason=state.reason)
                self.session.notify(f"samples of {state.label} failed: it {state.reason}")
                revoked += self._revoke(state, samples[state.label])
        return revoked

    def _outcome(
        self, check: Callable[[Deployment], list[Attestation]], deployment: Deployment
    ) -> tuple[list[Attestation], str]:
        """All checks, and why the deployment is not as declared; '' when it is. Again when an
        outage of the cluster spoilt it.
        """
        for last in (False,) * REPEATS + (True,):
            found, reason = _outcome(check, deployment)
            if last or not reason or not self.session.outages(suspect=True):
                return found, reason
        raise AssertionError

    def _revoke(self, state: ProfileState, measured: Sequence[tuple[Cell, int]]) -> int:
        """Stores a failed attempt over each of these samples that did not fail."""
        session = self.session
        stored = {
            (sample.cell, sample.block): sample.status
            for sample in RunReader(session.writer.path).samples()
        }
        revoked = 0
        for cell, block in measured:
            if stored.get((cell.id, block)) == "ok":
                with session.stop.held():
                    provenance = session.provenance_of(cell.workload, state.deployment)
                    lines = failure(cell, block, provenance, "failed", state.reason, now())
                    session.writer.finish(cell, block, lines)
                _log.warning("%s, block %d: revoked", cell.id, block + 1)
                revoked += 1
        return revoked


def _outcome(
    check: Callable[[Deployment], list[Attestation]], deployment: Deployment
) -> tuple[list[Attestation], str]:
    """All checks, and why the deployment is not as declared; '' when it is."""
    try:
        found = check(deployment)
    except EndedError:
        raise
    except CnibenchError as error:
        return [], f"the attestation after the measurement failed: {error.message}"
    log_checks(found)
    return found, refuted(found)


def _with_block(found: Sequence[Attestation], block: int) -> list[Attestation]:
    """What is stored of one deployment's checks after a block."""
    if not found or not all(one.passed for one in found):
        return [replace(one, block=block) for one in found]
    said = f"{plural(len(found), 'comparison')} without a difference"
    return [replace(found[0], check=AFTER_BLOCK, expected=said, observed=said, block=block)]


def _quickly(deployment: Deployment) -> list[Attestation]:
    """Nothing where a deployment can only be attested in full."""
    return deployment.verify() if isinstance(deployment, QuickAttestation) else []
