"""The gate with a history: evidence adds up, no number of looks lets more pass, and a history that
contradicts itself or the command is refused with both values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from cnibench.analysis.gate import history
from cnibench.analysis.gate.noninferiority import LEVEL, by_runs, homogeneity, margin
from cnibench.errors import InputError
from cnibench.rundir.reader import RunReader
from cnibench.stats.spending import level_of_look, spent
from tests.unit._call import Outcome, call, unwrapped
from tests.unit._runs import edited, synthetic

ONE_CELL: dict[str, Any] = {"workloads": ("tcp-rr",), "placements": ("intra",), "cpp": False}


def _run(folder: Path, seed: int, candidate: float = 1.0, **more: Any) -> RunReader:
    options = {"noise": 0.03, "blocks": 12, **ONE_CELL, **more}
    truth = {"base": 1.0, "cand": candidate}
    return synthetic(folder, truth, name=f"run{seed}", seed=seed, **options)


def _look(run: RunReader, file: Path, *more: str) -> Outcome:
    sides = [f"{run.path}:base", f"{run.path}:cand"]
    return call(["compare", *sides, "--history", str(file), *more])


def _document(done: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_levels_of_all_looks_add_up_to_the_level() -> None:
    assert [level_of_look(look, 0.06) for look in (1, 2, 3)] == pytest.approx([0.03, 0.01, 0.005])
    for looks in (1, 2, 365):
        total = sum(level_of_look(look, LEVEL) for look in range(1, looks + 1))
        assert spent(looks, LEVEL) == pytest.approx(total)
        assert total < LEVEL


def test_looks_add_up_until_they_decide(tmp_path: Path) -> None:
    file = tmp_path / "gate.jsonl"
    first = _look(_run(tmp_path, 21, noise=0.07), file, "--json")
    assert first.exit_code == 5
    (cell,) = _document(first)["cells"]
    assert cell["n"] == 12
    assert "97.5 % interval" in cell["reason"]
    assert _document(first)["history"]["earlier"] == []
    outcomes = [_look(_run(tmp_path, seed, noise=0.07), file).exit_code for seed in (22, 23)]
    assert outcomes == [5, 5]
    done = _look(_run(tmp_path, 24, noise=0.07), file, "--json")
    told = _document(done)
    assert done.exit_code == 0
    assert (told["cells"][0]["n"], told["how"]) == (48, "block by block within 4 runs")
    assert told["history"]["level"] == pytest.approx(LEVEL / 20)
    assert (told["history"]["look"], told["history"]["runs"]) == (4, 4)
    assert told["history"]["earlier"] == [5, 5, 5]
    assert len(file.read_bytes().splitlines()) == 4
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_same_runs_again_are_no_new_look(tmp_path: Path) -> None:
    file, runs = tmp_path / "gate.jsonl", [_run(tmp_path, seed) for seed in (1, 2)]
    before = [_look(run, file, "--json") for run in runs][-1]
    content = file.read_bytes()
    again = _look(runs[1], file, "--json")
    assert file.read_bytes() == content
    assert again.exit_code == before.exit_code
    assert _document(again)["cells"] == _document(before)["cells"]
    assert (_document(again)["history"]["look"], _document(again)["history"]["stored"]) == (
        2,
        False,
    )
    said = " ".join(_look(runs[0], file).stdout.split())
    assert "this is no new look" in said
    assert "No candidate has several runs" not in said


def test_another_candidate_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "gate.jsonl"
    for seed in (1, 2):
        _look(_run(tmp_path, seed), file)
    build = {"installed": {"cand": "b" * 64}}
    told = _document(_look(_run(tmp_path, 3, environment=build), file, "--json"))
    assert (told["history"]["look"], told["history"]["others"], told["cells"][0]["n"]) == (1, 2, 12)
    told = _document(_look(_run(tmp_path, 4), file, "--json"))
    assert (told["history"]["look"], told["history"]["others"], told["cells"][0]["n"]) == (3, 1, 36)


def test_failures_add_up(tmp_path: Path) -> None:
    """Two failed blocks in each run: with the sixth run it is 12 of 72 against none. The sign test
    gives 2^-12, times 2 after Holm's correction, below 0.025 / 42; 2^-10 is not below 0.025 / 30.
    """
    file, outcomes = tmp_path / "gate.jsonl", []
    for seed in range(1, 7):
        run = _run(tmp_path, seed, noise=0.005, fail=[("cand", 3), ("cand", 7)])
        outcomes.append(_look(run, file).exit_code)
    assert outcomes == [5, 5, 5, 5, 5, 4]


def test_runs_of_the_base_are_remembered(tmp_path: Path) -> None:
    """Three base runs at the first look are the noise of the second, which names one of them."""

    def alone(name: str, seed: int, factor: float = 1.0) -> str:
        run = synthetic(tmp_path, {"x": factor}, name=name, seed=seed, blocks=6, **ONE_CELL)
        return str(run.path)

    file = tmp_path / "gate.jsonl"
    bases = [alone(f"base{i}", i, 1 + i / 1000) for i in range(3)]
    slow = alone("slow", 8, 0.5)
    first = call(["compare", ",".join(bases), slow, "--history", str(file), "--threshold", "10%"])
    assert first.exit_code == 4
    more = ["--threshold", "10%", "--history", str(file), "--json"]
    told = _document(call(["compare", bases[0], alone("new", 9, 0.5), *more]))
    assert told["cells"][0]["n"] == 3  # base runs
    assert told["history"]["look"] == 2
    low, high, runs = told["history"]["between"]
    assert (0 < low == high < 0.05, runs) == (True, 3)


def test_runs_that_agree_are_pooled_and_others_are_the_units() -> None:
    rng = np.random.default_rng(5)
    rows = [0.01 * rng.standard_normal(8) for _ in range(4)]
    rows[1][2] = rows[0][1]  # a tie
    assert homogeneity([rows]) == pytest.approx(stats.kruskal(*rows).pvalue)
    alike = by_runs(rows, "higher", 0.05, 0.01)
    assert alike.p_within == pytest.approx(2**-32, rel=1e-6)  # all 32 above the margin
    assert (alike.n, alike.note) == (32, "")
    apart = [row + shift for row, shift in zip(rows, (0, 0.02, -0.02, 0.03), strict=True)]
    found = by_runs(apart, "higher", 0.05, 0.01, agreement=0.04)
    means = np.array([row.mean() for row in apart])
    test = stats.ttest_1samp(means, margin("higher", 0.05), alternative="greater")
    assert (found.p_within, found.n) == (pytest.approx(test.pvalue), 4)
    assert "so the runs are the units (3 degrees of freedom)" in found.note
    edge = stats.ttest_1samp(means, 0).confidence_interval(0.98)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(edge)))
    few = by_runs(apart[1:3], "lower", 0.05, 0.01, agreement=0.04)
    assert few.short.endswith("blocks explain (p=0.04): it takes 1 more run of this candidate")
    assert (few.p_within, few.p_worse) == (1.0, 1.0)
    worse = by_runs([row + 0.2 for row in apart[1:3]], "lower", 0.05, 0.01, agreement=0.04)
    assert worse.p_worse == pytest.approx(2**-16)  # of the blocks
    for constant in ([np.zeros(3)] * 2, [np.zeros(1)], rows[:1]):
        assert homogeneity([constant]) == 1.0


def test_runs_of_other_candidates_say_how_much_runs_differ() -> None:
    """One run of a new candidate, whose blocks agree with each other: two runs of each of three
    other candidates show that it could as well be another day.
    """
    rng = np.random.default_rng(6)
    one = [0.005 * rng.standard_normal(8)]
    others = [[0.005 * rng.standard_normal(8) + x for x in (0.03, -0.03)] for _ in range(3)]
    assert by_runs(one, "higher", 0.05, 0.0125).p_within < 0.01
    tests = [stats.kruskal(*family).statistic for family in others]
    assert homogeneity([one, *others]) == pytest.approx(stats.chi2.sf(sum(tests), 3))
    found = by_runs(one, "higher", 0.05, 0.0125, others, homogeneity([one, *others]))
    squares = sum((family[0].mean() - family[1].mean()) ** 2 / 2 for family in others)
    t = (one[0].mean() - margin("higher", 0.05)) / np.sqrt(squares / 3)
    assert found.p_within == pytest.approx(stats.t.sf(t, 3))
    assert found.p_within > 0.0125
    assert found.n == 1


def test_a_new_candidate_is_judged_with_the_noise_between_runs_of_others(tmp_path: Path) -> None:
    """Four runs of an old candidate that jump by 8 % from run to run, then one of a new one."""
    file = tmp_path / "gate.jsonl"
    for seed, factor in enumerate((1.04, 0.96, 1.05, 0.97), 1):
        _look(_run(tmp_path, seed, factor, noise=0.005), file)
    build = {"environment": {"installed": {"cand": "b" * 64}}}
    new = _run(tmp_path, 9, noise=0.005, **build)
    assert call(["compare", f"{new.path}:base", f"{new.path}:cand"]).exit_code == 0
    told = _document(_look(new, file, "--json"))
    assert told["exit_code"] == 5
    assert "so the runs are the units (3 degrees of freedom)" in told["cells"][0]["reason"]


def test_no_candidate_passes_before_its_history_knows_how_much_runs_differ(tmp_path: Path) -> None:
    """One run says nothing of that; three do, also at a single look. A bad one fails at once."""
    runs = [_run(tmp_path, seed) for seed in (2, 3, 4)]
    first = _look(runs[0], tmp_path / "gate.jsonl", "--json")
    (cell,) = _document(first)["cells"]
    assert (first.exit_code, cell["n"]) == (5, 12)
    assert (
        "how much runs differ is not known: it takes 2 more runs of this candidate"
        in (cell["reason"])
    )
    sides = [",".join(f"{run.path}:{label}" for run in runs) for label in ("base", "cand")]
    done = call(["compare", *sides, "--history", str(tmp_path / "three.jsonl")])
    assert (done.exit_code, "look 1 at this candidate" in unwrapped(done.stdout)) == (0, True)
    bad = _run(tmp_path, 5, 0.8)
    done = _look(bad, tmp_path / "bad.jsonl")
    assert done.exit_code == 4
    assert "none passes, and that one is worse holds for this run's blocks" in (
        unwrapped(done.stdout)
    )


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        ({}, ["--threshold", "3%"], "threshold: 0.05 in line 1, 0.03 in this command"),
        ({}, ["--metric", "cpu_softirq"], "metrics: the main ones in line 1, cpu_softirq in"),
        ({"environment": {"kernel": "5.15.0"}}, [], "kernel: 6.1.0 against 5.15.0"),
        ({"environment": {"cpu_model": "Other"}}, [], "CPU: Synthetic CPU against Other"),
        (
            {"plan": {"settings": {"": {"mtu": "9000"}}}},
            [],
            'settings of base: none against {"mtu"',
        ),
        ({"environment": {"installed": {"base": "b" * 64}}}, [], f"installed of base: {'a' * 64}"),
        ({"tool_version": "0.9.0"}, [], "tool version: 0.1.0 against 0.9.0"),
    ],
)
def test_other_circumstances_are_refused(
    tmp_path: Path, change: dict[str, Any], more: list[str], said: str
) -> None:
    file = tmp_path / "gate.jsonl"
    first = {"environment": {"installed": {"base": "a" * 64}}}
    _look(_run(tmp_path, 1, **first), file)
    content = file.read_bytes()
    done = _look(_run(tmp_path, 2, **{**first, **change}), file, *more)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert file.read_bytes() == content


def test_a_run_that_changed_since_is_refused(tmp_path: Path) -> None:
    file, run = tmp_path / "gate.jsonl", _run(tmp_path, 1)
    _look(run, file)

    def double(line: dict[str, Any]) -> dict[str, Any]:
        chosen = (line["label"], line["block"], line["metric"]) == ("cand", 3, "transaction_rate")
        return {**line, "value": 1234.5} if chosen else line

    done = _look(edited(run, double), file)
    assert done.exit_code == 2
    assert "transaction_rate in block 3: " in done.stderr
    assert " there, 1234.5 here" in done.stderr


def test_a_line_that_was_never_finished_is_named(tmp_path: Path) -> None:
    file, run = tmp_path / "gate.jsonl", _run(tmp_path, 1)
    assert "not finished" not in _look(run, file).stderr
    file.write_bytes(file.read_bytes()[:200])
    for more in (["--plan"], []):  # the second one replaces it
        assert "the last line is not finished" in _look(run, file, *more).stderr
    assert "not finished" not in _look(run, file).stderr


def test_the_two_sides_do_not_change_places(tmp_path: Path) -> None:
    file, run = tmp_path / "gate.jsonl", _run(tmp_path, 1)
    _look(run, file)
    done = call(["compare", f"{run.path}:cand", f"{run.path}:base", "--history", str(file)])
    assert done.exit_code == 2
    assert "is of the candidate in line 1, of the base in this command" in done.stderr


def test_damaged_and_unfinished_runs_stay_out(tmp_path: Path) -> None:
    file = tmp_path / "gate.jsonl"
    done = _look(_run(tmp_path, 1, finished=False), file)
    assert (done.exit_code, file.exists()) == (2, False)
    assert "cnibench run --resume run1-1" in done.stderr
    damaged = _run(tmp_path, 2)
    with (damaged.path / "samples.jsonl").open("a") as lines:
        lines.write("{\n")
    done = _look(damaged, file)
    assert (done.exit_code, file.exists()) == (2, False)
    assert "a history takes whole runs only" in done.stderr
    assert _look(_run(tmp_path, 3), file, "--allow-different").exit_code == 2


def _chained(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines as somebody would write them who knows the format."""
    before = ""
    for line in lines:
        line["before"] = before
        before = sha256(msgspec.json.encode(line)).hexdigest()
    return lines


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda a, b, c: [a, c], "line 2: a line before it is lost, changed or duplicated"),
        (lambda a, b, c: [a, b, b], "line 3: a line before it is lost, changed or duplicated"),
        (lambda a, b, c: [b, c], "line 1: a line before it is lost, changed or duplicated"),
        (lambda a, b, c: [{**a, "outcome": 4}, b], "line 2: a line before it is lost, changed"),
        (lambda a, b, c: [{**a, "schema": 7}], "schema 7, this version knows 1"),
        (lambda a, b, c: [{**a, "look": "x"}], "line 1: Expected `int`"),
        (
            lambda a, b, c: _chained([a, {**b, "runs": a["runs"] + b["runs"]}]),
            "line 2: has the run run1-1:base, which line 1 has already",
        ),
        (
            lambda a, b, c: _chained([a, {**b, "look": 3}]),
            "says look 3 at its candidate, it is look 2",
        ),
        (
            lambda a, b, c: _chained([a, {**b, "threshold": 0.1}]),
            "threshold: 0.05 in line 1, 0.1 in line 2",
        ),
        (
            lambda a, b, c: _chained([{**a, "runs": a["runs"][:1]}]),
            "no line has the run run1-1:cand",
        ),
        (
            lambda a, b, c: _chained([{**a, "candidate": []}]),
            "must be of the base or of the candidate",
        ),
    ],
)
def test_a_history_that_contradicts_itself_is_refused(
    tmp_path: Path, edit: Callable[..., list[dict[str, Any]]], said: str
) -> None:
    file = tmp_path / "gate.jsonl"
    for seed in (1, 2, 3):
        _look(_run(tmp_path, seed, blocks=6), file)
    written = edit(*(json.loads(line) for line in file.read_text().splitlines()))
    # as the command writes them, so that untouched lines keep their hashes
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in written))
    done = _look(_run(tmp_path, 4, blocks=6), file)
    assert done.exit_code == 2, done.stdout
    assert said in done.stderr


def test_a_machine_that_changed_within_the_history_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gate.jsonl"
    for seed in (1, 2):
        _look(_run(tmp_path, seed, blocks=6), file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for run in lines[1]["runs"]:
        run["facts"]["kernel"] = "5.15.0"
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in _chained(lines)))
    done = _look(_run(tmp_path, 3, blocks=6), file)
    assert done.exit_code == 2
    assert "run1-1 in line 1 and run2-2 in line 2 are not comparable: kernel" in done.stderr


def test_a_line_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    file, second = tmp_path / "gate.jsonl", _run(tmp_path, 2)
    _look(_run(tmp_path, 1), file)
    first = file.read_bytes()
    _look(second, file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(first) + 200])
    told = _document(_look(second, file, "--json"))
    assert told["history"]["look"] == 2
    assert file.read_bytes().startswith(first)
    assert len(history.read(file).looks) == 2


def test_two_commands_at_a_time_do_not_overwrite_each_other(tmp_path: Path) -> None:
    file = tmp_path / "gate.jsonl"
    _look(_run(tmp_path, 1), file)
    known = history.read(file)
    _look(_run(tmp_path, 2), file)
    content = file.read_bytes()
    with pytest.raises(InputError, match="bytes when it was read"):
        history.append(known, known.looks[0])
    assert file.read_bytes() == content


@pytest.mark.parametrize("kind", ["fifo", "folder", "text", "deep", "bytes"])
def test_what_is_no_history_is_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "gate.jsonl"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        content = {"text": b"hello\n", "deep": b"[" * 100_000 + b"\n", "bytes": b"\xff\xfe\n"}
        file.write_bytes(content[kind])
    done = _look(_run(tmp_path, 1), file)
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert "a bug" not in done.stderr


def test_a_run_that_ended_when_it_was_decided_stays_out(tmp_path: Path) -> None:
    run = _run(tmp_path, 1, until_decided=True)
    assert _look(run, tmp_path / "whole.jsonl").exit_code != 2
    events = (run.path / "events.jsonl").read_text().splitlines(keepends=True)
    stopped = {**json.loads(events[-1]), "event": "stopped", "block": 11}
    (run.path / "events.jsonl").write_text(
        "".join([*events[:-1], json.dumps(stopped) + "\n", events[-1]])
    )
    file = tmp_path / "gate.jsonl"
    done = _look(RunReader(run.path), file)
    assert (done.exit_code, file.exists()) == (2, False)
    assert "run1-1 ended when its pairs were decided" in done.stderr
    alone = call(["compare", f"{run.path}:base", f"{run.path}:cand"])
    assert "warning: run1-1 ended when its pairs were decided" in alone.stderr


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "gate.jsonl").symlink_to(target)
    assert _look(_run(tmp_path, 1), tmp_path / "gate.jsonl").exit_code == 2
    assert not target.exists()


@pytest.mark.parametrize("form", ["text", "md", "junit"])
def test_every_format_says_which_look_it_is(tmp_path: Path, form: str) -> None:
    done = _look(_run(tmp_path, 1), tmp_path / "gate.jsonl", "--format", form)
    said = " ".join(done.stdout.split())
    assert "look 1 at this candidate" in said
    assert "No candidate has several runs here" in said
