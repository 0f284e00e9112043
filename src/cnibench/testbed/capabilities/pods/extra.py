"""Pods besides the measured pairs, for background load."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence

from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Node, Pod


class ExtraPods(Capability):
    """Further Pods, which are made like the first ones and removed with the profile."""

    title = "background Pods"

    @abc.abstractmethod
    def pods(self) -> Iterable[Pod]:
        """All Pods of this deployment that exist."""

    @abc.abstractmethod
    def add_pods_on(self, wanted: Sequence[tuple[Node, int]]) -> list[list[Pod]]:
        """So many more on each of several nodes, one of which may be named twice; together where
        that is quicker. Raises ClusterError.
        """

    @abc.abstractmethod
    def read_texts(self, pods: Sequence[Pod], path: str) -> list[str]:
        """A file as each of many Pods sees it, in few requests where each takes its time. Raises
        ClusterError.
        """
