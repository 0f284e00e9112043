"""Several runs reported together: the run is the unit on top of its blocks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.analysis.build import analyse
from cnibench.analysis.comparison.by_runs import by_runs
from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.comparison.pairs import compare
from tests.unit._runs import counted, synthetic
from tests.unit.test_verdict_rules import WHERE

PLAIN: dict[str, Any] = {"workloads": ("tcp-rr",), "placements": ("intra",), "cpp": False}


def context(table: Any, **where: Any) -> Context:
    """``table``: labels x runs x blocks, NaN for what is missing."""
    members = {
        f"p{label}": Member(
            None,  # type: ignore[arg-type]
            {at: float(x) for at, x in np.ndenumerate(values) if not np.isnan(x)},
        )
        for label, values in enumerate(np.asarray(table))
    }
    return Context({**WHERE, **where}, "speed", members)


def test_a_run_counts_once_by_the_mean_of_its_logs() -> None:
    table = [[[1.0, 4.0], [3.0, 3.0]], [[2.0, 2.0], [1.0, 9.0]]]
    found = by_runs(context(table))
    assert found.replicate == "run"
    assert found.members["p0"].values == pytest.approx({(0, 0): 2.0, (0, 1): 3.0})
    assert found.members["p1"].values == pytest.approx({(0, 0): 2.0, (0, 1): 3.0})


def test_one_run_stays_as_it_is() -> None:
    one = context([[[1.0, 2.0]], [[3.0, 4.0]]])
    assert by_runs(one) is one
    elsewhere = context([[[1.0], [math.nan]], [[math.nan], [2.0]]])
    assert by_runs(elsewhere) is elsewhere, "no label has two runs"


def test_a_missing_block_does_not_move_a_ratio() -> None:
    """Block 2 is ten times as fast for all; the first label lacks it in the first run."""
    table = np.array([[[2.0, math.nan], [2.0, 20.0]], [[1.0, 10.0], [1.0, 10.0]]])
    ratios = [
        by_runs(context(table)).members["p0"].values[0, run]
        / by_runs(context(table)).members["p1"].values[0, run]
        for run in (0, 1)
    ]
    assert ratios == pytest.approx([2.0, 2.0])


def test_counts_and_values_that_are_not_positive_have_plain_means() -> None:
    found = by_runs(context([[[3.0, 3.0], [3.0, 3.0]], [[7.0, 7.0], [7.0, 7.0]]], metric="rules"))
    assert found.members["p0"].values == {(0, 0): 3.0, (0, 1): 3.0}
    pairs, _ = compare([found], 0.05)
    assert (pairs[0].exact, pairs[0].reason) == (True, "counted, and identical in every run")
    zero = by_runs(context([[[0.0, 2.0], [4.0, 4.0]]]))
    assert zero.members["p0"].values == {(0, 0): 1.0, (0, 1): 4.0}


@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_what_all_labels_of_a_run_or_block_share_cancels(
    k: int, runs: int, blocks: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((k, runs, 1))
    table = np.exp(own + rng.standard_normal((1, runs, blocks)))
    table[0, 0, blocks // 2 :] = np.nan  # a label that is missing in blocks
    members = by_runs(context(table)).members
    for label in range(1, k):
        for at in members["p0"].values.keys() & members[f"p{label}"].values.keys():
            found = members[f"p{label}"].values[at] / members["p0"].values[at]
            if blocks > 1 or at[1]:
                assert found == pytest.approx(math.exp(own[label, at[1], 0] - own[0, at[1], 0]))


def test_a_report_of_several_runs_says_that_they_count_as_runs(tmp_path: Path) -> None:
    readers = [
        synthetic(tmp_path, {"a": 1.0, "b": 0.8}, name=f"r{seed}", seed=seed, **PLAIN)
        for seed in (1, 2, 3)
    ]
    found = analyse(readers)
    (pair,) = (one for one in found.pairs if one.metric == "transaction_rate")
    assert (pair.n, pair.replicate, pair.verdict) == (3, "run", "a-better")
    assert found.results[0].blocks == [0, 1, 2]
    assert found.summary[0].startswith("Runs: 3 together.")
    assert "below 6 runs, verdicts rest on a model" in found.summary[0]
    assert any("with 3 runs, too few for a test without a model" in text for text in found.summary)
    assert not any(" blocks" in text for text in found.summary[1:])
    alone = analyse(readers[:1])
    assert not any(text.startswith("Runs:") for text in alone.summary)


def test_counts_of_several_runs_need_no_test(tmp_path: Path) -> None:
    readers = [
        counted(tmp_path / name, {"a": [3.0, 3.0], "b": [5.0, 5.0]}) for name in ("one", "two")
    ]
    plan = readers[1].path / "plan.json"
    plan.write_bytes(plan.read_bytes().replace(b'"id":"synthetic-1"', b'"id":"other"'))
    found = analyse([readers[0], type(readers[1])(readers[1].path)])
    assert [(pair.verdict, pair.exact, pair.n) for pair in found.pairs] == [("a-better", True, 2)]
