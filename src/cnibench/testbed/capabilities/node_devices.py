"""The network devices of the nodes that Pod traffic passes."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Node


class NodeDevices(Capability):
    """Names them, as far as they are known."""

    title = "naming the nodes' network devices"

    @abc.abstractmethod
    def underlay(self) -> Mapping[str, str]:
        """Node name to the name of its device on the wire; without those that are not known."""

    @abc.abstractmethod
    def tunnel_on(self, node: Node, family: int) -> str:
        """The tunnel device that a node's Pod packets of one family (4, 6) leave through, '' when
        there is none.
        """
