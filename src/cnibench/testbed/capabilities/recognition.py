"""A cluster that runs a CNI already."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from cnibench.model.profile import Profile
from cnibench.testbed.capability import Capability


class Recognition(Capability):
    """Recognises the CNI that is there."""

    title = "recognising the CNI that runs"

    @abc.abstractmethod
    def resolve(self, profiles: Mapping[str, Profile]) -> Mapping[str, Profile]:
        """Labels to profiles, with ``current`` replaced by the profile that runs. Raises
        ClusterError, UsageError.
        """
