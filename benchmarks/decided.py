"""What the rule that ends a run keeps of its promises, on simulated runs: how often any of equal
profiles are called different at any look, how often an interval covers the true ratio, how often a
pair that differs is found or wrongly called equal, and how many blocks it takes; beside the rule of
a fixed number of blocks with Holm's correction, and a joint model with one variance (Tukey's test
after 3, 6, 12 and 30 blocks), which needs less and keeps no promise.

    python benchmarks/decided.py [--runs 2000] [--profiles 2,4,8,16] [--noise 3%] [--only level]

Each run has as many blocks as ``--blocks auto`` plans for a resolution of 5 % at that noise. The
shapes of noise have that standard deviation (t2, which has none: that interquartile range). Needs
no root and measures nothing.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cnibench.model.units import fraction
from cnibench.planning.blocks import wished_blocks
from cnibench.stats.additive import critical_range
from cnibench.stats.diagnostics import dependence_together
from cnibench.stats.inference import ALPHA, Array, holm, intervals, signed_rank
from cnibench.stats.joint import different, less
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


def _one(shape: tuple[int, int, int], size: float, rest: float = 1.0) -> Array:
    """A size for each profile, of which the first differs from the others."""
    return np.where(np.arange(shape[1]) == 0, size, rest)[:, None]


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
    "one x 5": lambda rng, shape: rng.standard_normal(shape) * _one(shape, 5.0),
    "one with two speeds": lambda rng, shape: _bimodal(rng, shape) * _one(shape, 1.0, rest=0.05),
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


def fixed(values: Array) -> np.ndarray:
    """The rule before: all blocks, exact signed-rank tests, Holm's correction; which are called
    different.
    """
    rows = _pairs(values)
    runs, pairs, n = rows.shape
    p = holm(signed_rank(rows.reshape(-1, n), interval=False).p.reshape(runs, pairs))
    return p <= ALPHA * (1 + 1e-12)


def one_variance(values: Array) -> tuple[np.ndarray, Array]:
    """(Which pairs are called different, blocks) by a joint model of block and profile with one
    variance, looked at after 3, 6, 12 and 30 blocks at a quarter of the level each.
    """
    runs, k, most = values.shape
    found = np.zeros((runs, math.comb(k, 2)), dtype=bool)
    blocks = np.full(runs, float(most))
    open_ = np.arange(runs)
    for look in sorted({min(n, most) for n in (3, 6, 12, 30)}):
        now = values[open_][:, :, :look]
        rest = now - now.mean(axis=1, keepdims=True)
        rest = rest - rest.mean(axis=2, keepdims=True)
        df = (k - 1) * (look - 1)
        error = np.sqrt((rest**2).sum(axis=(1, 2)) / df / look)
        reach = critical_range(k, df, ALPHA / 4) * error
        one, other = np.triu_indices(k, 1)
        mean = now.mean(axis=2)
        called = np.abs(mean[:, one] - mean[:, other]) > reach[:, None]
        found[open_] = called
        ends = called.all(axis=1)
        blocks[open_[ends]] = look
        open_ = open_[~ends]
    return found, blocks


def until_decided(values: Array, truth: Array, *, note: bool = False) -> Outcome:
    """The rule now: at the looks, until every pair is different or equal; ``note``: and until
    nothing says that blocks depend on each other.
    """
    rows = _pairs(values)
    runs, pairs, most = rows.shape
    true = _pairs(truth[None, :, None])[0, :, 0]
    found = Outcome(
        np.zeros(runs),
        *(np.zeros((runs, pairs), dtype=bool) for _ in range(3)),
        np.zeros(runs, dtype=bool),
    )
    open_ = np.arange(runs)
    planned = looks(most)
    for number, look in enumerate(planned):
        if not len(open_):
            break
        now, before, early = rows[open_, :, :look], planned[:number], look < most
        apart = _called(now, before, early=early)
        proven = less(now, before, bound=math.log1p(_RESOLUTION), early=early)
        equal = ~apart & (proven <= ALPHA * (1 + 1e-12))
        low, high = (end.reshape(-1, pairs) for end in intervals(now.reshape(-1, look), ALPHA))
        ends = (apart | equal).all(axis=1) | (not early)
        noted = np.zeros(len(open_), dtype=bool)
        for i in np.flatnonzero(ends) if note else ():
            told = dependence_together([values[open_[i], :, :look]])
            noted[i] = told is not None and told[1] <= ALPHA
        ends &= ~noted | (not early)
        which = open_[ends]
        found.blocks[which] = look
        found.different[which], found.equal[which] = apart[ends], equal[ends]
        found.noted[which] = noted[ends]
        found.covered[which] = ((low <= true) & (true <= high) | np.isnan(low))[ends]
        open_ = open_[~ends]
    return found


def _called(rows: Array, before: Sequence[int], *, early: bool) -> np.ndarray:
    """Which pairs are called different. What earlier looks spend never makes a p smaller."""
    found = different(rows, () if not early else before, early=early) <= ALPHA * (1 + 1e-12)
    some = found.any(axis=1)
    if before and not early and some.any():
        found[some] = different(rows[some], before) <= ALPHA * (1 + 1e-12)
    return found


def at_any_look(values: Array) -> np.ndarray:
    """Which runs of equal profiles call any two different at any look, whether or not it ends the
    run.
    """
    rows = _pairs(values)
    planned = looks(rows.shape[2])
    found = np.zeros(len(rows), dtype=bool)
    for number, look in enumerate(planned):
        now = _called(rows[:, :, :look], planned[:number], early=look < planned[-1])
        found |= now.any(axis=1)
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def level(profiles: int, blocks: int, noise: float, runs: int) -> None:
    """False alarms among equal profiles by all rules, and the coverage of the intervals of single
    pairs where each profile is 10 % above the next, so that runs end at many looks.
    """
    truth = np.arange(profiles) * math.log(1.1)
    for name, draw in SHAPES.items():
        rng = np.random.default_rng(profiles)
        values = noise * draw(rng, (runs, profiles, blocks))
        some = until_decided(values[: runs // 2] + truth[:, None], truth)
        silent = "-"
        if name.startswith("AR"):
            reported = until_decided(values, 0 * truth, note=True)
            alarm = reported.different.any(axis=1)
            silent = f"{_percent(alarm.mean())} / {_percent((alarm & ~reported.noted).mean())}"
        print(
            f"| {profiles} | {name} | {_percent(one_variance(values)[0].any(axis=1).mean())} |"
            f" {_percent(fixed(values).any(axis=1).mean())} |"
            f" {_percent(at_any_look(values).mean())} | {silent} |"
            f" {_percent(some.covered.mean())} | {some.blocks.mean():.1f} |",
            flush=True,
        )


def power(profiles: int, blocks: int, noise: float, runs: int) -> None:
    """What is found, what is wrongly called equal, and the blocks that it takes."""
    step = math.log1p(_RESOLUTION)
    truths = {
        "one differs by 5 %": np.eye(1, profiles)[0] * step,
        "each 5 % above the next": np.arange(profiles) * step,
        "each 10 % above the next": np.arange(profiles) * math.log(1.1),
        "each 20 % above the next": np.arange(profiles) * math.log(1.2),
        "all equal": np.zeros(profiles),
    }
    for shape, scale in (("normal", 1.0), ("unequal", 1.0), ("normal", 0.33)):
        for name, truth in truths.items():
            rng = np.random.default_rng(profiles)
            values = scale * noise * SHAPES[shape](rng, (runs, profiles, blocks)) + truth[:, None]
            before, now = fixed(values), until_decided(values, truth)
            true = np.abs(_pairs(truth[None, :, None])[0, :, 0])
            real = true > 0
            large = true >= step * (1 - 1e-9)

            def share(found: np.ndarray, which: np.ndarray) -> str:
                return _percent(found[:, which].mean()) if which.any() else "-"

            print(
                f"| {profiles} | {100 * scale * noise:.2g} %{', unequal' * (shape != 'normal')} |"
                f" {name} | {share(before, real)} | {share(now.different, real)} |"
                f" {share(now.equal, ~real)} |"
                f" {_percent(now.equal[:, large].any(axis=1).mean()) if large.any() else '-'} |"
                f" {_percent(now.covered.mean())} | {one_variance(values)[1].mean():.1f} |"
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
    parser.add_argument("--only", choices=("level", "power"))
    asked = parser.parse_args()
    sizes = [int(number) for number in asked.profiles.split(",")]
    plans = {k: wished_blocks(math.comb(k, 2), asked.noise, _RESOLUTION) for k in sizes}
    for k, blocks in plans.items():
        print(f"{k} profiles: looks after {', '.join(map(str, looks(blocks)))} blocks")
    if asked.only != "power":
        print(f"\nIn % of {asked.runs} runs of equal profiles, noise {100 * asked.noise:.3g} %\n")
        print(
            "| profiles | noise | one variance | before | at any look | reported / without a note"
            " | coverage, each 10 % above the next | blocks there |\n"
            "|--:|---|--:|--:|--:|--:|--:|--:|"
        )
        for k, blocks in plans.items():
            level(k, blocks, asked.noise, asked.runs)
    if asked.only == "level":
        return
    runs = asked.runs // 4
    print(f"\nIn % of the pairs (false equality: of the runs), {runs} runs\n")
    print(
        "| profiles | noise | truth | found before | found | equal pairs called equal"
        " | false equality | coverage | blocks, one variance | blocks before | blocks |\n"
        "|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    for k, blocks in plans.items():
        power(k, blocks, asked.noise, runs)


if __name__ == "__main__":
    main()
