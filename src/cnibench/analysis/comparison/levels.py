"""The level of the statements about a run, and the look that it is at."""

from __future__ import annotations

from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest
from cnibench.stats import looks, sequential
from cnibench.stats.looks import ALPHA, Look


def level_of(manifest: Manifest) -> float:
    """The level of each test and interval of that run."""
    return sequential.level(ALPHA) if manifest.target_ci else ALPHA


def look_at(reader: RunReader, blocks: int = 0) -> Look | None:
    """The look that the first ``blocks`` blocks are, 0: all that are there. None where the run does
    not end when all pairs are decided.
    """
    plan = reader.plan
    if not plan.until_decided:
        return None
    done = blocks or 1 + max((block for _, block in reader.done()), default=-1)
    return looks.look_after(done, plan.blocks, plan.resolution)


def planned_looks(manifest: Manifest) -> tuple[int, ...]:
    """The numbers of blocks after which a run that ends when all pairs are decided is looked at."""
    return looks.looks(manifest.blocks)
