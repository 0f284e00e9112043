"""The network interface cards of the nodes."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from cnibench.testbed.capability import Capability

if TYPE_CHECKING:
    from cnibench.offload.nic import Nic


class Nics(Capability):
    """A cluster that reads them."""

    title = "reading the nodes' NICs"

    @abc.abstractmethod
    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        """The devices that may reach other nodes (``every``: all), and UDP ports of VXLAN devices.

        Within the cluster's ``with``. Raises ClusterError.
        """
