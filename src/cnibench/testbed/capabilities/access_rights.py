"""A cluster on which a user may do only what an administrator has granted."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from cnibench.model.cell import Cell
from cnibench.testbed.capability import Capability
from cnibench.testbed.cluster import Problem


@dataclass(frozen=True)
class Lacking:
    """``needed``: nothing can be measured without these rights; ``useful``: something is lost,
    which each says.
    """

    needed: Sequence[Problem] = ()
    useful: Sequence[Problem] = ()


class AccessRights(Capability):
    """Asks for all rights before anything is made."""

    title = "asking for the rights of the user"

    @abc.abstractmethod
    def missing_rights(self, cells: Sequence[Cell]) -> Lacking:
        """What this user may not do and these cells require; without cells, what every run
        requires.
        """
