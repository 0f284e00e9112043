"""What the rule that ends a run keeps of its promises, on simulated runs: how often any of equal
profiles are called different, how often an interval covers the true ratio, how often a pair that
differs by the resolution is found or wrongly called equal, and how many blocks it takes; beside the
rule of a fixed number of blocks with Holm's correction.

    python benchmarks/decided.py [--runs 2000] [--profiles 2,4,8,16] [--noise 3%]

Each run has as many blocks as ``--blocks auto`` plans for a resolution of 5 % at that noise. The
shapes of noise have that standard deviation (t2, which has none: that interquartile range). Needs
no root and measures nothing.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cnibench.model.units import fraction
from cnibench.planning.blocks import wished_blocks
from cnibench.stats.diagnostics import dependence_together
from cnibench.stats.inference import ALPHA, Array, holm, intervals, signed_rank
from cnibench.stats.joint import adjusted_of_many
from cnibench.stats.looks import looks

_RESOLUTION = 0.05
Noise = Callable[[np.random.Generator, tuple[int, int, int]], Array]  # runs x profiles x blocks


def _ar(rho: float) -> Noise:
    def draw(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
        noise = rng.standard_normal(shape)
        for block in range(1, shape[2]):
            fresh = math.sqrt(1 - rho**2) * noise[:, :, block]
            noise[:, :, block] = rho * noise[:, :, block - 1] + fresh
        return noise

    return draw


def _lognormal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    skewed = np.exp(rng.standard_normal(shape))
    return (skewed - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


def _bimodal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    return (rng.choice([-1.0, 1.0], shape) + 0.1 * rng.standard_normal(shape)) / math.sqrt(1.01)


def _drifting(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Level and scatter both change over the run, for all profiles alike."""
    time = np.linspace(0, 1, shape[2])
    return 5 * time + (0.5 + time) * rng.standard_normal(shape)


def _unequal(draw: Noise) -> Noise:
    """The first profile scatters a fifth as much as the last."""
    return lambda rng, shape: draw(rng, shape) * np.geomspace(0.3, 1.5, shape[1])[:, None]


def _normal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    return rng.standard_normal(shape)


SHAPES: dict[str, Noise] = {
    "normal": _normal,
    "lognormal": _lognormal,
    "bimodal": _bimodal,
    "t2": lambda rng, shape: rng.standard_t(2, shape) * 0.6745 / 0.8165,
    "drifting": _drifting,
    "unequal": _unequal(_normal),
    "unequal, t2": _unequal(lambda rng, shape: rng.standard_t(2, shape) * 0.6745 / 0.8165),
    "unequal, lognormal": _unequal(_lognormal),
    "AR(1) 0.3": _ar(0.3),
    "AR(1) 0.5": _ar(0.5),
    "AR(1) 0.7": _ar(0.7),
}


@dataclass
class Outcome:
    """Of many runs, one entry each: number of blocks, which pairs (runs x pairs) are different, or
    equal; which intervals cover the truth; whether dependence was noted.
    """

    blocks: Array
    different: np.ndarray
    equal: np.ndarray
    covered: np.ndarray
    noted: np.ndarray


def _pairs(values: Array) -> Array:
    one, other = np.triu_indices(values.shape[1], 1)
    difference: Array = values[:, one] - values[:, other]
    return difference


def fixed(values: Array) -> Outcome:
    """The rule before: all blocks, exact signed-rank tests, Holm's correction."""
    rows = _pairs(values)
    runs, pairs, n = rows.shape
    p = holm(signed_rank(rows.reshape(-1, n), interval=False).p.reshape(runs, pairs))
    none = np.zeros((runs, pairs), dtype=bool)
    return Outcome(np.full(runs, float(n)), p <= ALPHA, none, none, none[:, 0])


def until_decided(values: Array, truth: Array, *, note: bool = True) -> Outcome:
    """The rule now: at the looks, until every pair is different or equal."""
    rows = _pairs(values)
    runs, pairs, most = rows.shape
    true = _pairs(truth[None, :, None])[0, :, 0]
    found = Outcome(
        np.zeros(runs),
        *(np.zeros((runs, pairs), dtype=bool) for _ in range(3)),
        np.zeros(runs, dtype=bool),
    )
    open_ = np.arange(runs)
    for look, level in looks(most, values.shape[1]):
        if not len(open_):
            break
        now = rows[open_, :, :look]
        flat = now.reshape(-1, look)
        different = adjusted_of_many(now) <= level.different * (1 + 1e-12)
        low, high = intervals(flat, 2 * level.equal / pairs)
        bound = np.maximum(np.abs(low), np.abs(high)).reshape(-1, pairs)
        equal = ~different & (bound <= math.log1p(_RESOLUTION))
        low, high = (end.reshape(-1, pairs) for end in intervals(flat, level.different))
        noted = np.zeros(len(open_), dtype=bool)
        if note:
            for i, run in enumerate(open_):
                told = dependence_together([values[run, :, :look]])
                noted[i] = told is not None and told[1] <= ALPHA
        ends = (different | equal).all(axis=1) & ~noted | (look == most)
        which = open_[ends]
        found.blocks[which] = look
        found.different[which], found.equal[which] = different[ends], equal[ends]
        found.covered[which] = ((low <= true) & (true <= high) | np.isnan(low))[ends]
        found.noted[which] = noted[ends]
        open_ = open_[~ends]
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def level(profiles: int, blocks: int, noise: float, runs: int) -> None:
    """False alarms among equal profiles: both rules; coverage; and what is noted."""
    for name, draw in SHAPES.items():
        rng = np.random.default_rng(profiles)
        values = noise * draw(rng, (runs, profiles, blocks))
        before, now = fixed(values), until_decided(values, np.zeros(profiles))
        alarm = now.different.any(axis=1)
        print(
            f"| {profiles} | {name} | {_percent(before.different.any(axis=1).mean())} |"
            f" {_percent(alarm.mean())} | {_percent((alarm & ~now.noted).mean())} |"
            f" {_percent(now.noted.mean())} | {_percent(now.covered.mean())} |"
            f" {now.blocks.mean():.1f} of {blocks} |",
            flush=True,
        )


def power(profiles: int, blocks: int, noise: float, runs: int) -> None:
    """What is found, what is wrongly called equal, and the blocks that it takes."""
    step = math.log1p(_RESOLUTION)
    truths = {
        "one differs by 5 %": np.eye(1, profiles)[0] * step,
        "each 5 % above the next": np.arange(profiles) * step,
        "each 20 % above the next": np.arange(profiles) * math.log(1.2),
        "all equal": np.zeros(profiles),
    }
    for scale in (1.0, 0.33):
        for name, truth in truths.items():
            rng = np.random.default_rng(profiles)
            values = scale * noise * rng.standard_normal((runs, profiles, blocks)) + truth[:, None]
            before, now = fixed(values), until_decided(values, truth, note=False)
            true = np.abs(_pairs(truth[None, :, None])[0, :, 0])
            real = true > 0
            large = true >= step * (1 - 1e-9)

            def share(found: np.ndarray, which: np.ndarray) -> str:
                return _percent(found[:, which].mean()) if which.any() else "-"

            print(
                f"| {profiles} | {100 * scale * noise:.2g} % | {name} |"
                f" {share(before.different, real)} | {share(now.different, real)} |"
                f" {share(now.equal, ~real)} |"
                f" {_percent(now.equal[:, large].any(axis=1).mean()) if large.any() else '-'} |"
                f" {blocks} | {now.blocks.mean():.1f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--profiles", default="2,4,8,16")
    parser.add_argument("--noise", type=fraction, default=0.03)
    asked = parser.parse_args()
    sizes = [int(number) for number in asked.profiles.split(",")]
    plans = {k: wished_blocks(math.comb(k, 2), asked.noise, _RESOLUTION) for k in sizes}
    for k, blocks in plans.items():
        early = ", ".join(f"{n} at {100 * at.different:.3g} %" for n, at in looks(blocks, k))
        print(f"{k} profiles: at most {blocks} blocks, looks after {early}")
    print(f"\nIn % of {asked.runs} runs of equal profiles, noise {100 * asked.noise:.3g} %\n")
    print(
        "| profiles | noise | false alarm before | false alarm | of these not noted"
        " | dependence noted | coverage | blocks |\n|--:|---|--:|--:|--:|--:|--:|--:|"
    )
    for k, blocks in plans.items():
        level(k, blocks, asked.noise, asked.runs)
    print(f"\nIn % of the pairs (false equality: of the runs), {asked.runs} runs, normal noise\n")
    print(
        "| profiles | noise | truth | found before | found | equal pairs called equal"
        " | false equality | blocks before | blocks |\n|--:|--:|---|--:|--:|--:|--:|--:|--:|"
    )
    for k, blocks in plans.items():
        power(k, blocks, asked.noise, asked.runs)


if __name__ == "__main__":
    main()
