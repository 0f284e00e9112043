"""The report on one screen, with which a run ends."""

from __future__ import annotations

import re
from pathlib import Path

from cnibench.analysis import analyse
from cnibench.reports.brief import PROVIDER as BRIEF
from tests.unit._call import call
from tests.unit._runs import synthetic


def brief(folder: Path, truth: dict[str, float], width: int = 200, **run: object) -> list[str]:
    analysis = analyse([synthetic(folder, truth, **run)])  # type: ignore[arg-type]
    return BRIEF.render(analysis, width).splitlines()


def test_each_place_has_the_best_and_how_much_the_others_differ(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"fast": 1.0, "slow": 0.8}, noise=0.002)
    (place,) = [line for line in lines if line.startswith("tcp-rr between nodes: ")]
    best, other = place.partition(": ")[2].split("; ")
    assert best.startswith("fast ")
    assert best.endswith(" k/s")
    low, to, high = other.removeprefix("slow ").partition(" to ")
    assert to
    assert -21.0 < float(low.removesuffix(" %")) <= float(high.removesuffix(" %")) < -19.0


def test_what_few_blocks_leave_open_is_inconclusive(tmp_path: Path) -> None:
    """The certainty counts it so, too: no difference was looked for with any use."""
    lines = brief(tmp_path, {"one": 1.0, "other": 1.0}, blocks=3, noise=0.02)
    assert "of 4 pairs, 0 were significantly different, 0 not, 4 inconclusive" in " ".join(lines)
    places = [line for line in lines if line.startswith("tcp-")]
    assert len(places) == 4
    for line in places:
        assert "inconclusive" in line
        assert "no significant difference" not in line


def test_equal_profiles_are_not_ranked_by_a_figure(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"a": 1.0, "b": 1.0}, noise=0.02, seed=3)
    assert any("no significant difference" in line for line in lines)
    assert not any(" %" in line and line.startswith("tcp-rr") for line in lines)


def test_too_few_blocks_give_medians_and_what_is_needed(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"a": 1.0, "b": 0.5}, blocks=1)
    (place,) = [line for line in lines if line.startswith("tcp-rr on one node: ")]
    assert place.endswith("; inconclusive (1 block, needs 6)")
    assert "; b " in place


def test_few_blocks_are_compared_by_a_model_that_is_named(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"a": 1.0, "b": 0.5}, blocks=3)
    (place,) = [line for line in lines if line.startswith("tcp-rr on one node: ")]
    assert re.search(r"; b -5\d\.\d % to -4\d\.\d %; assuming normal noise \(3 blocks\)$", place)


def test_one_block_is_no_plural(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.5}, blocks=1)
    said = " ".join(BRIEF.render(analyse([run]), 200).split())
    assert "inconclusive (1 block, needs 6)" in said
    assert "(1 paired block; exact" in said
    report = call(["report", str(run.path)]).stdout
    assert "1 block is too few to compare" in " ".join(report.split())
    assert "1 blocks" not in report + said


def test_why_names_the_component_that_differs_most(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"fast": 1.0, "slow": 0.8}, noise=0.002)
    (why,) = [line for line in lines if line.startswith("Why, ")]
    assert "slow takes " in why
    assert "cycles per packet, fast " in why
    assert "contributes most (+" in why
    assert any(line.startswith("cycles: estimated") for line in lines)


def test_no_reason_is_given_where_nothing_differs(tmp_path: Path) -> None:
    assert not any(
        line.startswith("Why") for line in brief(tmp_path, {"a": 1.0, "b": 1.0}, noise=0.02, seed=3)
    )


def test_failures_are_said(tmp_path: Path) -> None:
    lines = brief(
        tmp_path, {"a": 1.0, "b": 0.5, "c": 0.4}, blocks=8, fail=[("c", n) for n in range(8)]
    )
    (failed,) = [line for line in lines if line.startswith("Failed: ")]
    assert " samples of c, first: the server is gone" in failed


def test_three_profiles_and_four_places_take_one_screen(tmp_path: Path) -> None:
    truth = {"flannel": 0.8, "calico-wp-xsub": 0.9, "cilium": 1.0}
    lines = brief(tmp_path, truth, 80, noise=0.01)
    assert max(map(len, lines)) <= 80
    # These runs are from before files were chained, which a note of two lines says.
    assert len(lines) <= 24 + 2, "a terminal's screen"
    assert len([line for line in lines if not line.startswith("  ")]) <= 11


def test_full_belongs_to_text(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0})
    done = call(["report", str(run.path), "--full", "--format", "md"])
    assert done.exit_code == 2
    assert "--full does not apply to md" in done.stderr
    full = call(["report", str(run.path), "--full"]).stdout
    assert len(full) > len(call(["report", str(run.path)]).stdout)
