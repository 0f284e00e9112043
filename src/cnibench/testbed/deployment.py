"""A profile, installed: its Pods, its attestation, its removal.

What only some deployments offer is a capability (``testbed.capabilities``).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.cell import Attestation, Cell, Placement
from cnibench.model.profile import Profile
from cnibench.testbed.place import Node, Pod

Fidelity = Literal["cni", "datapath-model", "baseline"]


class Deployment(abc.ABC):
    """``broken`` says why nothing can be measured here any more, '' while it can. ``proxy`` says
    how Services are implemented (profile.Proxy), '' where that is not known.
    """

    label: str
    profile: Profile
    fidelity: Fidelity
    broken: str = ""
    proxy: str = ""

    def attestation(
        self, check: str, expected: str, observed: str, passed: bool, ip: int = 4
    ) -> Attestation:
        """The outcome of one check of this deployment."""
        name = self.profile.name
        return Attestation(
            label=self.label,
            profile=name,
            check=check,
            expected=expected,
            observed=observed,
            passed=passed,
            ip=ip,
        )

    @abc.abstractmethod
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, the client's first."""

    @abc.abstractmethod
    def pair(self, placement: Placement, number: int = 0) -> tuple[Pod, Pod]:
        """(client, server) of a measured pair; both on node a for intra, client on node a and
        server on node b for inter.
        """

    @abc.abstractmethod
    def pairs_for(self, cells: Sequence[Cell]) -> Sequence[tuple[Pod, Pod]]:
        """(client, server) of each of the cells that are measured at the same time: those of its
        pair, in the nodes' own network where its path says so.
        """

    @abc.abstractmethod
    def attest(self) -> list[Attestation]:
        """Proves by observation that the datapath is what the profile claims; every check is in the
        list, passed or not.
        """

    @abc.abstractmethod
    def reset_state(self) -> None:
        """Called before each cell, so that nothing carries over from the last one (TCP metrics,
        conntrack entries, TIME_WAIT). Raises ClusterError.
        """

    @abc.abstractmethod
    def alive(self) -> str:
        """'' while everything that the datapath needs runs, else what died (a user-space daemon, a
        node).
        """

    @abc.abstractmethod
    def remove(self) -> None:
        """Removes all of it; may be called twice. Raises ClusterError naming what stayed."""


@contextmanager
def undone(deployment: Deployment, what: str, undo: Callable[[], object]) -> Iterator[None]:
    """``undo`` at the end, whatever happens. Raises ClusterError when that fails: then this
    deployment is not measured on any more.
    """
    try:
        yield
    finally:
        try:
            undo()
        except CnibenchError as error:
            deployment.broken = (
                f"{what} of an earlier cell could not be taken back: {error.message}"
            )
            raise ClusterError(f"{deployment.label}: {deployment.broken}") from None
