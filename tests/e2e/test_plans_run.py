"""``cnibench run --plan`` as typed: a sweep of policies that is interrupted and resumed, and what a
plan says before it starts.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from _commands import PROGRAM, run

from cnibench.rundir.reader import RunReader

LIMIT = 240.0
PLAN = """\
schema: 1
title: a sweep
cni: [bridge-static, veth-baseline]
placement: intra
windows: speed
duration: 300ms
warmup: 0s
blocks: 2
workload:
- {name: tcp-rr, only: 'bridge-*', params: {policy.conntrack: bypassed}, sweep: {policy.entries: [0, 10, 500]}}
- {name: tcp-rr, only: veth-baseline, blocks: 1, sweep: {policy.entries: [7]}}
- {name: pods, blocks: 1, params: {count: 2}}
"""  # noqa: E501


def done(folder: Path) -> int:
    found = (
        [path for path in folder.iterdir() if (path / "plan.json").exists()]
        if folder.exists()
        else []
    )
    return len(RunReader(found[0]).done()) if found else 0


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_sweep_is_interrupted_and_resumed(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    folder = tmp_path / "runs"
    argv = [*PROGRAM, "run", "--plan", "plan.yaml", "--kernel", "host", "--out", str(folder)]
    with subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        end = time.monotonic() + LIMIT
        while done(folder) < 2:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, errors
    assert "9 samples, about" in errors
    (path,) = folder.iterdir()
    before = RunReader(path).done()
    assert 2 <= len(before) < 9

    resumed = run("run", "--resume", str(path), limit=LIMIT)
    assert resumed.returncode == 1, resumed.stderr  # what veth-baseline cannot do
    reader = RunReader(path)
    assert reader.finished
    assert len(reader.done()) == 9
    samples = list(reader.samples())
    assert {(s.label, s.status) for s in samples if s.workload == "tcp-rr"} == {
        ("bridge-static", "ok"),
        ("veth-baseline", "unsupported"),
    }
    assert all("no packet filter" in s.reason for s in samples if s.status == "unsupported")
    assert sum(s.metric == "pod_network" for s in samples) == 2
    # as they are stored: readers leave out those of a sample that a stall of the machine disturbed
    stored = (path / "conditions.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in stored]
    seen = {
        (record["params"]["policy.entries"], found)
        for record in records
        for found in record["found"].values()
    }
    assert seen == {(0, 0), (10, 10), (500, 500)}
    assert len({(record["cell"], record["block"]) for record in records}) == 6


def test_a_plan_says_how_long_it_takes_and_what_scale_gave_up() -> None:
    whole = json.loads(
        run("run", "--plan", "bruijn2017", "--kernel", "host", "--dry-run", "--json").stdout
    )
    small = run(
        "run", "--plan", "bruijn2017", "--scale", "0.05", "--kernel", "host", "--dry-run", "--json"
    )
    assert small.returncode == 0, small.stderr
    shown = json.loads(small.stdout)
    assert len(shown["cells"]) == len(whole["cells"])
    assert shown["seconds"] < whole["seconds"] / 10
    assert any(
        "changes the plan" in note and "windows of 3.0 s instead of 1 min 00 s" in note
        for note in shown["notes"]
    )
    text = run("run", "--plan", "quick", "--kernel", "host", "--dry-run").stdout
    assert "time: about" in text
    refused = run("run", "--plan", "quick", "--scale", "3", "--dry-run")
    assert refused.returncode == 2
    assert "--scale" in refused.stderr
