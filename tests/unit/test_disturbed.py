"""Disturbed samples in a run directory: no figure has them, every report says so, and they count as
done.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from cnibench.analysis import analyse
from cnibench.analysis.model import Analysis
from cnibench.analysis.text.narrative import primary_groups
from cnibench.cli.measurement.execute import comparisons
from cnibench.registry import provider
from cnibench.rundir.reader import RunReader
from tests.unit._call import call
from tests.unit._runs import DISTURBANCE, disturb, synthetic

TRUTH = {"flannel": 1.0, "cilium": 1.5}


def medians(analysis: Analysis) -> dict[tuple[str, str, str, str], tuple[float, int]]:
    return {
        (one.label, one.workload, one.placement, one.metric): (one.median, one.n)
        for one in analysis.results
    }


def first_blocks(line: dict[str, Any]) -> bool:
    return bool(line["label"] == "flannel" and line["block"] < 3)


def test_no_figure_verdict_or_order_has_a_disturbed_sample(tmp_path: Path) -> None:
    """As if those blocks of that profile had never been measured, whatever figures they hold."""
    marked = disturb(synthetic(tmp_path, TRUTH, name="marked"), first_blocks, value=1e12)
    bare = synthetic(tmp_path, TRUTH, name="bare")
    for file in ("samples.jsonl", "cpp.jsonl"):
        lines = [
            line
            for line in (bare.path / file).read_text().splitlines()
            if not first_blocks(json.loads(line))
        ]
        (bare.path / file).write_text("\n".join(lines) + "\n")
    one, other = analyse([marked]), analyse([RunReader(bare.path)])
    assert medians(one) == medians(other)
    assert one.pairs == other.pairs
    assert one.groups == other.groups
    assert [(row.label, row.total, row.n) for row in one.cpp] == [
        (row.label, row.total, row.n) for row in other.cpp
    ]
    assert {row.n for row in one.cpp if row.label == "flannel"} == {9}
    assert {result.disturbed for result in one.results if result.label == "flannel"} == {3}
    assert {result.disturbed for result in one.results if result.label == "cilium"} == {0}
    assert not one.failures
    assert (len(one.disturbed), one.samples) == (3 * 8, 2 * 8 * 12)


def test_every_report_says_so_and_why(tmp_path: Path) -> None:
    run = disturb(
        synthetic(tmp_path, TRUTH, cpp=True, workloads=("tcp-rr",), placements=("intra",)),
        lambda line: line["block"] == 1,
    )
    analysis = analyse([run])
    text = provider("reports", "text").render(analysis)
    first = " ".join(" ".join(text.splitlines()[:12]).split())
    assert (
        "Disturbed: 4 of 48 samples were disturbed and not used: flannel, tcp-rr on one node"
        " [size=1], block 2: " + DISTURBANCE in first
    )
    assert "Disturbed samples" in text
    assert "Disturbed samples" in provider("reports", "md").render(analysis)
    told = json.loads(provider("reports", "json").render(analysis))
    assert [
        (one["label"], one["block"], one["window"], one["reason"], one["alone"])
        for one in told["disturbed"]
    ] == [(label, 1, window, DISTURBANCE, False) for label in TRUTH for window in ("speed", "cpp")]
    assert {
        row["disturbed"]
        for row in csv.DictReader(io.StringIO(provider("reports", "csv").render(analysis)))
    } == {"1"}
    done = call(["site", str(run.path), "--out", str(tmp_path / "site")])
    assert done.exit_code == 0, done.stderr
    assert "4 of 48 samples were disturbed" in (tmp_path / "site/index.html").read_text()
    assert DISTURBANCE in (tmp_path / "site/method.html").read_text()
    shown = json.loads(call(["runs", "show", str(run.path), "--json"]).stdout)
    assert (shown["samples"], shown["failed"], shown["disturbed"]) == (48, 0, 4)


@pytest.mark.parametrize("labels", [("flannel",), ("flannel", "cilium")])
def test_a_cell_of_which_nothing_is_left_has_no_figure(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    run = synthetic(
        tmp_path, TRUTH, cpp=False, workloads=("tcp-rr",), placements=("intra",), blocks=2
    )
    (run.path / "cpp.jsonl").write_text("")
    analysis = analyse([disturb(run, lambda line: line["label"] in labels)])
    assert {result.label for result in analysis.results} == set(TRUTH) - set(labels)
    assert not analysis.pairs
    assert "there is no figure" in analysis.summary[0]
    for label in TRUTH:
        assert (
            f"{label}, tcp-rr on one node" in analysis.summary[0].partition("no figure")[2]
        ) == (label in labels)
    assert all(one.alone for one in analysis.disturbed)


def test_cycles_do_not_rank_where_the_speed_has_no_figure(tmp_path: Path) -> None:
    run = synthetic(tmp_path, TRUTH, workloads=("tcp-rr",), placements=("intra",), blocks=12)
    analysis = analyse([disturb(run, lambda line: line["window"] == "speed")])
    assert {group.metric for group in analysis.groups} == {"cycles_per_packet"}
    assert primary_groups(analysis) == []
    assert "best" not in " ".join(analysis.summary)


def test_a_disturbed_sample_is_done_and_does_not_stop_a_run(tmp_path: Path) -> None:
    run = synthetic(tmp_path, TRUTH, blocks=4)
    before = run.done()
    run = disturb(run, first_blocks, value=1e12)
    assert run.done() == before
    workloads = {name: provider("workloads", name) for name in ("tcp-rr", "tcp-stream")}
    lengths = {len(logs) for logs in comparisons(run.samples(), workloads, 4).values()}
    assert lengths == {1}, "of four blocks one has both"


def test_records_of_disturbed_samples_are_left_out_but_the_stalls_are_not(tmp_path: Path) -> None:
    run = synthetic(tmp_path, TRUTH, blocks=2)
    (run.path / "stalls.jsonl").write_text((run.path / "cpp.jsonl").read_text())
    whole = len(list(run.records("cpp")))
    run = disturb(run, lambda line: line["block"] == 0)
    (run.path / "stalls.jsonl").write_text((run.path / "cpp.jsonl").read_text())
    assert 2 * len(list(run.records("cpp"))) == whole
    assert len(list(run.records("stalls"))) == whole
