"""Pods whose start is timed."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Node, Pod


@dataclass(frozen=True)
class Started:
    """A Pod that was made: its steps (name, seconds); ``ready`` in s since it was asked for,
    ``network`` the CNI's part of that.
    """

    pod: Pod
    steps: Sequence[tuple[str, float]]
    ready: float
    network: float


class PodLifecycle(Capability):
    """Starts and removes Pods one by one or all at once."""

    title = "timing the start of Pods"

    @abc.abstractmethod
    def start_pods(self, node: Node, count: int, at_once: bool) -> list[Started]:
        """More Pods, timed: all at once, or the next when the one before is ready. Raises
        UnsupportedError where the profile's Pods are the node itself, ClusterError.
        """

    @abc.abstractmethod
    def remove_pods(self, pods: Sequence[Pod]) -> None:
        """Removes Pods of ``start_pods``, with all that the CNI made for them. Raises
        ClusterError.
        """
