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

from tests.unit._call import call
from tests.unit._runs import synthetic
from tests.unit.test_disturbed import disturb

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
    return done.exit_code, done.stdout


@pytest.mark.parametrize("main", [{}, {"tcp-rr": "transaction_rate"}])
@pytest.mark.parametrize("labels", [("base",), ("cand",), ("base", "cand")])
def test_a_cell_that_is_all_disturbed_on_one_side_never_passes(
    tmp_path: Path, labels: tuple[str, ...], main: dict[str, str]
) -> None:
    """The other cells are within the threshold; cycles do not take the place of what is missing."""
    status, said = _compare(tmp_path, _one_cell(*labels), main=main)
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
