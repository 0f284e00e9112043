"""The gate: 0 only when proven, 4 when worse, 5 when undecided or something is missing, and nothing
compared that is not comparable.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from cnibench.rundir.reader import RunReader
from tests.unit._call import call, unwrapped
from tests.unit._runs import counted, edited, synthetic


def _one(tmp_path: Path, candidate: float, **more: object) -> RunReader:
    return synthetic(tmp_path, {"base": 1.0, "cand": candidate}, cpp=False, **more)


@pytest.mark.parametrize(
    ("candidate", "noise", "blocks", "status"),
    [
        (1.0, 0.005, 12, 0),
        (0.98, 0.005, 12, 0),
        (0.8, 0.005, 12, 4),
        (0.95, 0.01, 12, 5),
        (1.0, 0.1, 8, 5),
        (1.0, 0.001, 5, 5),
    ],
)
def test_within_one_run(
    tmp_path: Path, candidate: float, noise: float, blocks: int, status: int
) -> None:
    run = _one(tmp_path, candidate, noise=noise, blocks=blocks)
    done = call(["compare", f"{run.path}:base", f"{run.path}:cand", "--threshold", "5%"])
    assert done.exit_code == status, done.stdout
    assert done.stdout.splitlines()[0].startswith({0: "within", 4: "worse", 5: "undecided"}[status])
    assert ("This holds for the deployments of this run." in unwrapped(done.stdout)) == (
        status == 0
    )
    passing = call(["compare", f"{run.path}:base", f"{run.path}:cand", "--inconclusive", "pass"])
    assert passing.exit_code == (0 if status == 5 else status)


@pytest.mark.parametrize("inconclusive", ["fail", "pass"])
@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize(
    ("candidate", "blocks", "status"), [(1.0, 12, 0), (0.8, 12, 4), (1.0, 5, 5)]
)
def test_exit_code_of_the_document_is_that_of_the_process(
    tmp_path: Path, candidate: float, blocks: int, status: int, damaged: bool, inconclusive: str
) -> None:
    run = _one(tmp_path, candidate, noise=0.001, blocks=blocks)
    if damaged:
        with (run.path / "samples.jsonl").open("a") as file:
            file.write("{\n")
    sides = [f"{run.path}:base", f"{run.path}:cand"]
    done = call(["compare", *sides, "--json", "--inconclusive", inconclusive])
    expected = 0 if (status, inconclusive) == (5, "pass") else status
    assert done.exit_code == (expected or int(damaged)), done.stdout
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.exit_code
    assert bool(document["problems"]) == damaged


def test_formats(tmp_path: Path) -> None:
    run = _one(tmp_path, 0.8)
    sides = [f"{run.path}:base", f"{run.path}:cand"]
    md = call(["compare", *sides, "--format", "md"])
    assert "**cnibench: worse**" in md.stdout
    junit = ElementTree.fromstring(
        call(["compare", *sides, "--format", "junit"]).stdout.split("\n", 1)[1]
    )
    assert (junit.get("tests"), junit.get("failures")) == ("4", "4")
    assert len(junit.findall("testcase/failure")) == 4
    document = json.loads(call(["compare", *sides, "--json"]).stdout)
    assert (document["exit_code"], {cell["outcome"] for cell in document["cells"]}) == (
        4,
        {"worse"},
    )
    assert all(cell["low"] < 0.8 < cell["high"] for cell in document["cells"])
    five = _one(tmp_path, 1.0, name="five", blocks=5)
    undecided = call(
        [
            "compare",
            f"{five.path}:base",
            f"{five.path}:cand",
            "--format",
            "junit",
            "--inconclusive",
            "pass",
        ]
    )
    assert ElementTree.fromstring(undecided.stdout.split("\n", 1)[1]).get("skipped") == "4"
    file = tmp_path / "junit.xml"
    assert call(["compare", *sides, "--format", "junit", "--out", str(file)]).exit_code == 4
    assert file.read_text().startswith("<?xml")


def test_lower_is_better_is_judged_the_other_way(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"base": 1.0, "cand": 0.8})
    for candidate, base, status in (("cand", "base", 4), ("base", "cand", 0)):
        done = call(
            [
                "compare",
                f"{run.path}:{base}",
                f"{run.path}:{candidate}",
                "--metric",
                "cycles_per_packet",
                "--json",
            ]
        )
        assert done.exit_code == status
        cycles = [
            cell
            for cell in json.loads(done.stdout)["cells"]
            if cell["metric"] == "cycles_per_packet"
        ]
        assert {cell["outcome"] for cell in cycles} == {"worse" if status else "within"}


def test_a_missing_cell_is_undecided(tmp_path: Path) -> None:
    run = _one(tmp_path, 1.0)
    file = run.path / "samples.jsonl"
    kept = [
        line
        for line in file.read_text().splitlines(keepends=True)
        if '"label":"cand"' not in line or '"inter"' not in line
    ]
    file.write_text("".join(kept))
    sides = [f"{run.path}:base", f"{run.path}:cand"]
    done = call(["compare", *sides])
    assert done.exit_code == 5
    assert "the candidate has no" in done.stdout.splitlines()[0]
    assert call(["compare", *sides, "--inconclusive", "pass"]).exit_code == 5


def test_only_undecided_differences_of_values_pass(tmp_path: Path) -> None:
    """Noisy figures leave each cell undecided; in one cell of two, the candidate failed once."""
    run = _one(tmp_path, 1.0, noise=0.2, blocks=8, workloads=("tcp-rr",))
    sides = [f"{run.path}:base", f"{run.path}:cand", "--inconclusive", "pass"]
    assert call(["compare", *sides]).exit_code == 0

    def fail(line: dict[str, Any]) -> dict[str, Any]:
        if (line["label"], line["block"], line["placement"]) != ("cand", 3, "inter"):
            return line
        return {**line, "status": "failed", "value": None, "reason": "the server is gone"}

    edited(run, fail)
    done = call(["compare", *sides, "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["exit_code"]) == (5, 5)
    assert [cell["outcome"] for cell in told["cells"]] == ["undecided", "undecided"]
    assert [cell["values_undecided"] for cell in told["cells"]] == [True, False]
    assert told["reason"].startswith("undecided: tcp-rr between nodes: fails more often")
    assert told["reason"].endswith("(and 1 more cell)")
    junit = call(["compare", *sides, "--format", "junit"]).stdout.split("\n", 1)[1]
    suite = ElementTree.fromstring(junit)
    assert (suite.get("skipped"), suite.get("errors")) == ("1", "1")
    nothing = synthetic(tmp_path, {"base": 1.0, "cand": 1.0}, name="nothing", cpp=False, blocks=0)
    empty = [f"{nothing.path}:base", f"{nothing.path}:cand", "--inconclusive", "pass"]
    assert call(["compare", *empty]).exit_code == 5


def test_across_runs_it_takes_three_base_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    bases = [
        synthetic(
            tmp_path,
            {"x": float(np.exp(0.004 * rng.standard_normal()))},
            name=f"base{i}",
            seed=i,
            blocks=6,
            cpp=False,
        )
        for i in range(4)
    ]
    same = synthetic(tmp_path, {"x": 1.0}, name="same", seed=20, blocks=6, cpp=False)
    slow = synthetic(tmp_path, {"x": 0.6}, name="slow", seed=21, blocks=6, cpp=False)
    three = ",".join(str(run.path) for run in bases)
    few = call(["compare", str(bases[0].path), str(slow.path)])
    assert few.exit_code == 5
    assert "at least 3 are needed" in few.stdout
    assert call(["compare", three, str(slow.path)]).exit_code == 4
    assert call(["compare", three, str(same.path), "--threshold", "20%"]).exit_code == 0


def test_what_is_not_comparable_is_refused_unless_asked_to(tmp_path: Path) -> None:
    one = synthetic(tmp_path, {"x": 1.0}, name="one", cpp=False, seed=1)
    other = synthetic(
        tmp_path,
        {"x": 1.0},
        name="other",
        cpp=False,
        seed=2,
        environment={"kernel": "5.15.0"},
        tool_version="0.2.0",
    )
    refused = call(["compare", str(one.path), str(other.path)])
    assert refused.exit_code == 2
    assert "kernel: 6.1.0 against 5.15.0" in refused.stderr
    assert "tool version" in refused.stderr
    assert call(["compare", str(one.path), str(other.path), "--allow-different"]).exit_code == 5
    mixed = synthetic(
        tmp_path, {"model": 1.0, "real": 1.0}, name="mixed", cpp=False, fidelity={"real": "cni"}
    )
    assert "fidelity" in call(["compare", f"{mixed.path}:model", f"{mixed.path}:real"]).stderr


@pytest.mark.parametrize("sides", ["{a}:base {b}:cand", "{a}:base,{b}:base {a}:cand"])
@pytest.mark.parametrize("damaged", [False, True])
def test_two_folders_of_one_run_are_refused(tmp_path: Path, damaged: bool, sides: str) -> None:
    """Whether they contain the same or not: the verdict would be that of one of them only."""
    a = _one(tmp_path / "a", 1.0).path
    b = synthetic(tmp_path / "b", {"base": 0.1, "cand": 0.1}, cpp=False).path
    if damaged:
        (a / "samples.jsonl").write_text("{\n")
    done = call(["compare", *sides.format(a=a, b=b).split()])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"one run was named twice: {a} and {b} have the run id synthetic-1" in done.stderr


def test_one_folder_may_have_two_names(tmp_path: Path) -> None:
    run = _one(tmp_path, 0.8).path
    (tmp_path / "link").symlink_to(run)
    assert call(["compare", f"{run}:base", f"{tmp_path / 'link'}:cand"]).exit_code == 4
    assert call(["compare", f"{run}:base,{run}:base", f"{run}:cand"]).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["{run}", "{run}"],
        ["{run}:base", "{run}:base"],
        ["{run}:base", "{run}:nothing"],
        ["{run}:base", "{run}:cand", "--threshold", "x"],
        ["{run}:base", "{run}:cand", "--threshold", "0%"],
        ["{run}:base", "{run}:cand", "--metric", "beauty"],
        [":a", ":b"],
        ["{run}:base", "{run}:cand", "--threshold", "200%"],
    ],
)
def test_wrong_use_exits_2(tmp_path: Path, arguments: list[str]) -> None:
    run = _one(tmp_path, 1.0, blocks=2)
    done = call(["compare", *(item.replace("{run}", str(run.path)) for item in arguments)])
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("count", "status"), [(20, 0), (21, 0), (22, 4), (0, 0)])
def test_counts_are_judged_without_a_test(tmp_path: Path, count: int, status: int) -> None:
    run = counted(tmp_path, {"base": [20, 20], "cand": [count, count]})
    done = call(["compare", f"{run.path}:base", f"{run.path}:cand", "--threshold", "5%"])
    assert done.exit_code == status, done.stdout
    assert f"rules 20 to {count} (counted)" in done.stdout
    uneven = counted(tmp_path / "uneven", {"base": [20, 20], "cand": [20, 21]})
    assert call(["compare", f"{uneven.path}:base", f"{uneven.path}:cand"]).exit_code == 5
    empty = counted(tmp_path / "empty", {"base": [0, 0], "cand": [count, count]})
    found = call(["compare", f"{empty.path}:base", f"{empty.path}:cand", "--json"])
    assert found.exit_code == (4 if count else 0)
    assert json.loads(found.stdout)["cells"][0]["ratio"] == (None if count else 1.0)


def test_settings_of_a_sweep_have_names_of_their_own(tmp_path: Path) -> None:
    run = _one(tmp_path, 1.0, blocks=6, workloads=("tcp-rr",), placements=("intra",))
    file = run.path / "samples.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    more = [
        line | {"params": {"size": size}, "cell": f"{line['cell']}-{size}"}
        for line in lines
        for size in (1, 64)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in more))
    found = json.loads(call(["compare", f"{run.path}:base", f"{run.path}:cand", "--json"]).stdout)
    assert [cell["cell"] for cell in found["cells"]] == [
        "tcp-rr on one node (size 1)",
        "tcp-rr on one node (size 64)",
    ]
