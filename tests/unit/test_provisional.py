"""The ranking that is shown while a run measures."""

from __future__ import annotations

import io
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cnibench.analysis import analyse
from cnibench.analysis.provisional import Logs, SoFar
from cnibench.analysis.text.narrative import primary_places
from cnibench.analysis.text.provisional import lines, title
from cnibench.cli.measurement.ranking import Shown
from cnibench.model.cell import Cell
from cnibench.reports.brief import PROVIDER as BRIEF
from cnibench.run.progress import Lines, Silent, Terminal
from cnibench.rundir.schema import Manifest
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest, transactions
from tests.unit._brief import rows
from tests.unit._runs import synthetic

TRUTH = {"fast": 1.0, "slow": 0.8, "slower": 0.7}
MAIN = {"tcp-rr": "transaction_rate", "tcp-stream": "throughput"}


def cells() -> list[Cell]:
    return [transactions(label, method="slices") for label in TRUTH]


def plan(**more: object) -> Manifest:
    return manifest(cells(), main=MAIN, **more)


def logs(number: int, seed: int, noise: float = 0.01, **factors: float) -> Logs:
    """Rounds of a machine that drifts, which each round's cells share."""
    dice = random.Random(seed)
    drift = [dice.gauss(0.0, 0.3) for _ in range(number)]
    return {
        cell.id: {
            r: math.log(1e4 * factors.get(cell.label, TRUTH[cell.label]))
            + drift[r]
            + dice.gauss(0, noise)
            for r in range(number)
        }
        for cell in cells()
    }


def test_rounds_give_intervals_before_the_first_block_is_over() -> None:
    so_far = SoFar(plan())
    so_far.rounds(0, logs(7, 1))
    assert so_far.rankings() == []
    so_far.rounds(0, logs(25, 1))
    (ranking,) = so_far.rankings()
    assert ranking.place == "tcp-rr on one node"
    assert not ranking.of_blocks
    best, *others = ranking.standings
    assert (best.label, best.low, best.high) == ("fast", None, None)
    for one in others:
        assert one.low is not None
        assert one.high is not None
        assert one.low < TRUTH[one.label] < one.high
        assert one.high / one.low < 1.02  # the machine's drift is not in it
    assert title([ranking], 0, 12, 0.05) == (
        "provisional, 0 of 12 blocks finished, 95 % intervals within blocks"
    )
    (line,) = lines([ranking])
    assert re.fullmatch(
        r"tcp-rr on one node: fast [\d.]+ k/s; slow -2\d\.\d to -\d+\.\d %; slower .* %", line
    )


def in_turn(paths: Sequence[str]) -> SoFar:
    """Two profiles whose truth is 1.0 and 0.8 of a host network that was half as fast for one."""
    both = [
        transactions(label, method="slices", path=path)
        for label in ("fast", "slow")
        for path in paths
    ]
    so_far = SoFar(manifest(both, main=MAIN), in_turn=True)
    dice = random.Random(3)
    rounds = {}
    for cell in both:
        level = {"fast": 0.5, "slow": 1.0}[cell.label] * 1e4
        rate = level * (1.0 if cell.path == "host" else TRUTH[cell.label])
        rounds[cell.id] = {r: math.log(rate) + dice.gauss(0, 0.01) for r in range(50)}
    so_far.rounds(0, rounds)
    return so_far


def test_profiles_in_turn_are_ranked_by_their_ratio_to_the_host_network() -> None:
    (ranking,) = in_turn(["pod", "host"]).rankings()  # the host network is no contender
    best, other = ranking.standings
    assert best.label == "fast", "its figure is the lower one"
    assert other.low is not None
    assert other.high is not None
    assert other.low < TRUTH["slow"] < other.high


def test_profiles_in_turn_have_no_interval_without_the_host_network() -> None:
    (ranking,) = in_turn(["pod"]).rankings()
    assert [one.low for one in ranking.standings] == [None, None]


def test_the_host_network_is_a_place_where_profiles_do_not_stand_in_turn() -> None:
    both = [
        transactions(label, method="slices", path=p) for label in TRUTH for p in ("pod", "host")
    ]
    so_far = SoFar(manifest(both, main=MAIN))
    so_far.rounds(0, {cell.id: {r: math.log(1e4 + r) for r in range(25)} for cell in both})
    assert len(so_far.rankings()) == 2


def test_the_interval_of_rounds_covers_the_truth_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(300):
        so_far = SoFar(plan())
        so_far.rounds(0, logs(25, seed))
        slow = so_far.rankings()[0].standings[1]
        assert slow.low is not None
        assert slow.high is not None
        covered += slow.low <= TRUTH["slow"] <= slow.high
    assert 0.92 <= covered / 300 <= 0.98


def test_finished_blocks_widen_the_interval_of_the_rounds(tmp_path: Path) -> None:
    """Deployments that differ by far more than rounds do."""
    run = synthetic(
        tmp_path,
        TRUTH,
        blocks=3,
        noise=0.2,
        workloads=["tcp-rr"],
        placements=["intra"],
        cpp=False,
        main=MAIN,
    )
    so_far = SoFar(run.plan)
    so_far.read(run)
    (alone,) = so_far.rankings()
    assert [one.low for one in alone.standings] == [None] * 3, "three blocks give no interval"
    ids = {cell.label: cell.id for cell in run.plan.cells}
    names = {cell.id: cell.label for cell in cells()}
    for block in range(3):
        found = logs(25, block)
        so_far.rounds(block, {ids[names[cell]]: its for cell, its in found.items()})
    (ranking,) = so_far.rankings()
    settled = replace(ranking, of_blocks=True)
    assert title([settled, ranking], 3, 9, 0.05).endswith("intervals within or between blocks")
    best, *others = ranking.standings
    values = {
        (one.label, one.block): one.value for one in run.samples() if one.metric == MAIN["tcp-rr"]
    }
    for one in others:
        assert one.low is not None
        assert one.high is not None
        for block in range(3):
            value, top = values[one.label, block], values[best.label, block]
            assert value is not None
            assert top is not None
            assert one.low <= value / top * (1 + 1e-9)
            assert one.high >= value / top * (1 - 1e-9)


@pytest.mark.parametrize("blocks", [6, 12])
def test_with_enough_blocks_it_is_the_final_answer(tmp_path: Path, blocks: int) -> None:
    run = synthetic(tmp_path, TRUTH, blocks=blocks, noise=0.003, fail=[("slower", 1)], main=MAIN)
    so_far = SoFar(run.plan)
    so_far.read(run)
    analysis = analyse([run])
    final = {place.name: place for place in primary_places(analysis)}
    assert [one.place for one in so_far.rankings()] == list(final)
    assert len(final) == 4
    for ranking in so_far.rankings():
        assert ranking.of_blocks is (blocks == 12), "slower has five of the six"
        place = final[ranking.place]
        best, *others = ranking.standings
        assert [one.label for one in ranking.standings] == [one.label for one in place.results]
        for one in others:
            (pair,) = [pair for pair in place.pairs if {pair.a, pair.b} == {best.label, one.label}]
            if blocks == 6:  # too few for three pairs: the final answer is that of a model
                assert pair.basis == "additive model"
                assert (one.low is None) == (one.label == "slower")
            else:
                assert pair.a == best.label
                assert one.low == pytest.approx(1 / pair.ci_high)
                assert one.high == pytest.approx(1 / pair.ci_low)
    if blocks == 12:
        answer = rows(BRIEF.render(analysis, 1000).splitlines())
        for line in lines(so_far.rankings()):
            place, _, said = line.partition(": ")
            assert dict(one.split(" ", 1) for one in said.split("; ")) == {
                label: words.removeprefix("best ") for label, words in answer[place].items()
            }


def test_disturbed_samples_do_not_count(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.5}, blocks=6, noise=0.001, main=MAIN)
    so_far = SoFar(run.plan)
    so_far.read(run)
    before = lines(so_far.rankings())
    text = (run.path / "samples.jsonl").read_text().splitlines(keepends=True)
    spoilt = [
        re.sub(r'"value":[\d.e+]+', '"value":1.0', line).replace(
            '"disturbed":""', '"disturbed":"it stood still"'
        )
        if '"block":2,' in line and '"label":"b"' in line
        else line
        for line in text
    ]
    assert spoilt != text
    (run.path / "samples.jsonl").write_text("".join(spoilt))
    again = SoFar(run.plan)
    again.read(type(run)(run.path))
    assert [line.partition(";")[0] for line in lines(again.rankings())] == [
        line.partition(";")[0] for line in before
    ]
    assert all("-99" not in line for line in lines(again.rankings()))


class Told(Silent):
    pace = 0.0

    def __init__(self) -> None:
        self.said: list[str] = []
        self.lines: Sequence[str] = ()

    def ranking(self, title: str, lines: Sequence[str]) -> None:
        self.said.append(title)
        self.lines = lines


def test_it_keeps_the_pace_and_its_part_of_the_time(tmp_path: Path) -> None:
    told = Told()
    with RunWriter.create(tmp_path / "run", plan(blocks=9)) as writer:
        writer.event("block-finished", block=0)
        writer.event("block-finished", block=1)
    shown = Shown(tmp_path / "run", plan(blocks=9), told)
    assert shown.due()
    shown.rounds(0, logs(25, 1), {})
    assert told.said == ["provisional, 2 of 9 blocks finished, 95 % intervals within blocks"]
    assert not shown.due(), "what it took is to be a hundredth of the time"
    shown.rounds(0, logs(25, 2), {})
    assert len(told.said) == 1
    slow = Shown(tmp_path / "run", plan(), Silent())
    slow.rounds(0, logs(25, 1), {})
    assert not slow.due()


def test_cpu_time_is_a_line_of_the_ranking(tmp_path: Path) -> None:
    told = Told()
    with RunWriter.create(tmp_path / "run", plan()):
        shown = Shown(tmp_path / "run", plan(), told)
    costs = {cell: {r: -log for r, log in its.items()} for cell, its in logs(25, 2).items()}
    shown.rounds(0, logs(25, 1), costs)
    *_, last = told.lines
    found = re.fullmatch(
        r"CPU time above the least: fast least; slow \+(.*) to \+(.*) %; slower \+.* %", last
    )
    assert found
    assert float(found[1]) < 25.0 < float(found[2])


def test_the_ranking_is_shown_again_while_nothing_new_is_known(tmp_path: Path) -> None:
    """During rounds with perf and cross-checks."""
    told = Told()
    with RunWriter.create(tmp_path / "run", plan()):
        shown = Shown(tmp_path / "run", plan(), told)
    shown.rounds(0, logs(25, 1), {})
    shown.meanwhile()
    assert len(told.said) == 1, "not sooner than it is due"
    shown._next_show = 0.0
    shown.meanwhile()
    assert len(told.said) == 2


def test_a_line_has_all_places(capsys: pytest.CaptureFixture[str]) -> None:
    Lines().ranking("provisional", ["one: a 1; b -2 %", "two: \x1b[2Jb 3"])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "provisional: one: a 1; b -2 % | two: \\u001b[2Jb 3\n"


def test_a_terminal_shows_the_last_ranking_above_the_bar_in_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setattr(out, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    progress = Terminal(colour=False)
    long = "tcp-rr between nodes: " + "; ".join(f"profile-{n} -12.1 to -9.8 %" for n in range(5))
    progress.begin(2, 1.0)
    progress.cell(transactions("a" * 100), 0, 2)
    progress.ranking("provisional, 0 of 2 blocks finished", ["old", long])
    progress.ranking("provisional, 1 of 2 blocks finished", [long])
    progress.end()
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", out.getvalue())
    assert "provisional, 1 of 2 blocks finished" in text
    assert "profile-4 -12.1 to -9.8 %" in " ".join(text.split())
    assert " 0/2 1.0 s left" in text, "a long name takes no room from the figures"
    assert max(len(line) for line in re.split(r"[\r\n]", text)) <= 80
    assert out.getvalue().rstrip().endswith("\x1b[2K"), "nothing provisional stays"
