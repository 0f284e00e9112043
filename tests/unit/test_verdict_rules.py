"""The correction for multiple comparisons decides: p values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.comparison.pairs import compare
from cnibench.analysis.gate.judgement import Place, Side, judge
from cnibench.analysis.model import Where
from cnibench.model import context

WHERE: dict[str, Any] = {
    "placement": "intra",
    "path": "pod",
    "workload": "tcp-rr",
    "params": {},
    "ip": 4,
    "mtu": 1500,
    "cpus": "shared",
    "pair": 0,
    "metric": "transaction_rate",
    "unit": "1/s",
    "better": "higher",
    "testbed": "lab",
    "wire": "veth",
    "wire_offload": "plain",
}


def _context(logs: dict[str, list[float]], **where: Any) -> Context:
    members = {
        label: Member(None, {(0, block): math.exp(value) for block, value in enumerate(values)})  # type: ignore[arg-type]
        for label, values in logs.items()
    }
    return Context({**WHERE, **where}, "speed", members)


@pytest.mark.parametrize(
    ("negative", "p", "verdict"),
    [
        # 8 blocks: P(W- <= 1) = 2/256, P(W- <= 2) = 3/256. Times 2 sides, times 3 pairs.
        (1, 4 / 256, "a-better"),
        (2, 6 / 256, "no-difference-found"),
    ],
)
@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_verdict_needs_the_corrected_p(
    negative: int, p: float, verdict: str, better: str
) -> None:
    """Of the eight differences between a and b the one of rank ``negative`` is below 0."""
    sizes = [rank / 100 for rank in range(1, 9)]
    a = [-size if rank == negative else size for rank, size in enumerate(sizes, 1)]
    c = [5.0 * (-1) ** block for block in range(8)]
    pairs, (group,) = compare([_context({"a": a, "b": [0.0] * 8, "c": c}, better=better)], 0.05)
    ab = next(pair for pair in pairs if (pair.a, pair.b) == ("a", "b"))
    assert ab.p == pytest.approx(p)
    assert ab.p_holm == pytest.approx(3 * p)
    assert (ab.family, ab.n, ab.blocks_needed) == (3, 8, 7)
    wanted = verdict if better == "higher" or verdict != "a-better" else "b-better"
    assert ab.verdict == wanted
    separate = set(group.letters["a"]).isdisjoint(group.letters["b"])
    assert separate == (verdict == "a-better")
    others = [pair for pair in pairs if pair is not ab]
    assert [pair.verdict for pair in others] == ["no-difference-found"] * 2


def _side(cells: dict[str, list[float]]) -> Side:
    found: Side = {}
    for workload, values in cells.items():
        where = {**WHERE, "workload": workload}
        runs = [{(0, block): value for block, value in enumerate(values)}]
        key = (context.key({"params": {}, **where}, context.IDENTITY), where["metric"])
        found[key] = Place(Where(**where), "speed", runs)
    return found


@pytest.mark.parametrize(
    ("others", "outcomes", "exit_code"),
    [
        # 6 blocks, all worse: 1/64 = 0.0156 of one cell, 0.0312 of two. The level is 0.025.
        ({}, ["worse"], 4),
        ({"tcp-crr": [1.0] * 6}, ["undecided", "within"], 5),
    ],
)
def test_the_gate_corrects_over_its_cells(
    others: dict[str, list[float]], outcomes: list[str], exit_code: int
) -> None:
    base = _side({"tcp-rr": [1.0] * 6, **dict.fromkeys(others, [1.0] * 6)})
    worse = [0.9 - block / 1000 for block in range(6)]
    verdict = judge(base, _side({"tcp-rr": worse, **others}), 0.05, pairwise=True)
    assert [cell.outcome for cell in verdict.cells] == outcomes
    assert verdict.exit_code == exit_code
