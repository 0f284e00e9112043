"""Pods on other machines, whose programs an agent on each node starts and controls."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Node, Pod


class Conversation(abc.ABC):
    """A program of ours on a node, which answers requests. It ends with its connection."""

    @abc.abstractmethod
    def ask(
        self, request: dict[str, Any], timeout: float, silence: float = math.inf
    ) -> dict[str, Any]:
        """The answer. Raises what the program raised, LimitError after ``timeout`` s or after
        ``silence`` s without a sign of life ({"alive": ...}), ClusterError when the program or its
        connection has ended.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the program. May be called twice."""


class ControlledPods(Capability):
    """Process ids are those of the Pod's node, where its agent sees all processes."""

    title = "load generators that are controlled on their nodes"
    # may what is measured have real-time priority? not where others work
    real_time: bool = True

    @abc.abstractmethod
    def controlled(self, pods: Sequence[Pod]) -> list[Pod]:
        """The same Pods, as places whose programs their nodes' agents start. Raises
        ClusterError.
        """

    @abc.abstractmethod
    def process(self, pod: Pod) -> int:
        """A process that has the namespaces of such a Pod."""

    @abc.abstractmethod
    def started(self, pod: Pod) -> frozenset[int]:
        """The programs that were started in such a Pod and have not ended."""

    @abc.abstractmethod
    def converse(self, node: Node, main: str, archive: bytes) -> Conversation:
        """Starts the module ``main`` of an archive (system/carried.py) on a node. Raises
        ClusterError.
        """
