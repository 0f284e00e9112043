"""Network policies that come into force while traffic flows."""

from __future__ import annotations

import abc
from collections.abc import Callable

from cnibench.testbed.capability import Capability


class Policies(Capability):
    """Denies UDP to one port of every Pod."""

    title = "network policies"

    @abc.abstractmethod
    def denial(self, port: int) -> Callable[[], None]:
        """Prepares to deny UDP to that port. Calling what is returned takes no longer than the
        denial itself, and may return before it is in force.

        Raises UnsupportedError where the profile cannot enforce it, ClusterError.
        """

    @abc.abstractmethod
    def end_denial(self) -> None:
        """Allows it again; nothing to do when nothing was denied. Raises ClusterError."""
