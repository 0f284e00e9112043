"""A profile between two machines, attested."""

from __future__ import annotations

from cnibench.clusters.ssh.lab import attestation
from cnibench.clusters.ssh.lab.pair import Pair
from cnibench.model.cell import Attestation
from cnibench.testbed.capabilities.quick_attestation import QuickAttestation


class PairDeployment(Pair, QuickAttestation):
    """One deployed profile."""

    def attest(self) -> list[Attestation]:
        return attestation.attest(self)

    def verify(self) -> list[Attestation]:
        return attestation.compared(self)
