"""What the spread at a place says about planning: more blocks, longer slices, or more runs."""

from __future__ import annotations

import math

from cnibench.analysis.calibration.deployments import Deployments
from cnibench.analysis.calibration.spread import Spread
from cnibench.errors import UsageError
from cnibench.stats.power import MOST_BLOCKS, planned_blocks

_LONGER = (1, 2, 4, 8)  # times the slices that were measured
_LEAD_IN = 1.25  # times its slices that a cell takes, with their lead-ins
_TWO_LABELS = 1.96 * math.sqrt(2)  # standard deviations of one that two differ by in 1 of 20 cases


def blocks_for(pairs: int, noise: float, resolution: float) -> int | None:
    """The blocks that find it, None where 100 000 do not."""
    try:
        return planned_blocks(pairs, noise, resolution)
    except UsageError:
        return None


def advice(
    noise: float,
    spread: Spread,
    duration: float,
    resolution: float,
    measured: Deployments,
    cells: int,
    *,
    per_block: bool,
) -> str:
    """``noise`` between blocks of ``duration`` s in a run of so many ``cells``; ``per_block``: each
    block of a run has a deployment of its own, otherwise all of its blocks share one deployment.
    """
    if not per_block:
        return _shared(spread, noise, resolution)
    now = blocks_for(1, noise, resolution)
    wanted = f"to find {_percent(resolution)} between two profiles"
    if now == blocks_for(1, 0.0, resolution):
        return f"{now} blocks are enough {wanted}: no test decides with fewer"
    least = _LEAD_IN * duration * cells  # s of a block
    costs = {}
    for factor in _LONGER if spread.slices else (1,):
        blocks = blocks_for(1, with_slices(noise, spread, factor), resolution)
        seconds = measured.seconds + max(measured.block_seconds, least) + (factor - 1) * least
        if blocks is not None and blocks <= MOST_BLOCKS:
            costs[factor] = (blocks * seconds, blocks)
    if not costs:
        return f"too noisy {wanted}: ask for a coarser --resolution"
    best = min(costs, key=lambda factor: costs[factor])
    if best == 1:
        return (
            f"increase the blocks: --blocks {now} {wanted}. Each block is a deployment of its own;"
            f" {_gain(noise, spread, duration)}"
        )
    before = f"instead of {now}" if now else "instead of too many"
    return (
        f"increase the slices: --duration {best * duration:g}s --blocks {costs[best][1]} {wanted},"
        f" {before}, as predicted from the spread of the slices"
    )


def with_slices(noise: float, spread: Spread, factor: float) -> float:
    """The noise of blocks with ``factor`` times as many slices."""
    slices = spread.slices.sd if spread.slices else 0.0
    return math.sqrt(max(0.0, noise**2 - slices**2 * (1 - 1 / factor)))


def _gain(noise: float, spread: Spread, duration: float) -> str:
    if spread.slices is None:
        return "windows have no slices to add"
    longer = with_slices(noise, spread, 2)
    return (
        f"--duration {2 * duration:g}s would lower the noise from {_percent(noise)} to"
        f" {_percent(longer)}, and the run would not be shorter"
    )


def _shared(spread: Spread, noise: float, resolution: float) -> str:
    """All blocks of a run in windows share a deployment: more blocks do not average it."""
    blocks = blocks_for(1, noise, resolution)
    found = (
        f"{blocks} blocks find {_percent(resolution)} between two profiles"
        if blocks
        else f"too noisy to find {_percent(resolution)} between two profiles"
    )
    if spread.deployments is None:
        return found
    if not spread.deployments.low:
        most = math.expm1(_TWO_LABELS * spread.deployments.high)
        return (
            f"{found}. No spread of deployments was found: two deployments of one profile differ by"
            f" {_percent(most)} at most"
        )
    usual = math.expm1(_TWO_LABELS * spread.deployments.sd)
    return (
        f"{found}, if their deployments are alike: all blocks of a run share one deployment of each"
        f" profile. Two deployments of one profile differ by up to {_percent(usual)} in 19 of 20"
        " runs, so repeat the run, or measure in slices"
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"
