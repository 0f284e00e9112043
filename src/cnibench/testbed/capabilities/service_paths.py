"""Paths to a server through a Service or a node's own address."""

from __future__ import annotations

import abc

from cnibench.model.cell import Cell
from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Pod


class ServicePaths(Capability):
    """Needed for every path (Cell.path) but ``pod``."""

    title = "paths other than Pod to Pod"

    @abc.abstractmethod
    def address(self, cell: Cell, server: Pod) -> str:
        """What the client connects to: the server's address, or that of a Service before it. Raises
        UnsupportedError, ClusterError.
        """

    @abc.abstractmethod
    def port(self, cell: Cell, server: Pod, number: int) -> int:
        """Where that server listens, which would listen on ``number`` if its path left the choice
        to it.
        """
