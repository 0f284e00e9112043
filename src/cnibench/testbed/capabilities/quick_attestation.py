"""Attestation that is fast enough to be repeated in each block."""

from __future__ import annotations

import abc

from cnibench.model.cell import Attestation
from cnibench.testbed.capability import Capability


class QuickAttestation(Capability):
    """Compares listings of the kernel, without traffic."""

    title = "attestation in each block"

    @abc.abstractmethod
    def verify(self) -> list[Attestation]:
        """Compares the datapath with what its profile declares; every check is in the list. Raises
        ClusterError.
        """
