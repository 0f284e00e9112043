"""Datapaths whose daemons write for all Pods of a node at once."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from typing import Any

from cnibench.clusters.lab.builders.base import Datapath
from cnibench.clusters.lab.deployment import LabDeployment


class Batched(Datapath):
    """What several ``connect`` leave to be done is done once, when their ``batch`` ends."""

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self._batches = 0

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
        self.settle()  # not after an error: the deployment is removed then

    def settle(self) -> None:
        """Does what is left to be done: at once, or at the end of the batch. Raises
        ClusterError.
        """
        if not self._batches:
            self._settle()

    @abc.abstractmethod
    def _settle(self) -> None:
        """Raises ClusterError."""
