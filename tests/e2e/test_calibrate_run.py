"""``cnibench calibrate`` in the lab, and the plan that uses what it found."""

from __future__ import annotations

import json
from pathlib import Path

from _commands import run

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


def test_what_cannot_be_calibrated_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for options, said in (
        (("--method", "windows", "--blocks", "5"), "a comparison in windows needs 6 blocks"),
        (("--rounds", "500"), "--rounds 500 takes 6000 blocks, and a run has at most 1000"),
    ):
        done = run("calibrate", *ONE, *options, "--out", str(tmp_path))
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not any(tmp_path.iterdir())
