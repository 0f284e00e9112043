"""What is told of a run while it measures, so that a first ranking can be shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Ranking(Protocol):
    """Told between rounds and between blocks, never while something is measured."""

    def due(self) -> bool:
        """Is it time for ``rounds`` again? Asked after each round."""

    def rounds(
        self,
        block: int,
        logs: Mapping[str, Mapping[int, float]],
        costs: Mapping[str, Mapping[int, float]],
    ) -> None:
        """The rounds of that block so far: cell id to round to the log of its rate, in the unit of
        its metric, and to that of its CPU time per unit where both ends are known.
        """

    def meanwhile(self) -> None:
        """Something goes on that changes nothing in the ranking."""

    def finished(self, blocks: int) -> None:
        """So many blocks are stored."""
