"""Disturbed samples in the gate: neither a figure nor a failure, named in every format, and never
the reason why a cell goes unnoticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from cnibench.analysis.gate.failure_rates import Tally, unequally_disturbed
from tests.unit._call import call, unwrapped
from tests.unit._runs import disturb, edited, synthetic

BLOCKS = 16
Which = Callable[[dict[str, Any]], bool]


def _one_cell(*labels: str, blocks: int = BLOCKS) -> Which:
    """The windows without perf of tcp-rr on one node."""
    return lambda line: (
        line["label"] in labels
        and (line["window"], line["workload"], line["placement"]) == ("speed", "tcp-rr", "intra")
        and line["block"] < blocks
    )


def _compare(
    tmp_path: Path, which: Which, *more: str, fail: int = 0, side: str = "", **manifest: Any
) -> tuple[int, str]:
    run = synthetic(
        tmp_path,
        {"base": 1.0, "cand": 1.0},
        blocks=BLOCKS,
        fail=[(side, block) for block in range(fail)],
        **manifest,
    )
    run = disturb(run, which)
    done = call(["compare", f"{run.path}:base", f"{run.path}:cand", "--threshold", "20%", *more])
    return done.exit_code, done.stdout if "json" in str(more) else unwrapped(done.stdout)


@pytest.mark.parametrize("main", [{}, {"tcp-rr": "transaction_rate"}])
@pytest.mark.parametrize("labels", [("base",), ("cand",), ("base", "cand")])
def test_a_cell_that_is_all_disturbed_on_one_side_never_passes(
    tmp_path: Path, labels: tuple[str, ...], main: dict[str, str]
) -> None:
    """The other cells are within the threshold; cycles do not take the place of what is missing."""
    status, said = _compare(tmp_path, _one_cell(*labels), "--inconclusive", "pass", main=main)
    assert status == 5, said
    first = said.splitlines()[0]
    assert first.startswith("undecided: tcp-rr on one node: the ")
    assert f"{BLOCKS if 'base' in labels else 0} of {BLOCKS} samples of the base" in first
    assert f"{BLOCKS if 'cand' in labels else 0} of {BLOCKS} of the candidate" in first
    assert "cycles_per_packet" not in said


def test_a_base_that_failed_once_and_was_disturbed_else_did_not_always_fail(tmp_path: Path) -> None:
    status, said = _compare(
        tmp_path, lambda line: line["label"] == "base" and line["block"] > 0, fail=1, side="base"
    )
    assert status == 5, said
    assert "always failed" not in said


def test_a_candidate_that_always_fails_beside_a_disturbed_base_does_not_pass(
    tmp_path: Path,
) -> None:
    status, said = _compare(
        tmp_path, lambda line: line["label"] == "base", fail=BLOCKS, side="cand"
    )
    assert status == 5, said
    assert "candidate in 16 of 16" in said
    assert "16 of 16 samples of the base" in said


def test_a_candidate_that_is_disturbed_more_often_than_chance_explains_is_undecided(
    tmp_path: Path,
) -> None:
    """It hung in half of its blocks and ended with 0 each time; the other half is no sample."""
    half = _one_cell("cand", blocks=BLOCKS // 2)
    words = (
        "the candidate was disturbed significantly more often than the base (exact McNemar test, p="
    )
    status, said = _compare(tmp_path / "text", half)
    assert status == 5, said
    assert words in said.splitlines()[0]
    assert "0 of 16 samples of the base, 8 of 16 of the candidate" in said.splitlines()[0]
    status, text = _compare(tmp_path / "json", half, "--json")
    told = json.loads(text)
    assert (status, told["exit_code"]) == (5, 5)
    assert told["cells"][0]["outcome"] == "undecided"
    assert told["cells"][0]["p_disturbed"] < 0.025
    assert (told["cells"][0]["base_disturbed"], told["cells"][0]["candidate_disturbed"]) == (0, 8)
    assert words in _compare(tmp_path / "md", half, "--format", "md")[1]
    _, junit = _compare(tmp_path / "junit", half, "--format", "junit")
    errors = ElementTree.fromstring(junit.split("\n", 1)[1]).findall("testcase/error")
    assert [words in (one.get("message") or "") for one in errors] == [True]


def test_a_base_that_is_disturbed_more_often_is_undecided_as_well(tmp_path: Path) -> None:
    passing = ("--inconclusive", "pass")
    status, said = _compare(tmp_path, _one_cell("base", blocks=BLOCKS // 2), *passing)
    assert status == 5, said
    assert "the base was disturbed significantly more often than the candidate" in said


@pytest.mark.parametrize(("blocks", "status"), [(BLOCKS // 2, 0), (BLOCKS // 2 + 1, 5)])
def test_fewer_than_half_of_the_pairs_do_not_decide(
    tmp_path: Path, blocks: int, status: int
) -> None:
    """Both sides are disturbed in the same blocks."""
    found, said = _compare(tmp_path, _one_cell("base", "cand", blocks=blocks))
    assert found == status, said
    assert ("only 7 of 16 pairs of blocks were not disturbed" in said) == (status == 5)


def test_perf_windows_without_a_usable_sample_of_the_base_have_a_row(tmp_path: Path) -> None:
    """The base's are all disturbed, the candidate's all failed: nothing is compared, and it says
    so.
    """
    run = synthetic(tmp_path, {"base": 1.0, "cand": 1.0}, blocks=BLOCKS)

    def edit(line: dict[str, Any]) -> dict[str, Any]:
        if (line["window"], line["workload"], line["placement"]) != ("cpp", "tcp-rr", "intra"):
            return line
        if line["label"] == "base":
            return {**line, "disturbed": "netperf was stopped for 1.00 s of 2.00 s"}
        return {**line, "status": "failed", "value": None, "reason": "perf ended with 1"}

    run = edited(run, edit)
    done = call(["compare", f"{run.path}:base", f"{run.path}:cand", "--threshold", "20%", "--json"])
    rows = [one for one in json.loads(done.stdout)["cells"] if one["metric"] == ""]
    assert done.exit_code == 5, done.stdout
    assert [(one["outcome"], one["base_disturbed"]) for one in rows] == [("undecided", BLOCKS)]
    assert rows[0]["candidate_failures"]["failed"] == BLOCKS


@pytest.mark.parametrize("paired", [True, False])
@given(base=st.integers(0, 12), candidate=st.integers(0, 12))
def test_the_test_of_disturbed_shares_is_exact(base: int, candidate: int, paired: bool) -> None:
    ours = Tally(_blocks(base, 12), frozenset(), "", _blocks(0, base))
    theirs = Tally(_blocks(candidate, 12), frozenset(), "", _blocks(0, candidate))
    found = unequally_disturbed(ours, theirs, paired=paired)
    if not base and not candidate:
        assert found is None
        return
    assert found is not None
    assert found.more == (candidate > base)
    if paired:  # the same blocks first: only the difference is discordant
        discordant = abs(base - candidate)
        expected = min(1.0, 2 * 0.5**discordant) if discordant else 1.0
    else:
        sides = [
            fisher_exact([[candidate, 12 - candidate], [base, 12 - base]], side).pvalue
            for side in ("greater", "less")
        ]
        expected = min(1.0, 2 * min(sides))
    assert found.p == pytest.approx(expected)


def _blocks(first: int, last: int) -> frozenset[tuple[int, int]]:
    return frozenset((0, block) for block in range(first, last))


def test_every_format_names_the_disturbed_samples_of_both_sides(tmp_path: Path) -> None:
    words = "disturbed and not used: 0 of 16 samples of the base, 2 of 16 of the candidate"
    few = _one_cell("cand", blocks=2)
    status, said = _compare(tmp_path / "text", few)
    assert (status, said.count(words)) == (0, 1)
    told = json.loads(_compare(tmp_path / "json", few, "--json")[1])
    counts = [(one["base_disturbed"], one["candidate_disturbed"]) for one in told["cells"]]
    assert counts == [(0, 2), (0, 0), (0, 0), (0, 0)]
    assert {one["candidate_failures"]["failed"] for one in told["cells"]} == {0}
    assert words in _compare(tmp_path / "md", few, "--format", "md")[1]
    _, junit = _compare(tmp_path / "junit", few, "--format", "junit")
    suite = ElementTree.fromstring(junit.split("\n", 1)[1])
    assert words in (suite.findtext("testcase/system-out") or "")
