"""The CNI's own processes."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Node

PROXY = "kube-proxy"


class CniProcesses(Capability):
    """Finds the processes whose memory and CPU time are the CNI's; where an implementation of
    Services was asked for, also kube-proxy's (``kube-proxy on NODE``), which is no part of them.
    """

    title = "finding the CNI's own processes"

    @abc.abstractmethod
    def processes(self) -> Mapping[str, int | tuple[Node, int]] | None:
        """Name to process number, as seen from this process or from that node; None where the nodes
        may not be inspected.
        """
