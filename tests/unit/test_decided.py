"""Which pairs of a run are decided, what the others need, and when a run ends by it."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cnibench.analysis import analyse
from cnibench.analysis.calibration import calibration, scatter
from cnibench.analysis.comparison.decided import decided
from cnibench.analysis.comparison.levels import planned_looks
from cnibench.analysis.comparison.neighbours import ASSUMED, independence
from cnibench.analysis.comparison.one_deployment import NOTE as ONE_DEPLOYMENT
from cnibench.analysis.comparison.outcome import needed
from cnibench.analysis.text.decision import lines, settled
from cnibench.analysis.text.narrative import primary_places
from cnibench.cli.measurement.execute import _all_decided
from cnibench.planning.plan import build_plan
from cnibench.reports.brief import BriefReport
from cnibench.reports.markdown import MarkdownReport
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.stats.inference import Array
from cnibench.testbed.cluster import Options
from tests.unit._local_cluster import Local, cell, manifest, measured, runner
from tests.unit._runs import edited, synthetic


def a_run(folder: Path, truth: dict[str, float], **more: Any) -> RunReader:
    given = {"blocks": 8, "until_decided": True, "noise": 0.002, "seed": 2, **more}
    return synthetic(
        folder,
        truth,
        workloads=("tcp-rr",),
        placements=("intra",),
        cpp=False,
        main={"tcp-rr": "transaction_rate"},
        **given,
    )


def test_a_run_ends_at_the_look_at_which_every_pair_is_decided(tmp_path: Path) -> None:
    run = a_run(tmp_path, {"a": 1.0, "b": 1.2, "c": 1.5})
    looks = planned_looks(run.plan)
    assert looks == (6, 8)
    assert [_all_decided(run.path, looks[:-1], blocks) for blocks in range(1, 9)] == [
        *[""] * 5,
        "every pair is decided after 6 blocks",
        "",
        "",
    ]
    open_ = a_run(tmp_path, {"a": 1.0, "b": 1.2, "c": 1.21}, noise=0.1, name="open")
    assert _all_decided(open_.path, looks[:-1], 6) == ""


def test_what_a_model_says_of_too_few_blocks_ends_no_run(tmp_path: Path) -> None:
    """A failed block leaves 5 of 6 to two of the pairs: no exact test decides at that look."""
    run = a_run(tmp_path, {"a": 1.0, "b": 1.2, "c": 1.5}, fail=[("a", 2)])
    found = decided(run, 6)
    assert [pair.basis for pair in found.undecided].count("additive model") == 2
    assert (len(found.undecided), found.different, found.reason) == (3, [], "")
    assert lines(found)[1] == (
        "Of the undecided pairs, 2 are significantly different by the model of few repeats; what"
        " ends a run assumes no model."
    )


def test_a_report_has_one_level_whichever_look_ended_the_run(tmp_path: Path) -> None:
    """What the looks cost is in the p values."""
    truth = {"a": 1.0, "b": 1.2, "c": 1.5}
    for blocks in (6, 7, 8):
        run = a_run(tmp_path, truth, blocks=blocks, name=f"of{blocks}")
        plan = run.path / "plan.json"
        plan.write_text(plan.read_text().replace(f'"blocks":{blocks}', '"blocks":8', 1))
        analysis = analyse([RunReader(run.path)])
        assert analysis.level == 0.05
        rate = [pair for pair in analysis.pairs if pair.metric == "transaction_rate"]
        assert {pair.verdict for pair in rate} == {"b-better"}
        # a look after 6 blocks leaves 1 % to the last one
        least = {6: 2 / 2**6 + 0.01, 7: 2 / 2**6, 8: 2 / 2**6}[blocks]
        assert [pair.p_holm for pair in rate] == pytest.approx([least] * 3)
    fixed = a_run(tmp_path, truth, until_decided=False, name="fixed")
    assert analyse([fixed]).level == 0.05


@pytest.mark.parametrize("seed", range(4))
def test_an_interval_agrees_with_the_verdict_at_every_look(tmp_path: Path, seed: int) -> None:
    truth = {"a": 1.0, "b": 1.02, "c": 1.05, "d": 1.2}
    run = a_run(tmp_path, truth, noise=0.02, blocks=14, seed=seed, fail=[("b", seed)])
    for blocks in (6, 8, 9, 10, 14):
        found = decided(run, blocks)
        for pair in (*found.different, *found.equal, *found.undecided):
            if pair.basis == "joint test" and pair.ci_low and pair.ci_high:
                outside = pair.ci_low > 1 or pair.ci_high < 1
                assert outside == (pair in found.different)
                assert pair.ci_low <= (pair.ratio or 0) <= pair.ci_high


def test_the_last_lines_say_what_is_decided_and_what_the_rest_needs(tmp_path: Path) -> None:
    truth = {"a": 1.0, "b": 1.0, "c": 1.5}
    found = decided(a_run(tmp_path, truth))
    assert (len(found.different), len(found.equal), found.undecided) == (2, 1, [])
    assert lines(found) == [
        "Decided after 8 blocks: 3 of 3 pairs (2 significantly different, 1 equal within 5 %)."
    ]
    noisy = decided(a_run(tmp_path, truth, noise=0.06, name="noisy", seed=3))
    (pair,) = noisy.undecided
    assert (pair.a, pair.b) == ("a", "b")
    more = needed(noisy, pair) - 8
    assert more > 0
    said = lines(noisy)
    assert said[0].startswith("Decided after 8 blocks: 2 of 3 pairs (2 significantly different")
    assert f"Undecided: a / b, tcp-rr on one node: needs about {more} more blocks." in said
    assert f"--blocks {8 + more} would decide each of them" in said[-1]
    analysis = analyse([RunReader(tmp_path / "noisy")])
    pairs = [pair for place in primary_places(analysis) for pair in place.pairs]
    assert lines(settled(analysis, pairs)) == said, "the report says what the run decided"
    many = a_run(tmp_path, {"a": 1.0, "b": 1.0}, noise=0.06, blocks=3, name="few")
    assert lines(decided(many))[0].startswith("Decided after 3 blocks: 0 of 1 pair (")
    assert lines(decided(a_run(tmp_path, {"a": 1.0}, name="one"))) == []


def test_what_so_few_blocks_cannot_show_stands_after_the_verdicts(tmp_path: Path) -> None:
    truth = {"a": 1.0, "b": 1.0, "c": 1.5}
    few = analyse([a_run(tmp_path, truth, seed=3)])
    place = few.summary.index(ASSUMED)
    assert few.summary[place - 1].startswith("Certainty: ")
    for report in (BriefReport(), MarkdownReport()):
        said = " ".join(report.render(few).split())
        assert said.count(ASSUMED) == 1, report.name
        assert said.index("Certainty: ") < said.index(ASSUMED), report.name
    for name, more in (
        ("long", {"blocks": 75}),
        ("open", {"blocks": 3, "noise": 0.5}),  # nothing is decided
        ("one", {"blocks": 1}),
    ):
        assert not analyse([a_run(tmp_path, truth, name=name, **more)]).independence
    two = [a_run(tmp_path, truth, name=f"of-two-{seed}", seed=seed) for seed in (3, 4)]
    assert not analyse(two).independence


def _cell(values: Array) -> Any:
    """A comparison of profiles a and b with these logs (profiles x blocks)."""
    members = {
        name: SimpleNamespace(values={(0, i): math.exp(x) for i, x in enumerate(row)})
        for name, row in zip("ab", values, strict=True)
    }
    return SimpleNamespace(paired=True, members=members)


def test_values_that_the_test_of_dependence_does_not_read_show_none() -> None:
    rng = np.random.default_rng(4)
    cells = [0.01 * rng.standard_normal((2, 22)) for _ in range(8)]
    assert not independence([_cell(one) for one in cells], known=True)
    read = next(one for one in cells if independence([_cell(one)], known=True) == ASSUMED)
    failed = [one if one is read else one[:, :21] for one in cells]  # one block, in seven cells
    assert independence([_cell(one) for one in failed], known=True) == ASSUMED


def test_comparisons_that_share_their_noise_are_as_few_as_their_noise() -> None:
    """Eight comparisons of the same noise show no more than one does."""
    rng = np.random.default_rng(4)

    def silent(share: float) -> float:
        found = []
        for _ in range(60):
            noise = share * rng.standard_normal((2, 22)) + 0.01 * rng.standard_normal((8, 2, 22))
            found.append(not independence([_cell(one) for one in noise], known=True))
        return float(np.mean(found))

    assert silent(0.0) >= 0.8
    assert silent(0.1) <= 0.6


def test_a_report_says_that_windows_stand_on_one_deployment(tmp_path: Path) -> None:
    """Where a verdict rests on their blocks; slices, clusters and calibrations deploy anew."""
    truth = {"a": 1.0, "b": 1.5}
    assert analyse([a_run(tmp_path, truth)]).notes.count(ONE_DEPLOYMENT) == 1
    for name, more in (
        ("cluster", {"cluster": "kind"}),
        ("anew", {"deployment_blocks": 6}),
        ("few", {"blocks": 1}),
    ):
        assert ONE_DEPLOYMENT not in analyse([a_run(tmp_path, truth, name=name, **more)]).notes
    slices = edited(a_run(tmp_path, truth, name="slices"), lambda line: line | {"method": "slices"})
    assert ONE_DEPLOYMENT not in analyse([slices]).notes


def test_a_finer_resolution_leaves_a_pair_undecided(tmp_path: Path) -> None:
    truth = {"a": 1.0, "b": 1.0}
    for resolution, equal in ((0.05, 1), (0.0005, 0)):
        run = a_run(tmp_path, truth, resolution=resolution, name=f"at{resolution}")
        assert len(decided(run).equal) == equal
        (pair,) = (p for p in analyse([run]).pairs if p.metric == "transaction_rate")
        assert pair.within == (pytest.approx(resolution) if equal else None)


def test_blocks_that_depend_on_each_other_are_said_and_end_no_run(tmp_path: Path) -> None:
    def wave(line: dict[str, Any]) -> dict[str, Any]:
        factor = 1.02 if line["label"] == "a" and line["block"] < 6 else 1.0
        return line | {"value": line["value"] * factor}

    truth = {"a": 1.0, "b": 1.2, "c": 1.5}
    run = edited(a_run(tmp_path, truth, blocks=12, noise=0.003), wave)
    found = decided(run, 6)
    assert (len(found.different), found.undecided) == (3, [])
    assert decided(run).dependence.startswith("Neighbouring blocks seem to depend on each other")
    assert decided(run).reason == ""
    found = analyse([run])
    assert found.independence == decided(run).dependence
    assert found.independence in found.summary
    assert found.independence in " ".join(BriefReport().render(found).split())


def test_only_a_planned_number_of_blocks_ends_early() -> None:
    works = [{"name": "tcp-rr", "blocks": 9}, "tcp-stream"]
    assert build_plan({}).until_decided
    assert not build_plan({"blocks": 12}).until_decided
    assert not build_plan({"target_ci": 0.02}).until_decided
    assert not build_plan({"workload": works}).until_decided
    assert build_plan({"budget": "2m"}).budget == 120.0


def test_a_run_starts_no_block_that_its_budget_has_no_time_for(folder: Path) -> None:
    plan = manifest([cell("a")], 50, budget=1.5)
    with RunWriter.create(folder, plan) as writer:
        assert runner(writer, Local(Options())).run() == 0
    blocks = [block for _, block in measured(folder)]
    assert 1 <= len(blocks) < 20
    (stopped,) = (event for event in RunReader(folder).events() if event["event"] == "stopped")
    assert stopped["reason"].startswith("the budget of ")
    assert RunReader(folder).finished


def test_one_outlier_hardly_changes_what_is_planned(tmp_path: Path) -> None:
    """A calibration in which one sample of 60 was ten times too slow."""

    def slow(line: dict[str, Any]) -> dict[str, Any]:
        spoilt = line["label"] == "a" and line["block"] == 17
        return line | {"value": line["value"] / (10 if spoilt else 1)}

    run = a_run(tmp_path, {"a": 1.0, "b": 1.0}, noise=0.02, blocks=60, until_decided=False)
    (clean,) = scatter(run)
    spoilt = edited(run, slow)
    (found,) = scatter(spoilt)
    assert found["noise"] == pytest.approx(clean["noise"], rel=0.1)
    (floor,) = calibration([spoilt], 0.05).floors
    assert floor.noise == pytest.approx(found["noise"])
    (pair,) = (one for one in analyse([spoilt]).pairs if one.metric == "transaction_rate")
    assert pair.spread is not None
    assert pair.detectable is not None
    assert pair.spread > 0.2
    assert pair.detectable < 0.02
