"""Nodes that are other machines, and may refuse to be inspected."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cnibench.testbed.capability import Capability


@dataclass(frozen=True)
class Remark:
    """One thing about the nodes, with its remedy; ``kind``: they differ, it disturbs measuring, or
    it could not be read.
    """

    kind: Literal["differs", "disturbs", "unseen"]
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Nodes:
    """What nodes report: name to facts, by their names in what is published (a, b, ...), and what
    follows from that.
    """

    facts: Mapping[str, Mapping[str, Any]]
    remarks: Sequence[Remark]


class KernelAccess(Capability):
    """Whether programs may read the nodes' kernels."""

    title = "reading the nodes' kernels"

    @abc.abstractmethod
    def kernel_access_denied(self) -> str:
        """Why they may not, as far as that is known beforehand; '' when they may."""


class NodeInspection(KernelAccess):
    """Inspects the nodes from within, through an agent."""

    title = "inspecting the nodes"
    # what is started there for it, for the user to read before it is; '': nothing
    looking: ClassVar[str] = (
        "an agent looks at each of the two nodes, in a namespace of its own, which is removed again"
    )

    @abc.abstractmethod
    def compare_nodes(self) -> Nodes:
        """What of the measured nodes disturbs measuring or differs between them. Within the
        cluster's ``with``. Raises ClusterError, UsageError.
        """
