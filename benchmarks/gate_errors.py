"""How often the gate errs: planned or not, at one look and at a look every night of a year.

    python benchmarks/gate_errors.py [--runs 2000] [--nights 365] [--seed 1]

Simulates normal log ratios with the noise that workloads assume (3 % per profile, 4.2 % of the
ratio) at a threshold of 5 %, and decides with the tests of the gate: the exact signed-rank test of
each cell, Holm's correction, the level of each look, the rule for several runs. Prints tables of
docs/adr/0014-gate.md. "At the threshold" is a candidate whose true ratio is exactly 0.95: it must
neither pass nor be called worse. Needs no root and no run. Takes some minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import chdtrc, ndtr, stdtr
from scipy.stats import binomtest

from cnibench.analysis.gate.noninferiority import LEVEL, POOLED, RUNS, by_runs, homogeneity, margin
from cnibench.stats.gate_power import blocks_to_pass, repeats_to_pass, upper_spread
from cnibench.stats.inference import Array, holm, null_cdf, signed_rank
from cnibench.stats.spending import level_of_look

THRESHOLD = 0.05
MARGIN = margin("higher", THRESHOLD)
NOISE = 0.03 * math.sqrt(2)
CELLS = (1, 8, 16)
PILOT = 12  # blocks
NIGHTLY = 6


def tails(logs: Array) -> tuple[Array, Array]:
    """(p of passing, p of worse after Holm's correction) of each run and cell; ``logs`` are runs x
    cells x blocks.
    """
    runs, cells, blocks = logs.shape
    found = signed_rank(logs.reshape(-1, blocks) - MARGIN, interval=False)
    within, worse = found.upper.reshape(runs, cells), found.lower.reshape(runs, cells)
    return within.max(axis=1), holm(worse).min(axis=1)


def rate(found: Array) -> str:
    """A share with the half width of its exact 95 % interval."""
    interval = binomtest(int(found.sum()), len(found)).proportion_ci(0.95, "exact")
    return f"{100 * found.mean():.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def row(*items: object) -> str:
    return f"| {' | '.join(str(item) for item in items)} |"


def draw(rng: np.random.Generator, runs: int, true: Sequence[float], blocks: int) -> Array:
    noise = rng.standard_normal((runs, len(true), blocks))
    return np.asarray(NOISE * noise + np.array(true)[None, :, None])


def one_look(rng: np.random.Generator, runs: int) -> None:
    print("### One look\n")
    print(
        row(
            "cells",
            "blocks",
            "planned for",
            "equal passes",
            "one cell at the threshold passes",
            "one cell twice as bad: worse",
            "the same: passes",
        )
    )
    print("|--:|--:|---|--:|--:|--:|--:|")
    single = blocks_to_pass([-MARGIN / NOISE], LEVEL)
    for cells in CELLS:
        effects = [-MARGIN / NOISE] * cells
        planned = blocks_to_pass(effects, LEVEL)
        first = blocks_to_pass(effects, level_of_look(1, LEVEL))
        for blocks, words, level in (
            (single, "one cell", LEVEL),
            (planned, "all cells", LEVEL),
            (first, "all cells, first look of a history", level_of_look(1, LEVEL)),
        ):
            assert blocks is not None
            rest = [0.0] * (cells - 1)
            equal = tails(draw(rng, runs, [0.0, *rest], blocks))[0] <= level
            edge = tails(draw(rng, runs, [MARGIN, *rest], blocks))[0] <= level
            within, worse = tails(draw(rng, runs, [2 * MARGIN, *rest], blocks))
            print(
                row(
                    cells,
                    blocks,
                    words,
                    rate(equal),
                    rate(edge),
                    rate(worse <= level),
                    rate(within <= level),
                ),
                flush=True,
            )


def pilots(rng: np.random.Generator, runs: int) -> None:
    """Plans made with the noise of a pilot and not with the true one."""
    print(f"\n### Planned with the noise of a pilot of {PILOT} blocks\n")
    print(
        row(
            "cells",
            "blocks planned, median (5 to 95 %)",
            "equal passes, noise as estimated",
            "blocks planned, median (5 to 95 %)",
            "equal passes, upper 80 % limit (as the gate)",
        )
    )
    print("|--:|--:|--:|--:|--:|")
    few = max(200, runs // 5)
    for cells in CELLS:
        shown: list[object] = [cells]
        for limit in (False, True):
            sizes, passed = [], []
            for _ in range(few):
                spreads = draw(rng, 1, [0.0] * cells, PILOT)[0].std(axis=1, ddof=1)
                used = [upper_spread(x, PILOT - 1) if limit else float(x) for x in spreads]
                # rounded, so that simulated powers are found again
                effects = [round(-MARGIN / x, 2) for x in used]
                blocks = blocks_to_pass(effects, LEVEL)
                assert blocks is not None
                sizes.append(blocks)
                passed.append(tails(draw(rng, 1, [0.0] * cells, blocks))[0][0] <= LEVEL)
            low, middle, high = np.percentile(sizes, [5, 50, 95])
            shown += [f"{middle:.0f} ({low:.0f} to {high:.0f})", rate(np.array(passed))]
        print(row(*shown), flush=True)


def every_night(rng: np.random.Generator, runs: int, nights: int) -> None:
    """All nights at one candidate: false passes and false alarms at any look so far."""
    marks = [night for night in (1, 2, 5, 30, nights) if night <= nights]
    print(f"\n### {NIGHTLY} blocks and a look every night, at one candidate, {nights} nights\n")
    print(row("cells", "candidate", "outcome", "rule", *(f"by night {n}" for n in marks)))
    print(f"|--:|---|---|---|{'--:|' * len(marks)}")
    for cells in CELLS:
        count = max(100, runs // cells)
        for name, true in (
            ("equal", [0.0] * cells),
            ("one cell at the threshold", [MARGIN] + [0.0] * (cells - 1)),
            ("all cells at the threshold", [MARGIN] * cells),
        ):
            if cells == 1 and name.startswith("all"):
                continue
            keys = [(what, how) for what in ("passes", "worse") for how in ("2.5 %", "spending")]
            ever = {key: np.zeros(count, dtype=bool) for key in keys}
            lines: dict[tuple[str, str], list[str]] = {key: [] for key in keys}
            for night, (within, worse) in enumerate(nightly(rng, count, true, nights), 1):
                for how, level in (("2.5 %", LEVEL), ("spending", level_of_look(night, LEVEL))):
                    ever["passes", how] |= within <= level
                    ever["worse", how] |= worse <= level
                if night in marks:
                    for key, found in ever.items():
                        lines[key].append(rate(found))
            for (what, how), shown in lines.items():
                print(row(cells, name, what, how, *shown), flush=True)


def nightly(
    rng: np.random.Generator, runs: int, true: Sequence[float], nights: int
) -> Iterator[tuple[Array, Array]]:
    """``tails`` of all blocks up to each night. The statistic is counted on: it is the number of
    Walsh averages above the margin (J. W. Tukey), to which each block adds its own.
    """
    cells = len(true)
    data = draw(rng, runs, true, nights * NIGHTLY)
    rows = data.reshape(runs * cells, -1) - MARGIN
    count = np.zeros(len(rows), dtype=np.int64)
    for night in range(1, nights + 1):
        for at in range((night - 1) * NIGHTLY, night * NIGHTLY):
            count += (rows[:, :at] > -rows[:, at : at + 1]).sum(axis=1) + (rows[:, at] > 0)
        n = night * NIGHTLY
        total = n * (n + 1) // 2
        if n <= 200:
            upper, lower = null_cdf(n)[total - count], null_cdf(n)[count]
        else:
            spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
            z = (count - total / 2) / spread
            upper, lower = ndtr(-z + 0.5 / spread), ndtr(z + 0.5 / spread)
        within = upper.reshape(runs, cells).max(axis=1)
        worse = np.minimum(1.0, cells * lower.reshape(runs, cells).min(axis=1))
        if night in (1, 30, 40):  # the gate's own function says the same
            expected = tails(data[:, :, :n])
            assert np.allclose(within, expected[0])
            assert np.allclose(worse, expected[1])
        yield within, worse


def new_candidates(rng: np.random.Generator, runs: int, nights: int) -> None:
    """Another equal candidate every night, each with a look of its own, whose blocks decide."""
    print(f"\n### A new equal candidate every night ({nights} nights)\n")
    print(row("cells", "blocks", "passes its only look", "years with any false alarm"))
    print("|--:|--:|--:|--:|")
    level = level_of_look(1, LEVEL)
    for cells in CELLS:
        blocks = blocks_to_pass([-MARGIN / NOISE] * cells, level)
        assert blocks is not None
        years = max(20, runs // (10 * cells))
        passed, alarms = [], []
        for _ in range(years):
            within, worse = tails(draw(rng, nights, [0.0] * cells, blocks))
            passed.append(within <= level)
            alarms.append((worse <= level).any())
        print(row(cells, blocks, rate(np.concatenate(passed)), rate(np.array(alarms))), flush=True)


def scattered(rng: np.random.Generator, share: float, *shape: int, blocks: int) -> Array:
    """Log ratios whose runs scatter by ``share`` of what blocks do (shape x blocks)."""
    between = share * rng.standard_normal((*shape, 1))
    return np.asarray(NOISE * (between + rng.standard_normal((*shape, blocks))))


def kruskal(values: Array) -> Array:
    """The statistic of each row (... x runs x blocks); without ties."""
    *lead, runs, blocks = values.shape
    if runs == 1:
        return np.zeros(lead)
    n = runs * blocks
    flat = values.reshape(-1, n)
    ranks = (np.argsort(np.argsort(flat, axis=1), axis=1) + 1.0).reshape(-1, runs, blocks)
    found = blocks * ((ranks.mean(axis=2) - (n + 1) / 2) ** 2).sum(axis=1)
    return np.asarray(12 / (n * (n + 1)) * found.reshape(lead))


def passes(values: Array, others: Array, level: float, *, before: bool) -> np.ndarray:
    """Which gates let their candidate pass. ``values`` are gates x cells x runs x blocks,
    ``others`` gates x cells x candidates x runs x blocks; ``before``: by the rule before, which
    pooled above a p of 0.1, and also where nothing is known of runs.
    """
    gates, cells, runs, _ = values.shape
    freedom = runs - 1 + others.shape[2] * (others.shape[3] - 1)
    by_blocks = tails(values.reshape(gates, cells, -1))[0] <= level
    if not freedom:
        return np.asarray(by_blocks & before)
    statistic = kruskal(values).sum(axis=1) + kruskal(others).sum(axis=(1, 2))
    alike = chdtrc(cells * freedom, statistic) > (0.1 if before else POOLED)
    if freedom < RUNS - 1:
        return np.asarray(by_blocks & alike & before)
    means, known = values.mean(axis=3), others.mean(axis=4)
    squares = ((means - means.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
    squares += ((known - known.mean(axis=3, keepdims=True)) ** 2).sum(axis=(2, 3))
    t = (means.mean(axis=2) - MARGIN) / np.sqrt(squares / freedom / runs)
    return np.asarray(np.where(alike, by_blocks, (stdtr(freedom, -t) <= level).all(axis=1)))


def same_as_the_gate(rng: np.random.Generator) -> None:
    """``passes`` decides as the gate's own functions do."""
    for runs in (1, 2, 3, 6):
        for count in (0, 1, 3):
            values = scattered(rng, 0.3, 20, 2, runs, blocks=13)
            others = scattered(rng, 0.3, 20, 2, count, 3, blocks=13)
            expected = []
            for gate, known in zip(values, others, strict=True):
                families = [list(one) for cell in known for one in cell]
                p = homogeneity([*map(list, gate), *families])
                tests = [
                    by_runs(
                        list(rows),
                        "higher",
                        THRESHOLD,
                        LEVEL,
                        list(map(list, rest)),
                        p,
                        across=True,
                    )
                    for rows, rest in zip(gate, known, strict=True)
                ]
                expected.append(all(not one.short and one.p_within <= LEVEL for one in tests))
            assert passes(values, others, LEVEL, before=False).tolist() == expected


def between_runs(rng: np.random.Generator, runs: int) -> None:
    """Runs that differ among themselves, by the rule before and now, one run a look."""
    same_as_the_gate(rng)
    marks = (1, 3, 5, 8)
    print("\n### Runs that differ: one cell at the threshold, and equal candidates, by look\n")
    heads = "before: by look 1, 3, 5, 8", "now", "equal passes, before", "equal passes, now"
    print(row("cells", "blocks a run", "between runs / between blocks", "history", *heads))
    print("|--:|--:|--:|---|--:|--:|--:|--:|")
    for cells in CELLS:
        blocks = blocks_to_pass([-MARGIN / NOISE] * cells, level_of_look(1, LEVEL))
        assert blocks is not None
        count = runs if cells == 1 else runs // 4
        for share in (0.0, 0.25, 0.5, 1.0):
            for known in (0, 1, 3, 10):
                others = scattered(rng, share, count, cells, known, 3, blocks=blocks)
                shown = []
                for true in (MARGIN, 0.0):
                    values = scattered(rng, share, count, cells, marks[-1], blocks=blocks)
                    values[:, 0] += true
                    for before in (True, False):
                        ever, lines = np.zeros(count, dtype=bool), []
                        for look in range(1, marks[-1] + 1):
                            level = level_of_look(look, LEVEL)
                            ever |= passes(values[:, :, :look], others, level, before=before)
                            if look in marks:
                                lines.append(f"{100 * ever.mean():.1f}")
                        shown.append(", ".join(lines))
                words = f"{known} others, 3 runs each" if known else "new"
                print(row(cells, blocks, f"{share:g}", words, *shown), flush=True)


def repeats(rng: np.random.Generator, runs: int) -> None:
    """One look with as many runs and blocks as the plan of a history asks for."""
    print("\n### One look with the runs that a history plans for\n")
    shares = (0.0, 0.25, 0.5, 1.0)
    heads = [f"{what}, runs / blocks {x:g}" for what in ("equal", "threshold") for x in shares]
    print(row("cells", "history", "planned", *heads))
    print(f"|--:|---|--:|{'--:|' * len(heads)}")
    level = level_of_look(1, LEVEL)
    for cells in CELLS:
        for known in (0, 1, 3, 10):
            planned = repeats_to_pass([-MARGIN / NOISE] * cells, level, freedom=2 * known)
            assert planned is not None
            count, blocks = planned
            shown = []
            for true in (0.0, MARGIN):
                for share in shares:
                    values = scattered(rng, share, runs // 2, cells, count, blocks=blocks)
                    values[:, 0] += true
                    others = scattered(rng, share, runs // 2, cells, known, 3, blocks=blocks)
                    shown.append(f"{100 * passes(values, others, level, before=False).mean():.1f}")
            words = f"{known} others, 3 runs each" if known else "new"
            print(row(cells, words, f"{count} x {blocks}", *shown), flush=True)


def chosen_sizes(rng: np.random.Generator, runs: int) -> None:
    """What it costs if the next number of blocks follows from the difference seen."""
    print(
        "\n### The next run's size chosen by the difference seen: false passes, 1 cell, 10 looks\n"
    )
    print(row("sizes", "2.5 % each", "spending"))
    print("|---|--:|--:|")
    for words, good, bad in (("always 13 blocks", 13, 13), ("2 if it looks well, else 40", 2, 40)):
        passed = {"each": np.zeros(runs, dtype=bool), "spending": np.zeros(runs, dtype=bool)}
        for number in range(runs):
            data = MARGIN + NOISE * rng.standard_normal(13)
            for look in range(1, 11):
                p = float(signed_rank(data - MARGIN, interval=False).upper[0])
                passed["each"][number] |= p <= LEVEL
                passed["spending"][number] |= p <= level_of_look(look, LEVEL)
                size = good if data.mean() > MARGIN else bad
                data = np.concatenate([data, MARGIN + NOISE * rng.standard_normal(size)])
        print(row(words, rate(passed["each"]), rate(passed["spending"])), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000, help="simulated gates")
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng, began = np.random.default_rng(asked.seed), time.monotonic()
    print(
        f"kernel {platform.release()}, {os.cpu_count()} CPUs; {asked.runs} simulated gates,"
        f" {asked.nights} nights, seed {asked.seed}; shares in percent with exact 95 % intervals\n"
    )
    one_look(rng, asked.runs)
    pilots(rng, asked.runs)
    new_candidates(rng, asked.runs, asked.nights)
    between_runs(rng, asked.runs)
    repeats(rng, asked.runs)
    chosen_sizes(rng, asked.runs)
    every_night(rng, asked.runs, asked.nights)
    print(f"\n{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
