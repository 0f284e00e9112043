"""A real run that is interrupted, killed and resumed verifies, and what is done to it afterwards is
named.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from _commands import LIMIT, SHORT, finished, run, start, the_run, until

from cnibench.rundir.reader import RunReader


def test_an_interrupted_run_is_resumed_and_verifies(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first = start("run", "--cni", "veth-baseline", "--blocks", "3", "--out", str(runs), *SHORT)
    until(lambda: finished(runs) >= 2)
    first.kill()
    first.communicate(timeout=LIMIT)
    path = the_run(runs)
    kept = (path / "samples.jsonl").read_bytes()
    told = run("verify", str(path))
    assert told.returncode == 0, told.stdout
    assert "not finished" in told.stdout
    (path / "notes.jsonl").write_text("mine\n")
    environment = (path / "env.json").read_bytes()

    events = (path / "events.jsonl").read_bytes()
    (path / "events.jsonl").unlink()
    refused = run("run", "--resume", str(path))
    assert refused.returncode == 2
    assert "events.jsonl is missing" in refused.stderr
    assert (path / "samples.jsonl").read_bytes() == kept
    (path / "events.jsonl").write_bytes(events)

    done = run("run", "--resume", str(path))
    assert done.returncode == 0, done.stderr
    everything = (path / "samples.jsonl").read_bytes() + b"".join(
        file.read_bytes() for file in path.glob("samples.jsonl.orphan-*")
    )
    assert all(line in everything for line in kept.splitlines(keepends=True))
    assert (path / "notes.jsonl").read_text() == "mine\n"
    assert (path / "env.json").read_bytes() == environment
    assert (path / "env-2.json").exists()
    told = run("verify", str(path), "--json")
    assert told.returncode == 0, told.stdout
    found = json.loads(told.stdout)
    assert (found["samples"], found["problems"], bool(found["finished"])) == (6, [], True)
    log = (path / "run.log").read_text()
    assert log.count("event run-created") == 1  # of the first session
    assert log.count("event run-resumed") == 1
    assert log.count(" netperf -4 ") >= 6
    (path / "run.log").unlink()
    assert run("verify", str(path)).returncode == 0

    raw = next(
        file for file in sorted((path / "raw").rglob("*")) if file.is_file() and file.stat().st_size
    )
    raw.write_bytes(raw.read_bytes() + b" ")
    told = run("verify", str(path))
    assert told.returncode == 1
    assert raw.name in told.stdout
    assert "changed" in told.stdout


def test_failed_samples_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = os.environ["PATH"]
    runs = tmp_path / "runs"
    first = start(
        "run",
        "--cni",
        "veth-baseline",
        "--placement",
        "intra",
        "--blocks",
        "2",
        "--out",
        str(runs),
        *SHORT,
    )
    until(lambda: finished(runs) >= 1)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=LIMIT)
    path = the_run(runs)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "netperf").write_text(
        "#!/bin/sh\nexit 7\n"
    )  # the client fails: a real failure of a real sample
    (bin_ / "netperf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{old}")
    failed = run("run", "--resume", str(path))
    monkeypatch.setenv("PATH", old)
    assert failed.returncode == 1, failed.stderr
    assert [item.status for item in RunReader(path).samples()].count("failed") == 1
    before = (path / "samples.jsonl").read_bytes()
    assert run("run", "--resume", str(path)).returncode == 1  # complete, as it is
    done = run("run", "--resume", str(path), "--retry-failed")
    assert done.returncode == 0, done.stderr
    assert "1 sample measured again" in (path / "report.md").read_text()
    reader = RunReader(path)
    assert {item.status for item in reader.samples()} == {"ok"}
    assert (path / "samples.jsonl").read_bytes().startswith(before)
    assert run("verify", str(path)).returncode == 0
    assert "nothing is missing" in run("run", "--resume", str(path), "--retry-failed").stderr
