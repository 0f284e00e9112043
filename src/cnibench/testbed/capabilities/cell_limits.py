"""Cells that a kind of cluster can never measure."""

from __future__ import annotations

import abc

from cnibench.model.cell import Cell
from cnibench.model.profile import Profile
from cnibench.testbed.capability import Capability


class CellLimits(Capability):
    """Knows beforehand which cells a profile cannot have on this kind of cluster."""

    title = "limits of cells"

    @abc.abstractmethod
    def refuses(self, profile: Profile, cell: Cell) -> str:
        """Why the cell can never be measured here, as far as that is known beforehand; '' when it
        can.
        """
