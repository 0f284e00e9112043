"""The levels of the statements about a run: 5 %, or what its looks leave of it."""

from __future__ import annotations

from cnibench.model.context import alike
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest
from cnibench.stats import looks, sequential
from cnibench.stats.looks import ALPHA, Level


def level_of(reader: RunReader) -> Level:
    """The level of each test and interval of that run, and of each proof that two are equal."""
    if reader.plan.target_ci:
        return Level(sequential.level(ALPHA), sequential.level(ALPHA))
    return level_after(reader.plan, 1 + max((block for _, block in reader.done()), default=-1))


def level_after(manifest: Manifest, blocks: int) -> Level:
    """The levels of a run that ended after so many blocks."""
    if not manifest.until_decided:
        return Level(ALPHA, ALPHA)
    return looks.level_after(blocks, manifest.blocks, _fewest(manifest), ALPHA)


def planned_looks(manifest: Manifest) -> tuple[int, ...]:
    """The numbers of blocks after which a run that ends when all pairs are decided is looked at."""
    found = looks.looks(manifest.blocks, _fewest(manifest), ALPHA)
    return tuple(blocks for blocks, _ in found)


def _fewest(manifest: Manifest) -> int:
    """The number of profiles at the place that has the fewest to compare."""
    cells = [cell for cell in manifest.cells if cell.window == "speed"]
    return min({len(group) for group in alike(cells)} - {1}, default=1)
