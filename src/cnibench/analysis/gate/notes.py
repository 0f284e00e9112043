"""What a gate says beside its verdict: what it remembers, which kernel functions changed, and how
to repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnibench.analysis.gate.kernel import Changed


@dataclass(frozen=True)
class Remembered:
    """``level`` is that of each one-sided test of this ``look`` at the candidate, ``spent`` that of
    all looks at it together. ``earlier`` are the exit statuses of the looks before, ``others`` the
    number of looks at other candidates. ``stored`` is False where the history has these runs
    already. ``between``: lowest and highest noise of the base between runs over the cells, and the
    number of runs; None below 3. ``repeated``: has any candidate several runs, which say how much
    runs differ where blocks are compared?
    """

    file: str
    look: int
    level: float
    spent: float
    runs: int
    earlier: list[int]
    others: int
    stored: bool
    between: tuple[float, float, int] | None
    repeated: bool


@dataclass(frozen=True)
class Notes:
    """``without`` says why there are no ``changes``. ``repeat`` are the commands that measure and
    compare again, as arguments, ``advice`` is how to go on where values are undecided, or
    what a pass takes for granted.
    """

    remembered: Remembered | None = None
    changes: Sequence[Changed] = ()
    without: str = ""
    repeat: Sequence[Sequence[str]] = ()
    advice: str = ""
