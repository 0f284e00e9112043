"""How often a comparison shows a false difference where neighbouring blocks depend on each other,
and how often no sentence says so.

    python benchmarks/dependence.py [--runs 300]

Simulates equal profiles whose normal noise is an AR(1) process over the blocks, of the comparisons'
own or for the most part (correlation 0.5 or 0.9) the same in all comparisons of a run. Each run has
a fixed number of blocks. Needs no root and measures nothing.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from cnibench.stats.diagnostics import dependence_together
from cnibench.stats.inference import ALPHA, Array
from cnibench.stats.joint import different

_CORRELATIONS = (0.2, 0.3, 0.5, 0.7)


def noise(rng: np.random.Generator, shape: tuple[int, ...], correlation: float) -> Array:
    """AR(1) along the last axis."""
    found = rng.standard_normal(shape)
    for block in range(1, shape[-1]):
        fresh = math.sqrt(1 - correlation**2) * found[..., block]
        found[..., block] = correlation * found[..., block - 1] + fresh
    return found


def measured(
    profiles: int, comparisons: int, blocks: int, shared: float, correlation: float, runs: int
) -> tuple[float, float, float]:
    """In % of the comparisons: false differences, those without a sentence; in % of the runs: those
    in which a difference has none.
    """
    rng = np.random.default_rng(7)
    own = noise(rng, (runs, comparisons, profiles, blocks), correlation)
    same = noise(rng, (runs, 1, profiles, blocks), correlation)
    values = math.sqrt(1 - shared) * own + math.sqrt(shared) * same
    told = [dependence_together(list(one)) for one in values]
    silent = np.array([one is not None and one.p > ALPHA and one.excluded for one in told])
    one, other = np.triu_indices(profiles, 1)
    rows = (values[:, :, one] - values[:, :, other]).reshape(runs * comparisons, -1, blocks)
    found = (different(rows) <= ALPHA * (1 + 1e-12)).any(axis=1).reshape(runs, comparisons)
    return (
        100 * float(found.mean()),
        100 * float((found & silent[:, None]).mean()),
        100 * float(silent.mean()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=300, help="a quarter for 16 profiles")
    asked = parser.parse_args()
    heads = " | ".join(f"AR(1) {rho}" for rho in _CORRELATIONS)
    print(
        "In %: runs of independent blocks without a sentence; comparisons with a false difference"
    )
    print("/ of these without a sentence, by the correlation of neighbouring blocks\n")
    print(f"| profiles | comparisons | blocks | shared | independent: none | {heads} |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for profiles in (2, 4, 8, 16):
        for comparisons in (1, 4, 8):
            for blocks in (6, 9, 12, 22):
                for shared in (0.0, 0.5, 0.9)[: 1 if comparisons == 1 else None]:
                    runs = asked.runs if profiles < 16 else asked.runs // 4
                    place = profiles, comparisons, blocks, shared
                    quiet = measured(*place, 0.0, runs)[2]
                    found = [measured(*place, rho, runs)[:2] for rho in _CORRELATIONS]
                    shown = " | ".join(f"{alarm:.1f} / {silent:.1f}" for alarm, silent in found)
                    words = " | ".join(str(one) for one in place)
                    print(f"| {words} | {quiet:.0f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
