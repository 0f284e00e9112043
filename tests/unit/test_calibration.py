"""Calibration from runs of equal profiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnibench.analysis.calibration import calibration
from cnibench.cli.commands.measure.run import command
from cnibench.errors import UsageError
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest
from tests.unit._runs import synthetic
from tests.unit._store import cell, sample


def test_calibration_finds_the_noise_and_few_false_alarms(tmp_path: Path) -> None:
    more = {"blocks": 240, "workloads": ["tcp-rr"], "cpp": False}
    truth = {"x.a": 1.0, "x.b": 1.0}
    quiet = synthetic(tmp_path, truth, noise=0.004, name="quiet", seed=1, **more)
    loud = synthetic(tmp_path, truth, noise=0.03, name="loud", seed=2, **more)
    found = calibration([quiet, loud], 0.02)
    assert [floor.noise for floor in found.floors] == [
        pytest.approx(noise, rel=0.2) for noise in (0.004, 0.004, 0.03, 0.03)
    ]
    assert found.comparisons == 160
    assert found.low <= found.expected <= found.high
    few, many = found.floors[0], found.floors[2]
    assert few.blocks == 6
    assert many.blocks is not None
    assert 30 < many.blocks < 80
    assert all(line.startswith("tcp-rr") for line in found.recommended)
    assert len(found.recommended) == 2
    with pytest.raises(UsageError, match="two labels that must be equal"):
        calibration([synthetic(tmp_path, {"x": 1.0}, name="one", blocks=6)], 0.02)
    none = synthetic(
        tmp_path, {"a": 1.0, "b": 1.0}, name="none", blocks=1, fail=[("a", 0), ("b", 0)]
    )
    assert calibration([none], 0.02).rate is None


def test_a_complete_run_without_its_calibration_gets_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as one that was killed between its last sample and its calibration."""
    cells = [cell("x.a"), cell("x.b")]
    for name, asked in (("killed", 0.03), ("other", 0.0)):
        plan = manifest(cells, blocks=6, calibrates=asked)
        with RunWriter.create(tmp_path / name, plan) as writer:
            for block in range(6):
                for of in cells:
                    writer.finish(of, block, [sample(of, block, 100.0 + block)])
            writer.event("run-finished")
    for name in ("killed", "killed", "other"):
        command.main(["--resume", str(tmp_path / name)], standalone_mode=False)
        said = "to find a difference of 3 %" in capsys.readouterr().out
        assert said == (name == "killed")
    events = [event["event"] for event in RunReader(tmp_path / "killed").events()]
    assert events.count("calibrated") == 1
    stored = json.loads((tmp_path / "killed/calibration.json").read_text())
    assert (stored["resolution"], [floor["n"] for floor in stored["floors"]]) == (0.03, [6])
    assert not (tmp_path / "other/calibration.json").exists()
