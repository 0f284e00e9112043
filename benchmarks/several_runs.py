"""How often several runs of one machine call equal profiles different, and unequal ones: by blocks,
as cnibench 0.1.0 pooled them, and by runs.

    python benchmarks/several_runs.py [--tables 1000]

Simulated tables of profiles x runs x 12 blocks, normal noise of 1 % from block to block; what a run
adds to each profile scatters by a part of that. Each share is that of tables in which any pair is
called different. The table of docs/statistics.md is its output. Needs no root, and two minutes.
"""

from __future__ import annotations

import argparse
from typing import cast

import numpy as np

from cnibench.analysis.comparison.by_runs import by_runs
from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.comparison.pairs import compare
from cnibench.analysis.samples.stream import Line
from cnibench.model import context

_BLOCKS, _NOISE = 12, 0.01
_BETWEEN = (0.0, 0.25, 0.5, 1.0)  # scatter between runs in multiples of the noise
_WHERE = {
    **dict.fromkeys(context.PLACE_NAMES, ""),
    "params": {},
    "metric": "transaction_rate",
    "unit": "1/s",
    "better": "higher",
    "environment": 0,
    "reading": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=1000)
    tables = parser.parse_args().tables
    print("| Profiles | Runs |", " | ".join(f"{x:g}" for x in _BETWEEN), "|")
    print("|---|--:|" + "--:|" * len(_BETWEEN))
    for k, gap in ((2, 0.0), (4, 0.0), (2, 0.03)):
        for runs in (2, 3, 5, 8, 12):
            cells = [_shares(k, runs, between, gap, tables) for between in _BETWEEN]
            shown = " | ".join(f"{100 * old:.1f} / {100 * new:.1f} %" for old, new in cells)
            print(f"| {k} {f'{gap:.0%} apart' if gap else 'equal'} | {runs} | {shown} |")


def _shares(k: int, runs: int, between: float, gap: float, tables: int) -> tuple[float, float]:
    """Of tables with any pair proven to differ: (by blocks, by runs). ``gap``: of the first."""
    rng = np.random.default_rng(1)
    contexts = []
    for _ in range(tables):
        table = 0.05 * rng.standard_normal((1, runs, 1)) + _NOISE * (
            between * rng.standard_normal((k, runs, 1)) + rng.standard_normal((k, runs, _BLOCKS))
        )
        table[0] += gap
        contexts.append(_context(np.exp(table)))
    ways = contexts, [by_runs(one) for one in contexts]
    old, new = (_found(way) / tables for way in ways)
    return old, new


def _context(table: np.ndarray[tuple[int, int, int], np.dtype[np.float64]]) -> Context:
    unused = cast(Line, None)  # a comparison does not look at the lines
    members = {
        str(label): Member(unused, {at: float(value) for at, value in np.ndenumerate(values)})
        for label, values in enumerate(table)
    }
    return Context(_WHERE, "speed", members)


def _found(contexts: list[Context]) -> int:
    """In how many of them any pair is called different."""
    pairs, _ = compare(contexts, 0.05)
    each = len(pairs) // len(contexts)
    lots = [pairs[i : i + each] for i in range(0, len(pairs), each)]
    return sum(any(pair.verdict in PROVEN for pair in lot) for lot in lots)


if __name__ == "__main__":
    main()
