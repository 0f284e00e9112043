"""How often the model of few repeats (stats/additive.py) finds a difference where there is none,
where its assumptions hold and where they do not.

    python benchmarks/few_repeats.py [--runs 2000]

Simulated tables of profiles x repeats without a difference, noise 1 %; with blocks, what they share
scatters by 5 %. As the model is additive, the share is that of tables in which any simultaneous
interval misses the truth, whatever it is. The table of docs/statistics.md is its output. Needs no
root, and a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cnibench.stats.additive import contrasts

_Array = NDArray[np.float64]
_Draw = Callable[[np.random.Generator, int, int], _Array]


def _normal(*scales: float) -> _Draw:
    """Normal noise; the first profiles have these multiples of that of the others."""

    def draw(rng: np.random.Generator, k: int, n: int) -> _Array:
        scale = np.ones(k)
        scale[: len(scales)] = scales
        return scale[:, None] * rng.standard_normal((k, n))

    return draw


_NOISE: dict[str, _Draw] = {
    "equal": _normal(),
    "one x 3": _normal(3),
    "one x 10": _normal(10),
    "spread": lambda rng, k, n: (
        np.exp(0.5 * rng.standard_normal(k))[:, None] * rng.standard_normal((k, n))
    ),
    "Student, 3 df": lambda rng, k, n: rng.standard_t(3, (k, n)),
    "lognormal": lambda rng, k, n: np.exp(rng.standard_normal((k, n))) - np.exp(0.5),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    print("| Repeats | Profiles |", " | ".join(_NOISE), "|")
    print("|---|--:|" + "--:|" * len(_NOISE))
    for paired in (False, True):
        for n in (3, 5):
            for k in (2, 4, 11):
                shares = [_share(draw, k, n, paired, runs) for draw in _NOISE.values()]
                what = f"{n} {'blocks' if paired else 'unrelated'}"
                print(f"| {what} | {k} |", " | ".join(f"{100 * x:.1f} %" for x in shares), "|")


def _share(draw: _Draw, k: int, n: int, paired: bool, runs: int) -> float:
    rng = np.random.default_rng(1)
    upper = np.triu_indices(k, 1)
    missed = 0
    for _ in range(runs):
        table = 0.01 * draw(rng, k, n) + (0.05 * rng.standard_normal(n) if paired else 0.0)
        found = contrasts(table, paired=paired, alpha=0.05, family=k * (k - 1) // 2)
        missed += bool(((found.low[upper] > 0) | (found.high[upper] < 0)).any())
    return missed / runs


if __name__ == "__main__":
    main()
