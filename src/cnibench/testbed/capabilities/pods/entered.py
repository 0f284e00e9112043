"""Pods whose namespaces this machine can enter."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Pod


class EnteredPods(Capability):
    """Pods that are made by somebody else's runtime, of this machine's kernel."""

    title = "Pods on this machine"

    @abc.abstractmethod
    def entered(self, pods: Sequence[Pod]) -> list[Pod]:
        """The same Pods, as places whose programs are started from here: they can be stopped and
        counted within microseconds. Raises ClusterError when they are not on this machine.
        """
