"""How many blocks, and in which order the cells of a block are measured."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby

from msgspec.structs import replace

from cnibench.model.cell import Cell
from cnibench.stats.power import least_blocks

ALPHA = 0.05
# blocks where there is no pair to tell apart: the fewest that give a 95 % interval of the median
ALONE = 6


def floor(blocks: int) -> float:
    """The least p that an exact two-sided sign-flip test of paired blocks can give: 2 of the 2^n
    flips are as extreme as all alike.
    """
    return min(1.0, 2.0 ** (1 - blocks))


def pairs(profiles: int) -> int:
    """Pairs in one family: all that are compared with each other in one placement, workload and
    metric.
    """
    return profiles * (profiles - 1) // 2


def blocks_needed(profiles: int, alpha: float = ALPHA) -> int:
    """The least number of blocks with which a pair can be significantly different: Holm's first
    step asks for p * pairs <= alpha.
    """
    family = pairs(profiles)
    if family == 0:
        return ALONE
    return least_blocks(family, alpha)


def warning(blocks: int, profiles: int, alpha: float = ALPHA) -> str:
    """'' when that many blocks can decide, else why they cannot."""
    family = pairs(profiles)
    if family == 0 or floor(blocks) * family <= alpha:
        return ""
    what = "one pair" if family == 1 else f"any of {family} pairs"
    return (
        f"{blocks} block{'s' * (blocks != 1)} cannot show a difference of {what}: no test of"
        f" that many paired values gives p below {floor(blocks):.2g}, and Holm's correction"
        f" requires {alpha / family:.2g}; at least {blocks_needed(profiles, alpha)} are needed"
    )


def order(cells: Iterable[Cell], block: int, seed: int, *, together: bool = False) -> list[Cell]:
    """The cells of one block in a random order that the seed gives, the same on every machine and
    Python.

    ``together``: the cells of one label follow each other, the labels in random order (where only
    one profile can be installed at once). The pairs of a cell follow each other in any case.
    """

    def key(what: str) -> bytes:
        return hashlib.sha256(f"{seed}:{block}:{what}".encode()).digest()

    def place(cell: Cell) -> tuple[bytes, bytes, int]:
        return (key(f"label {cell.label}") if together else b"", key(_first(cell).id), cell.pair)

    return sorted(cells, key=place)


def by_pairs(ordered: Iterable[Cell]) -> Iterator[list[Cell]]:
    """Cells in the order of ``order``, those that differ by their pair alone together."""
    for _, group in groupby(ordered, key=_first):
        yield list(group)


def _first(cell: Cell) -> Cell:
    """The same of the first pair."""
    return replace(cell, pair=0) if cell.pair else cell
