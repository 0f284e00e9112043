"""``host``: no Pod network at all. Client and server are the nodes themselves: what every CNI is
compared with.
"""

from __future__ import annotations

from collections.abc import Iterator

from cnibench.clusters.lab.builders.base import Datapath
from cnibench.clusters.lab.namespaces.places import LabPod


class Host(Datapath):
    """Pods with the network namespace of their node (``hostNetwork: true``): the loopback inside a
    node, the bare wire between nodes.
    """

    between_machines = True
    name = "host"
    sandbox = False

    def build(self) -> None:
        """The wire is all there is."""

    def connect(self, pod: LabPod) -> Iterator[str]:
        yield from ()


PROVIDER = Host
