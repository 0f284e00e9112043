"""What the gate decided: each cell with its outcome, and what follows for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cnibench.analysis.model import Where
from cnibench.model.units import plural

Outcome = Literal["within", "worse", "undecided", "missing"]


@dataclass(frozen=True)
class Judged:
    """One cell: ``ratio`` = candidate / base with its 95 % interval, None where there is none.
    ``reason`` in one line.

    ``metric`` is '' where only failures were compared (windows with perf, whose figures are not
    judged). ``values_undecided``: both sides have values, and all that is undecided is how they
    differ: neither failures nor disturbances are. ``base_disturbed`` and ``candidate_disturbed``
    are numbers of blocks; ``p_disturbed`` is that of such a difference between them by chance.
    """

    cell: str
    metric: str
    unit: str
    base: float | None
    candidate: float | None
    ratio: float | None
    low: float | None
    high: float | None
    n: int
    outcome: Outcome
    reason: str
    base_failures: Failures
    candidate_failures: Failures
    p_failures: float | None = None  # after Holm's correction
    base_disturbed: int = 0
    candidate_disturbed: int = 0
    p_disturbed: float | None = None
    values_undecided: bool = False


@dataclass(frozen=True)
class Failures:
    """``failed`` of ``blocks`` gave no figure; ``reason`` is that of the first."""

    failed: int
    blocks: int
    reason: str


@dataclass(frozen=True)
class Verdict:
    """``exit_code`` is 0 proven within the threshold, 4 worse, 5 undecided or a cell missing.
    ``places`` are those of the cells, in the same order.
    """

    cells: list[Judged]
    threshold: float
    how: str
    places: list[Where] = field(default_factory=list, compare=False)

    @property
    def exit_code(self) -> Literal[0, 4, 5]:
        outcomes = {cell.outcome for cell in self.cells}
        return 4 if "worse" in outcomes else 0 if outcomes == {"within"} else 5

    @property
    def only_values_undecided(self) -> bool:
        """Is something undecided, but nothing except differences of values?"""
        cells = [cell for cell in self.cells if cell.outcome != "within"]
        return bool(cells) and all(cell.values_undecided for cell in cells)

    @property
    def line(self) -> str:
        """The reason in one line: of what is undecided, that which may never pass comes first."""
        if not self.cells:
            return "undecided: base and candidate share no cell"
        for outcome, words in (
            ("worse", "worse"),
            ("missing", "undecided"),
            ("undecided", "undecided"),
        ):
            found = sorted(
                (cell for cell in self.cells if cell.outcome == outcome),
                key=lambda cell: cell.values_undecided,
            )
            if found:
                more = f" (and {plural(len(found) - 1, 'more cell')})" if len(found) > 1 else ""
                return f"{words}: {found[0].cell}: {found[0].reason}{more}"
        cells = f"all {len(self.cells)} cells" if len(self.cells) > 1 else "the one cell"
        return (
            f"within the threshold: {cells} proven no more than {100 * self.threshold:.3g} % worse"
        )
