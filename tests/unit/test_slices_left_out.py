"""Reports say where samples left out many of their slices and are used nevertheless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis import analyse
from cnibench.reports.brief import PROVIDER as BRIEF
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.rundir.reader import RunReader
from tests.unit._runs import synthetic


def run_with(folder: Path, *records: dict[str, Any]) -> RunReader:
    """A run with such records in slices.jsonl."""
    run = synthetic(folder, {"a": 1.0, "b": 0.9}, cpp=False)
    (run.path / "slices.jsonl").write_bytes(
        b"".join(msgspec.json.encode({"schema": 1, **one}) + b"\n" for one in records)
    )
    return RunReader(run.path)


def test_more_than_a_tenth_is_said_and_disturbed_samples_are_not_counted(tmp_path: Path) -> None:
    analysis = analyse(
        [
            run_with(
                tmp_path,
                {"rounds": 25, "left_out": 2},
                {"rounds": 25, "left_out": 3},
                {"rounds": 25, "left_out": 9},
                {"rounds": 25, "left_out": 25, "disturbed": "netserver was stopped"},
            )
        ]
    )
    said = (
        f"Slices left out: in 2 of {analysis.samples} samples more than 10% of the slices were"
        " disturbed and not used (at most 36%)."
    )
    assert said in analysis.summary
    brief = "2 others left out more than 10% of their slices (at most 36%)."
    assert brief in " ".join(BRIEF.render(analysis, 200).split())


@pytest.mark.parametrize(
    "record", [{"rounds": 25, "left_out": 2}, {"rounds": 0, "left_out": 0}, {"rounds": "x"}]
)
def test_otherwise_nothing_is_said(tmp_path: Path, record: dict[str, Any]) -> None:
    analysis = analyse([run_with(tmp_path, record)])
    assert not any("Slices left out" in one for one in analysis.summary)


def test_what_host_and_quotas_took_is_said_in_the_first_lines(tmp_path: Path) -> None:
    facts = {"cpus_online": 2}
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, cpp=False, environment=facts)
    cells = [one for one in RunReader(run.path).plan.cells if one.placement == "intra"]
    where = [msgspec.structs.asdict(one) for one in cells if one.workload == "tcp-rr"]
    a, b = sorted(where, key=lambda one: one["label"])
    records = [
        {**a, "taken": 4.0, "slices": 0.4, "steal": 0.04, "throttled": 0.0, "others": 0.8},
        {**a, "taken": 4.0, "slices": 0.4, "steal": 0.009, "throttled": 0.02, "others": 0.6},
        {**b, "taken": 2.0, "slices": None, "steal": 0.06, "throttled": 0.01, "others": 0.2},
        {**b, "taken": 2.0, "slices": None, "steal": 0.0, "throttled": 0.0, "others": None},
    ]
    (run.path / "stalls.jsonl").write_bytes(
        b"".join(msgspec.json.encode({"schema": 1, **one}) + b"\n" for one in records)
    )
    analysis = analyse([RunReader(run.path)])
    said = [
        "Steal: the machine's host took 1% or more of the CPU time in 2 of"
        f" {analysis.samples} samples (at most 6%).",
        f"CPU quota: it held back 1% or more of the time in 1 of {analysis.samples} samples (at"
        " most 5%).",
    ]
    assert [one for one in analysis.summary if one in said] == said
    brief = " ".join(BRIEF.render(analysis, 200).split())
    assert all(one in brief for one in said)
    text = " ".join(TEXT.render(analysis).split())
    assert text.count("taken by the host (steal), at most in one sample: a 4%, b 6%") == 1
    assert text.count("held by a CPU quota, at most in one sample: a 5%") == 1
    assert text.count("used by other programs, median share of all CPUs, at least: a 35%") == 1
    assert "a 35%, b" not in text
