"""Times in which a cluster was not available."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from cnibench.testbed.capability import Capability


@dataclass(frozen=True)
class Outage:
    """A time in which a cluster did not answer: ``start`` in RFC 3339, its length in ``seconds``,
    and why.
    """

    start: str
    seconds: float
    reason: str


class Outages(Capability):
    """A cluster that can become unavailable while a run uses it."""

    title = "detecting outages"

    @abc.abstractmethod
    def outages(self, suspect: bool = False) -> list[Outage]:
        """Outages since the last call; waits, with a limit, for the end of one that lasts.

        ``suspect``: something has just failed that an outage would explain. Raises EndedError.
        """
