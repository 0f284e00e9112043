"""What may be put into one figure, compared or resumed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench import __version__
from cnibench.analysis import analyse
from cnibench.cli.measurement.execute import _measure
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.errors import UsageError
from cnibench.model.context import disagreements
from cnibench.rundir.reader import RunReader
from cnibench.system.environment import this_cpu
from tests.unit._analyses import TRUTH
from tests.unit._call import call
from tests.unit._runs import edited, synthetic

WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "wire rate": ({"plan": {"wire_rate": 2e8}}, "wire rate: unlimited against 200 Mbit/s"),
    "pairs": ({"plan": {"pairs": 2}}, "pairs at the same time: 1 against 2"),
    "duration": ({"duration": 60.0}, "duration: 10 s against 60 s"),
    "warm-up": ({"warmup": 0.0}, "warm-up: 2 s against 0 s"),
    "settings": (
        {"plan": {"settings": {"x": {"mode": "b"}}}},
        'settings of x: none against {"mode":"b"}',
    ),
    "all settings": (
        {"plan": {"settings": {"": {"mode": "b"}}}},
        'settings of x: none against {"mode":"b"}',
    ),
    "congestion control": (
        {"environment": {"sysctls": {"net/ipv4/tcp_congestion_control": "bbr"}}},
        "congestion control: not recorded against bbr",
    ),
    "kernel": ({"environment": {"kernel": "5.15.0"}}, "kernel: 6.1.0 against 5.15.0"),
    "CPU": ({"environment": {"cpu_model": "Other CPU"}}, "CPU: Synthetic CPU against Other CPU"),
    "number of CPUs": ({"environment": {"cpus": 64}}, "CPUs: not recorded against 64"),
    "version": ({"tool_version": "0.2.0"}, "tool version: 0.1.0 against 0.2.0"),
}


def test_runs_are_pooled_only_when_they_are_comparable(tmp_path: Path) -> None:
    one = synthetic(tmp_path, TRUTH, blocks=6, name="one", seed=1)
    two = synthetic(tmp_path, TRUTH, blocks=6, name="two", seed=2)
    other = synthetic(
        tmp_path, TRUTH, blocks=6, name="other", seed=3, environment={"kernel": "5.15.0"}
    )
    pooled = analyse([one, two])
    assert {(r.n, r.replicate, r.tried) for r in pooled.results} == {(2, "run", 12)}
    with pytest.raises(UsageError, match=r"kernel: 6\.1\.0 against 5\.15\.0"):
        analyse([one, other])
    beside = analyse([one, other], allow_different=True)
    assert {r.n for r in beside.results} == {6}
    assert {r.environment for r in beside.results} == {0, 1}
    with pytest.raises(UsageError, match=f"one run was named twice: {one.path} and {one.path} "):
        analyse([one, RunReader(one.path)])
    same_id = synthetic(tmp_path / "elsewhere", TRUTH, blocks=6, name="one", seed=1)
    with pytest.raises(UsageError, match=f"{one.path} and {same_id.path} have the run id one-1"):
        analyse([one, same_id])
    with pytest.raises(UsageError):
        analyse([])
    with pytest.raises(UsageError, match="no 'nothing'"):
        analyse([one], baseline="nothing")


@pytest.mark.parametrize("way", WAYS)
def test_runs_that_differ_are_neither_pooled_nor_compared(tmp_path: Path, way: str) -> None:
    what, said = WAYS[way]
    more = {"cpp": False, "blocks": 4, "workloads": ("tcp-rr",)}
    one, other = (
        synthetic(tmp_path, {"x": 1.0}, name="one", **more),
        synthetic(tmp_path, {"x": 1.0}, name="other", seed=2, **more, **what),
    )
    for arguments in (["compare"], ["report"]):
        refused = call([*arguments, str(one.path), str(other.path)])
        assert refused.exit_code == 2, refused.stdout
        assert said in refused.stderr
    beside = analyse([one, other], allow_different=True)
    assert {result.n for result in beside.results} == {4}, "each environment has results of its own"
    assert any(said in note for note in beside.notes)
    assert call(["compare", str(one.path), str(other.path), "--allow-different"]).exit_code == 5


def test_settings_that_do_not_hold_come_first_in_a_report(tmp_path: Path) -> None:
    said = "net.ipv4.tcp_tw_reuse: 1 was asked for, not in this kernel"
    run = synthetic(tmp_path, {"x": 1.0}, blocks=4, environment={"unheld": [said]})
    assert analyse([run]).summary[0] == f"Settings that do not hold: {said}."
    text = " ".join(call(["report", str(run.path)]).stdout.split())
    assert text.index("Settings that do not hold") < text.index(analyse([run]).summary[1][:20])


def test_a_first_sample_that_failed_does_not_say_what_was_in_force(tmp_path: Path) -> None:
    more = {"cpp": False, "blocks": 4, "workloads": ("tcp-rr",)}
    one = synthetic(tmp_path, {"x": 1.0}, name="one", **more)
    other = synthetic(tmp_path, {"x": 1.0}, name="other", seed=2, fail=[("x", 0)], **more)

    def known_if_ok(line: dict[str, Any]) -> dict[str, Any]:
        return line | {"congestion_control": "cubic" if line["status"] == "ok" else ""}

    found = analyse([edited(run, known_if_ok) for run in (one, other)])
    assert {(r.n, r.tried - r.failed) for r in found.results} == {(2, 7)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wire_rate": 2e8}, "wire rate: unlimited against 200 Mbit/s"),
        ({"method": "slices"}, "method: windows against slices"),
        ({"slice_length": 0.02}, "slice length: 0 s against 0.02 s"),
        ({"lead_in": 0.005}, "lead-in: 0 s against 0.005 s"),
        ({"priority": "real-time"}, "priority: normal against real-time"),
        ({"mtu": 9000}, "MTU: 1500 B against 9000 B"),
        ({"cpus": "split"}, "CPU pinning: shared against split"),
        ({"wire_offload": "none"}, "wire offload: plain against none"),
        ({"wire": "nic"}, "wire: veth against nic"),
        ({"testbed": "kind"}, "testbed: lab against kind"),
        ({"congestion_control": "bbr"}, "congestion control"),
        ({"fidelity": "cni"}, "fidelity of x: datapath-model against cni"),
    ],
)
def test_what_lines_say_counts(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    more = {"cpp": False, "blocks": 4, "workloads": ("tcp-rr",)}
    one, other = (
        synthetic(tmp_path, {"x": 1.0}, name="one", **more),
        synthetic(tmp_path, {"x": 1.0}, name="other", seed=2, **more),
    )
    edited(other, lambda line: line | change)
    for name in ("compare", "report"):
        refused = call([name, str(one.path), str(other.path)])
        assert refused.exit_code == 2, refused.stdout
        assert said in refused.stderr


def test_labels_of_one_run_may_differ_in_profile_and_settings_only(tmp_path: Path) -> None:
    more = {
        "cpp": False,
        "blocks": 8,
        "noise": 0.003,
        "workloads": ("tcp-rr",),
        "placements": ("intra",),
    }
    run = synthetic(tmp_path, {"a": 1.0, "b": 1.0}, plan={"settings": {"b": {"mode": "x"}}}, **more)
    assert call(["compare", f"{run.path}:a", f"{run.path}:b"]).exit_code == 0
    edited(run, lambda line: line | {"duration": 60.0 if line["label"] == "b" else 1.0})
    refused = call(["compare", f"{run.path}:a", f"{run.path}:b"])
    assert refused.exit_code == 2
    assert "duration: 1 s against 60 s" in refused.stderr


def test_cells_of_one_run_with_two_durations_are_two_figures(tmp_path: Path) -> None:
    run = synthetic(
        tmp_path, {"x": 1.0}, cpp=False, blocks=4, workloads=("tcp-rr",), placements=("intra",)
    )
    file = run.path / "samples.jsonl"
    found = [json.loads(line) for line in file.read_text().splitlines()]
    twice = [
        line | {"duration": seconds, "cell": f"{line['cell']}{seconds}"}
        for line in found
        for seconds in (1.0, 60.0)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in twice))
    rates = [result for result in analyse([run]).results if result.metric == "transaction_rate"]
    assert [(result.duration, result.n) for result in rates] == [(1.0, 4), (60.0, 4)]


def test_disagreements_name_both_values() -> None:
    recorded = {
        "kernel": "6.1",
        "cpu_model": "A",
        "cpus": 2,
        "load": [1, 2, 3],
        "tools": {"netperf": "2.7.0"},
    }
    assert disagreements(recorded, dict(recorded, load=[0, 0, 0])) == []
    found = disagreements(
        recorded, recorded | {"kernel": "6.2", "cpus": 64, "tools": {"netperf": "2.6.0"}}
    )
    assert [str(one) for one in found] == [
        "kernel: 6.1 against 6.2",
        "CPUs: 2 against 64",
        "netperf: 2.7.0 against 2.6.0",
    ]
    assert disagreements({"tools": {}}, recorded) == [], (
        "what an interrupted run had not recorded yet"
    )


def test_a_run_is_not_resumed_on_another_machine(tmp_path: Path) -> None:
    run = synthetic(
        tmp_path,
        {"host": 1.0},
        blocks=2,
        finished=False,
        tool_version=__version__,
        environment={"kernel": "5.15.0-old", "cpus": 4096, "cpu_model": this_cpu()},
    )
    with (run.path / "samples.jsonl").open("a") as file:
        file.write('{"cut off')
    before = {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}
    request: Any = SimpleNamespace(cluster=LabCluster, workloads={}, collectors=[])
    with pytest.raises(UsageError) as error:
        _measure(request, run.path, True, {}, False, 0.0, quiet=False)
    assert "kernel: 5.15.0-old against" in error.value.message
    assert "CPUs: 4096 against" in error.value.message
    assert "CPU:" not in error.value.message
    assert error.value.exit_code == 2
    assert {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()} == before


def test_nodes_with_nics_of_another_speed_are_another_machine(tmp_path: Path) -> None:
    runs = [
        synthetic(
            tmp_path,
            {"a": 1.0},
            name=name,
            seed=seed,
            blocks=2,
            environment={"nodes": {"a": {"device": {"speed": speed}}}},
        )
        for seed, (name, speed) in enumerate((("slow", "10000"), ("fast", "25000")), 1)
    ]
    done = call(["report", *(str(run.path) for run in runs)])
    assert done.exit_code == 2
    assert "10000" in done.stderr
    assert "25000" in done.stderr


def test_runs_with_other_images_are_not_pooled_but_may_be_tested_against_each_other(
    tmp_path: Path,
) -> None:
    runs = [
        synthetic(
            tmp_path,
            {"a": 1.0},
            name=name,
            seed=seed,
            blocks=2,
            environment={"installed": {"a": {"image x:dev": digest}}},
        )
        for seed, (name, digest) in enumerate((("one", "sha256:1"), ("other", "sha256:2")), 1)
    ]
    with pytest.raises(UsageError, match="installed of a, image x:dev: sha256:1 against sha256:2"):
        analyse(runs)
    done = call(["compare", f"{runs[0].path}:a", f"{runs[1].path}:a"])
    assert "not comparable" not in done.stderr
    assert "undecided: tcp-rr" in done.stdout


@pytest.mark.parametrize("said", [5, "x", ["a"], {"a": 5}, None])
def test_an_environment_that_somebody_changed_breaks_nothing(tmp_path: Path, said: Any) -> None:
    one, other = (
        synthetic(
            tmp_path, {"a": 1.0}, name=name, seed=seed, blocks=2, environment={"installed": what}
        )
        for seed, (name, what) in enumerate(
            (("one", said), ("other", {"a": {"image x": "sha256:1"}})), 1
        )
    )
    assert len(analyse([one, other], allow_different=True).results) > 0
