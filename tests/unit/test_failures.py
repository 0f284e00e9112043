"""Failures are an outcome: in the gate's status and in all of its formats, and beside every
ranking.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from cnibench.analysis import analyse
from cnibench.analysis.gate.failure_rates import Tally, more_often
from cnibench.rundir.reader import RunReader
from tests.unit._call import Outcome, call, unwrapped
from tests.unit._runs import synthetic

ONE_CELL: dict[str, Any] = {
    "cpp": False,
    "workloads": ("tcp-rr",),
    "placements": ("intra",),
    "noise": 0.002,
}


def _run(tmp_path: Path, base: int, candidate: int, blocks: int = 16, **more: object) -> RunReader:
    """Both equally fast; each side fails in so many blocks, in different ones where there are
    enough.
    """
    fail = [("base", block) for block in range(base)]
    fail += [("cand", block) for block in range(blocks - candidate, blocks)]
    what = {
        "cpp": False,
        "workloads": ("tcp-rr",),
        "placements": ("intra",),
        "noise": 0.004,
        **more,
    }
    return synthetic(tmp_path, {"base": 1.0, "cand": 1.0}, blocks=blocks, fail=fail, **what)


def _compare(run: RunReader, *more: str) -> tuple[int, str]:
    done = call(["compare", f"{run.path}:base", f"{run.path}:cand", "--threshold", "5%", *more])
    return done.exit_code, unwrapped(done.stdout)


@pytest.mark.parametrize(
    ("base", "candidate", "status"),
    [
        (0, 0, 0),
        (0, 9, 4),
        (0, 15, 4),
        (0, 16, 4),
        (0, 1, 5),
        (0, 5, 5),
        (2, 4, 5),
        (2, 2, 0),
        (9, 0, 0),
        (2, 0, 0),
        (16, 0, 0),
        (16, 16, 5),
    ],
)
def test_a_candidate_that_fails_more_often_never_passes(
    tmp_path: Path, base: int, candidate: int, status: int
) -> None:
    run = _run(tmp_path, base, candidate)
    found, said = _compare(run)
    assert found == status, said
    assert _compare(run, "--inconclusive", "pass")[0] == status
    if base or candidate:
        assert f"base failed in {base} of 16 blocks" in said
        assert f"candidate in {candidate}" in said
        assert "the server is gone" in said


def test_what_the_gate_says_of_failures(tmp_path: Path) -> None:
    _, worse = _compare(_run(tmp_path / "a", 0, 9))
    assert (
        worse.splitlines()[0]
        == "worse: tcp-rr on one node: fails more often than the base (exact McNemar test, p=0.0039"
        " after Holm's correction); base failed in 0 of 16 blocks, candidate in 9 (first reason:"
        " the server is gone)"
    )
    _, open_ = _compare(_run(tmp_path / "b", 0, 1))
    assert (
        open_.splitlines()[0]
        == "undecided: tcp-rr on one node: fails more often than the base, which is not proven"
        " (exact McNemar test, p=1 after Holm's correction); base failed in 0 of 16 blocks,"
        " candidate in 1 (first reason: the server is gone)"
    )


def test_every_format_has_the_failures_of_both_sides(tmp_path: Path) -> None:
    run = _run(tmp_path, 2, 2)
    status, said = _compare(run, "--json")
    assert status == 0
    (cell,) = json.loads(said)["cells"]
    assert cell["outcome"] == "within"
    assert cell["base_failures"] == {"failed": 2, "blocks": 16, "reason": "the server is gone"}
    assert cell["candidate_failures"] == {"failed": 2, "blocks": 16, "reason": "the server is gone"}
    assert "| 2 of 16 | 2 of 16 |" in _compare(run, "--format", "md")[1]
    junit = ElementTree.fromstring(_compare(run, "--format", "junit")[1].split("\n", 1)[1])
    assert "candidate in 2" in (junit.findtext("testcase/system-out") or "")
    failed = _run(tmp_path / "more", 0, 9)
    junit = ElementTree.fromstring(_compare(failed, "--format", "junit")[1].split("\n", 1)[1])
    assert "fails more often" in junit.findall("testcase/failure")[0].get("message", "")


def test_failures_of_windows_that_are_not_judged_count_as_well(tmp_path: Path) -> None:
    """Those with perf give no main metric, and a candidate whose windows with perf fail is worse
    than one whose windows do not.
    """
    run = synthetic(
        tmp_path,
        {"base": 1.0, "cand": 1.0},
        blocks=16,
        noise=0.004,
        workloads=("tcp-rr",),
        placements=("intra",),
    )
    file = run.path / "samples.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    gone = {"metric": "", "value": None, "status": "failed", "reason": "perf ended"}
    kept = []
    for line in lines:
        if (line["label"], line["window"]) == ("cand", "cpp"):
            if line["metric"] == "cycles_per_packet":
                kept.append(line | gone)
        else:
            kept.append(line)
    file.write_text("".join(json.dumps(line) + "\n" for line in kept))
    status, said = _compare(run)
    assert status == 4
    assert "perf ended" in said


def _against_three_runs(tmp_path: Path, blocks: int, failed: int, threshold: str) -> Outcome:
    """``compare`` of three runs without a failure with one whose first ``failed`` blocks failed."""
    more = {**ONE_CELL, "blocks": blocks}
    bases = [synthetic(tmp_path, {"x": 1.0}, name=f"base{i}", seed=i, **more) for i in range(3)]
    fail = [("x", block) for block in range(failed)]
    candidate = synthetic(tmp_path, {"x": 1.0}, name="candidate", seed=9, fail=fail, **more)
    base = ",".join(str(run.path) for run in bases)
    return call(["compare", base, str(candidate.path), "--threshold", threshold])


def test_across_runs_fishers_exact_test(tmp_path: Path) -> None:
    done = _against_three_runs(tmp_path, blocks=8, failed=4, threshold="50%")
    assert done.exit_code == 4, done.stdout
    assert "Fisher's exact test" in unwrapped(done.stdout)
    assert "base failed in 0 of 24 blocks, candidate in 4 of 8" in unwrapped(done.stdout)


def test_a_candidate_of_another_run_that_hardly_ever_works_does_not_pass(tmp_path: Path) -> None:
    done = _against_three_runs(tmp_path, blocks=16, failed=15, threshold="20%")
    assert done.exit_code == 4, done.stdout


def test_the_tests_are_exact() -> None:
    def tally(failed: set[int], blocks: int = 16) -> Tally:
        return Tally(
            frozenset((0, block) for block in range(blocks)),
            frozenset((0, block) for block in failed),
            "gone",
        )

    found = more_often(tally({0}), tally({1, 2, 3, 4}), paired=True)
    assert found is not None
    assert found.p == pytest.approx(stats.binomtest(4, 5, 0.5, alternative="greater").pvalue)
    found = more_often(tally({0}, 24), tally({1, 2, 3, 4}, 8), paired=False)
    assert found is not None
    assert found.p == pytest.approx(stats.fisher_exact([[4, 4], [1, 23]], alternative="greater")[1])
    assert more_often(tally(set()), tally(set()), paired=True) is None
    assert more_often(tally({1}), tally({1}), paired=True) is None


def test_equal_rates_of_failures_are_proven_worse_in_a_fortieth_of_the_cases_at_most() -> None:
    rng = np.random.default_rng(5)
    alarms = [0, 0]
    for _ in range(1000):
        one, other = (
            {(0, int(block)) for block in np.flatnonzero(rng.random(16) < 0.3)} for _ in range(2)
        )
        every = frozenset((0, block) for block in range(16))
        for at, paired in enumerate((True, False)):
            found = more_often(
                Tally(every, frozenset(one), ""), Tally(every, frozenset(other), ""), paired=paired
            )
            alarms[at] += found is not None and found.p <= 0.025
    assert max(alarms) <= 25


def test_a_ranking_says_which_of_its_profiles_failed(tmp_path: Path) -> None:
    truth = {"fast": 1.2, "slow": 1.0, "never": 1.1}
    fail = [("fast", block) for block in range(9)] + [("never", block) for block in range(16)]
    run = synthetic(
        tmp_path,
        truth,
        blocks=16,
        fail=fail,
        cpp=False,
        workloads=("tcp-rr",),
        placements=("intra",),
    )
    analysis = analyse([run])
    assert "fast failed in 9 of 16 blocks, never failed in 16 of 16 blocks" in analysis.summary[0]
    said = call(["report", str(run.path)]).stdout
    row = next(line for line in said.splitlines() if line.startswith("fast "))
    assert "9 of 16" in row
    assert any(line.startswith("never ") and "16 of 16" in line for line in said.splitlines())
    call(["site", str(run.path), "--out", str(tmp_path / "site")])
    assert "failed in 9 of 16 blocks" in (tmp_path / "site" / "workload-tcp-rr.html").read_text()
    document = json.loads(call(["report", str(run.path), "--json"]).stdout)
    (group,) = [one for one in document["groups"] if one["metric"] == "transaction_rate"]
    assert group["failed"] == {"fast": [9, 16], "never": [16, 16]}


def test_what_is_said_where_a_side_never_gave_a_figure(tmp_path: Path) -> None:
    _, passes = _compare(_run(tmp_path / "a", 16, 0))
    assert (
        passes.splitlines()[1].strip()
        == "within: tcp-rr on one node: the base has no figure here, for it always failed; base"
        " failed in 16 of 16 blocks, candidate in 0 (first reason: the server is gone)"
    )
    _, never = _compare(_run(tmp_path / "b", 16, 16))
    assert (
        never.splitlines()[0]
        == "undecided: tcp-rr on one node: the candidate has no figure here; base failed in 16 of"
        " 16 blocks, candidate in 16 (first reason: the server is gone)"
    )


def test_equal_failures_of_windows_with_perf_are_shown_and_pass(tmp_path: Path) -> None:
    run = synthetic(
        tmp_path,
        {"base": 1.0, "cand": 1.0},
        blocks=16,
        noise=0.004,
        workloads=("tcp-rr",),
        placements=("intra",),
        fail=[("base", 3), ("cand", 3)],
    )
    status, said = _compare(run)
    assert status == 0
    assert (
        "within: tcp-rr on one node with perf: does not fail more often than the base; base failed"
        " in 1 of 16 blocks, candidate in 1" in said
    )


def test_what_is_unsupported_is_missing_and_has_not_failed(tmp_path: Path) -> None:
    run = _run(tmp_path, 0, 16)
    file = run.path / "samples.jsonl"
    file.write_text(file.read_text().replace('"status":"failed"', '"status":"unsupported"'))
    status, said = _compare(run)
    assert status == 5
    assert "the candidate has no transaction_rate here" in said


def test_a_cell_that_only_the_candidate_was_tried_in_decides_nothing(tmp_path: Path) -> None:
    run = _run(tmp_path, 0, 0)
    file = run.path / "samples.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    gone = {"metric": "", "value": None, "status": "failed", "reason": "gone", "placement": "inter"}
    more = [
        line | gone | {"cell": "other"}
        for line in lines
        if line["label"] == "cand" and line["metric"] == "transaction_rate"
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines + more))
    assert _compare(run)[0] == 0


@pytest.mark.parametrize("paired", [True, False])
def test_thousands_of_failures_are_no_number_too_large(paired: bool) -> None:
    """More ways than floating point can count."""
    every = frozenset((0, block) for block in range(5000))
    base = Tally(every, frozenset((0, block) for block in range(2400)))
    candidate = Tally(every, frozenset((0, block) for block in range(2400, 5000)))
    found = more_often(base, candidate, paired=paired)
    assert found is not None
    known = (
        stats.binom.sf(2599, 5000, 0.5) if paired else stats.hypergeom.sf(2599, 10000, 5000, 5000)
    )
    assert found.p == pytest.approx(known, rel=1e-6)
