"""infrabuilder's results as runs, and what every command makes of an imported run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnibench.analysis import analyse
from cnibench.importers.batch import Given
from cnibench.importers.writer import write
from cnibench.rundir.reader import RunReader
from tests.unit._call import call
from tests.unit._imports import figures, read
from tests.unit._infrabuilder import all_results, tree


def test_infrabuilder_tree_is_one_run(tmp_path: Path) -> None:
    batch = read("infrabuilder", tree(tmp_path, repeats=2), Given())
    assert {(one.label, one.repeat) for one in batch.results} == {
        ("flannel", 0),
        ("flannel", 1),
        ("antrea", 0),
        ("antrea", 1),
    }
    assert len(batch.results) == 4 * 9
    first = next(
        one
        for one in batch.results
        if one.label == "flannel" and one.path == "pod" and one.params == {"streams": 1}
    )
    assert (first.workload, first.placement, first.fidelity) == ("iperf3-tcp", "inter", "cni")
    assert figures(first) == {
        "throughput": 9.01e9,
        "retransmits": 12,
        "cpu_system/client": 0.5,
        "cpu_user/client": 0.25,
        "memory/client": 1e6,
        "cpu_system/server": 0.5,
        "cpu_user/server": 0.25,
        "memory/server": 1e6,
    }
    udp = next(
        one
        for one in batch.results
        if one.workload == "iperf3-udp" and one.path == "clusterip" and one.params == {"streams": 8}
    )
    assert figures(udp)["loss"] == pytest.approx(0.05)
    assert {one.workload for one in batch.results if not one.params} == {"idle"}


@pytest.mark.parametrize("bad", ["null", "", "   ", "nan", "-1", "0", "inf"])
def test_infrabuilder_a_bandwidth_that_is_none_is_a_failed_cell(tmp_path: Path, bad: str) -> None:
    batch = read("infrabuilder", tree(tmp_path, STM_BW=bad), Given())
    failed = [one for one in batch.results if not one.figures]
    assert [(one.label, one.repeat, one.path, one.params) for one in failed] == [
        ("antrea", 1, "clusterip", {"streams": 8})
    ]
    run = RunReader(write(batch, tmp_path / "runs", "infrabuilder", ["cnibench", "import"]))
    lines = [line for line in run.samples() if line.status != "ok"]
    assert [(line.label, line.block, line.metric, line.value, line.status) for line in lines] == [
        ("antrea", 1, "", None, "failed")
    ]
    assert "STM_BW" in lines[0].reason
    result = next(
        one
        for one in analyse([run]).results
        if one.label == "antrea" and one.params == {"streams": 8} and one.path == "clusterip"
    )
    assert (result.n, result.failed) == (6, 1)


def test_infrabuilder_a_test_without_keys_was_not_run(tmp_path: Path) -> None:
    def without_udp(values: dict[str, str]) -> None:
        for key in [key for key in values if key[1] == "U"]:
            del values[key]

    for name in ("flannel", "antrea"):
        file = tmp_path / "bench" / name / "1" / "all.results"
        file.parent.mkdir(parents=True)
        file.write_text(all_results(without_udp if name == "antrea" else lambda values: None))
    batch = read("infrabuilder", tmp_path / "bench", Given())
    assert all(one.figures for one in batch.results)
    assert batch.not_run == [("antrea", test) for test in ("DUS", "DUM", "SUS", "SUM")]
    run = RunReader(write(batch, tmp_path / "runs", "infrabuilder", ["cnibench", "import"]))
    assert {line.status for line in run.samples()} == {"ok"}
    assert "not run: antrea: DUS; antrea: DUM; antrea: SUS; antrea: SUM" in run.plan.notes
    shown = call(["import", "infrabuilder", str(tmp_path / "bench"), "--out", str(tmp_path / "n")])
    assert "(0 failed, 4 not run)" in shown.stdout


def test_infrabuilder_another_missing_figure_fails_alone(tmp_path: Path) -> None:
    batch = read("infrabuilder", tree(tmp_path, DTS_SERVER_MEM="", DTS_RTS="null"), Given())
    run = RunReader(write(batch, tmp_path / "runs", "infrabuilder", ["cnibench", "import"]))
    lines = [line for line in run.samples() if line.status != "ok"]
    assert {(line.metric, line.value, line.reason) for line in lines} == {
        ("memory", None, "DTS_SERVER_MEM is blank"),
        ("retransmits", None, "DTS_RTS is no figure: null"),
    }


def test_infrabuilder_a_missing_key_fails_too(tmp_path: Path) -> None:
    file = tmp_path / "flannel" / "1" / "all.results"
    file.parent.mkdir(parents=True)
    file.write_text(
        all_results(
            lambda values: [values.pop(key) for key in ("SUS_BW", "STS_SERVER_USER")] and None
        )
    )
    results = read("infrabuilder", file, Given()).results
    assert [one.reason for one in results if not one.figures] == ["SUS_BW is missing"]
    assert {one.label for one in results} == {"flannel"}
    assert [one.reason for result in results for one in result.figures if one.value is None] == [
        "STS_SERVER_USER is missing"
    ]


def test_an_imported_run_works_with_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = call(
        [
            "import",
            "infrabuilder",
            str(tree(tmp_path, repeats=10, DUS_BW="null")),
            "--name",
            "peer",
            "--fact",
            "wire=nic",
            "--json",
        ]
    )
    assert made.exit_code == 0, made.stderr
    document = json.loads(made.stdout)
    assert (document["results"], document["failed"]) == (2 * 10 * 9, 1)
    assert document["profiles"] == ["antrea", "flannel"]
    report = json.loads(call(["report", "last", "--json"]).stdout)
    wanted = {
        "metric": "throughput",
        "path": "pod",
        "workload": "iperf3-tcp",
        "params": {"streams": 1},
    }
    pair = next(
        one for one in report["pairs"] if all(one[key] == value for key, value in wanted.items())
    )
    assert pair["verdict"] == "b-better"
    assert report["environment"]["testbed"] == "cluster"
    assert report["environment"]["kernel"] == "not recorded"
    assert report["results"][0]["wire"] == "nic"
    assert {one["fidelity"] for one in report["results"]} == {"cni"}
    for form in ("text", "md", "csv", "openmetrics", "benchstat"):
        shown = call(["report", "last", "--format", form])
        assert shown.exit_code == 0, shown.stderr
        assert "antrea" in shown.stdout
    worse = call(["compare", "last:flannel", "last:antrea"])
    assert worse.exit_code == 4, worse.stdout
    claims = json.loads(call(["claims", "last", "--json"]).stdout)
    assert set(claims["counts"]) == {"not-measured", "not-testable-here"}
    asked = call(
        ["query", "select count(*) as n from samples where status = 'failed'", "last", "--json"]
    )
    assert json.loads(asked.stdout)["rows"] == [{"n": 1}]
    assert "complete" in call(["runs", "show", "last"]).stdout
