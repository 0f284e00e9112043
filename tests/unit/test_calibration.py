"""Calibration from runs of equal profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.analysis.calibration import calibration
from cnibench.errors import UsageError
from tests.unit._runs import synthetic


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
    with pytest.raises(UsageError, match="two labels that must tie"):
        calibration([synthetic(tmp_path, {"x": 1.0}, name="one", blocks=6)], 0.02)
    none = synthetic(
        tmp_path, {"a": 1.0, "b": 1.0}, name="none", blocks=1, fail=[("a", 0), ("b", 0)]
    )
    assert calibration([none], 0.02).rate is None
