"""Where the noise of a calibration comes from, and what follows for plans."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

import pytest

from cnibench.analysis import analyse
from cnibench.analysis.calibration import Floor, Part, calibration
from cnibench.cli.measurement.calibration import show
from tests.unit._nested_runs import nested_run
from tests.unit._runs import edited


def floor_of(folder: Path, resolution: float = 0.02, **more: object) -> Floor:
    (floor,) = calibration([nested_run(folder, **more)], resolution).floors  # type: ignore[arg-type]
    return floor


def within(part: Part | None, sd: float) -> bool:
    return part is not None and part.low <= sd <= part.high


def test_deployments_blocks_and_slices_are_told_apart(tmp_path: Path) -> None:
    floor = floor_of(tmp_path, deployments=120, sds=(0.02, 0.01, 0.02))
    spread = floor.spread
    assert (spread.deployments_measured, spread.blocks_measured) == (120, 240)
    assert (spread.slices_each, spread.left_out, spread.notes) == (12, 0, [])
    assert within(spread.deployments, 0.02)
    assert within(spread.blocks, 0.01)
    assert spread.slices is not None
    assert spread.slices.sd == pytest.approx(0.02 / math.sqrt(12), rel=0.1)
    assert spread.one_slice == pytest.approx(0.02, rel=0.1)
    # a block of a run has a deployment of its own
    assert floor.noise == pytest.approx(math.hypot(0.02, 0.01, 0.02 / math.sqrt(12)), rel=0.2)
    assert floor.rounds == 20  # of the first block of each deployment
    assert floor.alarms <= 4


def test_what_to_increase_follows_from_what_is_largest(tmp_path: Path) -> None:
    of_slices = floor_of(tmp_path, name="slices", sds=(0.002, 0.002, 0.08))
    assert of_slices.advice.startswith("increase the slices: --duration ")
    assert f"instead of {of_slices.blocks}" in of_slices.advice
    of_deployments = floor_of(tmp_path, name="deployments", sds=(0.02, 0.002, 0.005))
    assert f"increase the blocks: --blocks {of_deployments.blocks} " in of_deployments.advice
    enough = floor_of(tmp_path, name="quiet", sds=(0.0005, 0.0005, 0.0005))
    assert enough.advice.startswith("6 blocks are enough to find 2 % between two profiles")
    hopeless = floor_of(tmp_path, resolution=1e-5, name="hopeless")
    assert hopeless.advice.startswith("too noisy")


def test_windows_have_no_slices_and_their_blocks_share_a_deployment(tmp_path: Path) -> None:
    floor = floor_of(
        tmp_path, deployments=40, kept=6, method="windows", sds=(0.03, 0.01, 1e-9), seed=2
    )
    assert floor.spread.slices is None
    assert "windows have no slices" in floor.spread.notes[0]
    assert within(floor.spread.deployments, 0.03)
    assert within(floor.spread.blocks, 0.01)
    assert floor.noise == pytest.approx(0.01, rel=0.15)  # what a run of windows shows
    assert floor.rounds == 40
    assert floor.alarms > 20  # one deployment is taken for the profile
    assert "repeat the run, or measure in slices" in floor.advice
    alike = floor_of(
        tmp_path, deployments=20, kept=6, method="windows", sds=(0.0, 0.01, 1e-9), name="alike"
    )
    assert "No spread of deployments was found" in alike.advice


@pytest.mark.parametrize("method", ["slices", "windows"])
def test_one_deployment_and_one_block_each_say_what_they_do_not_tell(
    tmp_path: Path, method: str
) -> None:
    one = floor_of(tmp_path, deployments=1, kept=12, method=method, name="one").spread
    assert one.deployments is None
    assert one.blocks is not None
    assert "one deployment does not show how deployments differ" in one.notes
    single = floor_of(tmp_path, deployments=24, kept=1, method=method, name="single").spread
    assert single.deployments is None
    assert within(single.blocks, math.hypot(0.01, 0.01, 0 if method == "slices" else 0.009))
    assert "one block of each deployment does not tell deployments from blocks" in single.notes
    both = nested_run(tmp_path, deployments=1, kept=1, method=method, name="both")
    assert calibration([both], 0.02).floors == []


def test_one_outlier_changes_neither_the_spread_nor_the_plan(tmp_path: Path) -> None:
    sds = (0.02, 0.01, 0.02)
    clean = floor_of(tmp_path, name="clean", sds=sds)
    spoilt = floor_of(tmp_path, name="spoilt", sds=sds, values={("x.a", 17): 4000.0})
    assert spoilt.spread.left_out == clean.spread.left_out + 1
    assert "1 outlier not used for the spread" in spoilt.spread.notes
    for name in ("deployments", "blocks", "slices"):
        one, other = getattr(clean.spread, name), getattr(spoilt.spread, name)
        assert other.sd == pytest.approx(one.sd, rel=0.1), name
    assert spoilt.noise == pytest.approx(clean.noise, rel=0.05)
    assert clean.blocks is not None
    assert spoilt.blocks == pytest.approx(clean.blocks, abs=2)


def test_many_outliers_are_noise(tmp_path: Path) -> None:
    slow = {("x.a", block): 20_000.0 for block in range(0, 120, 5)}
    floor = floor_of(tmp_path, values=slow)
    assert floor.spread.left_out == 0
    assert floor.spread.blocks is not None
    assert floor.spread.blocks.sd > 0.1


def test_constants_failures_and_what_is_no_number(tmp_path: Path) -> None:
    constant = {(label, block): 4e4 for label in ("x.a", "x.b") for block in range(24)}
    alike = floor_of(tmp_path, deployments=12, values=constant, sds=(0, 0, 0), name="alike")
    nothing = Part(0.0, 0.0, 0.0)
    assert (alike.noise, alike.blocks, alike.alarms) == (0.0, 6, 0)
    assert (alike.spread.deployments, alike.spread.blocks, alike.spread.slices) == (nothing,) * 3
    failed = [("x.a", block) for block in range(0, 24, 3)] + [("x.b", 1)]
    some = floor_of(tmp_path, deployments=12, fail=failed, name="failed")
    assert some.spread.blocks_measured == 24 - 8 - 1
    assert some.spread.deployments_measured == 11
    assert some.spread.deployments is not None
    run = nested_run(tmp_path, deployments=12, name="nan")
    run = edited(run, lambda line: line | ({"value": None} if line["block"] == 4 else {}))
    run = edited(run, lambda line: line | {"half_width": None}, "slices.jsonl")
    (floor,) = calibration([run], 0.02).floors
    assert floor.spread.blocks_measured == 23
    assert floor.spread.slices is None
    assert math.isfinite(floor.noise)


def test_a_deployment_that_a_resumed_run_made_anew_is_another(tmp_path: Path) -> None:
    """Its blocks differ like those of two deployments, although the plan kept one for both."""
    run = nested_run(tmp_path, deployments=20, kept=2)
    events = (run.path / "events.jsonl").read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(events) if '"block":5' in line and "cell-fin" in line)
    installed = next(line for line in events if "profile-installed" in line)
    (run.path / "events.jsonl").write_text("".join([*events[:at], installed, *events[at:]]))
    (floor,) = calibration([type(run)(run.path)], 0.02).floors
    assert floor.spread.deployments_measured == 21


def test_text_and_json_have_the_spread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = calibration([nested_run(tmp_path, deployments=12)], 0.02)
    show(found)
    told = capsys.readouterr().out
    (floor,) = found.floors
    part = floor.spread.blocks
    assert part is not None
    assert f"{part.sd:.2%} [{part.low:.2%}, {part.high:.2%}]" in told
    assert "12 / 24 / 12" in told
    assert floor.advice in told
    stored = asdict(found)["floors"][0]
    assert stored["spread"]["deployments"].keys() == {"sd", "low", "high"}
    assert stored["advice"] == floor.advice


def test_the_report_of_such_a_run_says_that_its_blocks_are_not_independent(tmp_path: Path) -> None:
    said = "each deployment was measured for 2 blocks, which are not independent"
    assert any(said in note for note in analyse([nested_run(tmp_path, deployments=6)]).notes)
    single = nested_run(tmp_path, deployments=6, kept=1, name="single")
    assert not any("not independent" in note for note in analyse([single]).notes)
