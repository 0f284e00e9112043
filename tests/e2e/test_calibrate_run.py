"""``cnibench calibrate`` in the lab, and the plan that uses what it found."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from _commands import finished, run, start, the_run, until

from cnibench.rundir.reader import RunReader

ONE = ("--workload", "tcp-rr", "--placement", "intra")


def test_calibrate_deploys_anew_and_a_plan_uses_what_it_found(tmp_path: Path) -> None:
    done = run("calibrate", "--rounds", "1", *ONE, "--out", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (floor,) = found["floors"]
    spread = floor["spread"]
    assert 2 <= spread["deployments_measured"] <= 6  # those with an undisturbed block
    assert spread["slices_each"] >= 6
    assert all(spread[part] is not None for part in ("deployments", "blocks", "slices"))
    reader = RunReader(Path(found["runs"][0]))
    assert reader.plan.blocks == 12
    installed = [event for event in reader.events() if event["event"] == "profile-installed"]
    assert [event["block"] for event in installed] == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10]
    planned = run(
        "run", "--cni", "flannel,cilium", *ONE, "--no-perf", "--dry-run", "--out", str(tmp_path)
    )
    assert f"(measured by {reader.id}, 0 h old, on " in " ".join(planned.stdout.split())


def test_a_resumed_run_stores_and_prints_the_calibration(tmp_path: Path) -> None:
    given = ("--rounds=1", "--blocks=1", "--resolution=3%", "--duration=200ms")
    process = start("calibrate", *given, *ONE, "--out", str(tmp_path))
    until(lambda: finished(tmp_path) >= 2)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    path = the_run(tmp_path)
    assert not (path / "calibration.json").exists()
    done = run("run", "--resume", str(path), "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["resolution"], said["runs"]) == (0.03, [str(path)])
    assert said["floors"] == json.loads((path / "calibration.json").read_text())["floors"] != []


def test_what_cannot_be_calibrated_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for options, said in (
        (("--method", "windows", "--blocks", "5"), "a comparison in windows needs 6 blocks"),
        (("--rounds", "500"), "--rounds 500 takes 6000 blocks, and a run has at most 1000"),
    ):
        done = run("calibrate", *ONE, *options, "--out", str(tmp_path))
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not any(tmp_path.iterdir())
