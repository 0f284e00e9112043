"""How long the Services of a condition take."""

from __future__ import annotations

import abc

from cnibench.model.profile import Profile
from cnibench.testbed.capability import Capability


class ServiceTime(Capability):
    """Knows how long this kind of cluster takes to write Services, for forecasts."""

    title = "time of Services"

    @abc.abstractmethod
    def service_seconds(self, profile: Profile) -> float:
        """About what a further Service takes in a cell, for each endpoint, in s."""
