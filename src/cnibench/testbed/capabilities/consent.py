"""A cluster that belongs to somebody else, who has to allow what is done to it."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.testbed.capability import Capability


class Consent(Capability):
    """Checks before anything is changed."""

    title = "asking for consent"

    @abc.abstractmethod
    def permit(self, cells: Sequence[Cell]) -> None:
        """Raises UsageError when cells would change what was not allowed to be changed."""

    @abc.abstractmethod
    def preview(
        self, profiles: Mapping[str, Profile], seconds: float, volume: float
    ) -> Sequence[str]:
        """What is about to be done to whom, in lines for the user; ``seconds`` of windows,
        ``volume`` in bytes at most.

        Raises UsageError for what was not allowed.
        """
