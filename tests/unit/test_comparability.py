"""What may be put into one figure, compared or resumed; and that each coordinate of a figure is
declared.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cnibench import __version__
from cnibench.analysis import analyse
from cnibench.analysis.model import Where
from cnibench.cli._execute import _measure
from cnibench.cli.run import command
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.errors import UsageError
from cnibench.model import context
from cnibench.model.cell import Cell, Sample
from cnibench.model.context import disagreements
from cnibench.model.profile import builtin
from cnibench.planning.plan import build_plan, cells
from cnibench.registry import providers
from cnibench.run.provenance import Measured, Provenance, failure, lines
from cnibench.run.sample_context import Measurements
from cnibench.rundir.reader import RunReader
from cnibench.system.environment import machine, this_cpu
from cnibench.testbed.cluster import Options
from tests.unit._call import call
from tests.unit._runs import synthetic

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
    for run in (one, other):
        file = run.path / "samples.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            line["congestion_control"] = "cubic" if line["status"] == "ok" else ""
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = analyse([RunReader(one.path), RunReader(other.path)])
    assert {result.n for result in found.results} == {7}


def _lines(run: RunReader, **change: Any) -> None:
    file = run.path / "samples.jsonl"
    found = [json.loads(line) | change for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in found))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wire_rate": 2e8}, "wire rate: unlimited against 200 Mbit/s"),
        ({"method": "slices"}, "method: windows against slices"),
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
    _lines(other, **change)
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
    file = run.path / "samples.jsonl"
    found = [json.loads(line) for line in file.read_text().splitlines()]
    found = [line | {"duration": 60.0 if line["label"] == "b" else 1.0} for line in found]
    file.write_text("".join(json.dumps(line) + "\n" for line in found))
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


def test_a_plan_with_one_workload_at_two_durations_or_blocks_is_refused() -> None:
    works = providers("workloads")
    profiles = {"host": builtin()["host"]}
    for key, values, said in (
        ("duration", ("1s", "60s"), "1 s and 60 s"),
        ("blocks", (6, 9), "6 and 9 blocks"),
    ):
        plan = build_plan(
            {
                "cni": ["host"],
                "blocks": 6,
                "workload": [{"name": "tcp-stream", key: value} for value in values],
            }
        )
        with pytest.raises(UsageError, match=said) as error:
            cells(plan, works, profiles)
        assert "tcp-stream" in error.value.message
    twice = build_plan(
        {
            "cni": ["host"],
            "blocks": 6,
            "workload": ["tcp-stream", "tcp-stream"],
            "placement": ["intra"],
            "windows": ["speed"],
        }
    )
    assert len(cells(twice, works, profiles)[0]) == 1


def test_lines_say_what_was_in_force() -> None:
    cell = Cell(
        label="x",
        profile="x",
        placement="inter",
        workload="tcp-rr",
        params={"offload.wire": "none", "offload.pods": "default"},
    )
    ground = Provenance(
        "lab",
        "veth",
        "vxlan",
        "baseline",
        wire_rate=2e8,
        pairs=2,
        warmup_time=1.5,
        duration=3.0,
        congestion_control="cubic",
    )
    found = Measurements()
    found.add("transaction_rate", 1.0)
    (line,) = lines(
        cell, 0, ground, Measured(found, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")
    )
    (failed,) = failure(cell, 0, ground, "failed", "gone", "2026-01-01T00:00:00Z")
    for one in (line, failed):
        assert (one.wire_offload, one.wire_rate, one.pairs, one.warmup_time, one.duration) == (
            "none",
            2e8,
            2,
            1.5,
            3.0,
        )
        assert (one.congestion_control, one.method) == ("cubic", "windows")
    (own,) = failure(
        msgspec.structs.replace(cell, duration=60.0, params={"offload.wire": "default"}),
        0,
        ground,
        "failed",
        "gone",
        "",
    )
    assert (own.wire_offload, own.duration) == ("vxlan", 60.0)


def test_every_coordinate_is_declared() -> None:
    """A new option of run, field of a sample or fact of the environment has a role before it can be
    merged.
    """
    options = {parameter.name for parameter in command.params}
    assert not options - context.OPTIONS, (
        "an option of run that no coordinate in model/context.py names"
    )
    assert not set(Sample.__struct_fields__) - context.FIELDS, (
        "a field of Sample without a role in model/context.py"
    )
    facts = set(machine(("netperf",))) | set(LabCluster(Options()).environment())
    assert not facts - context.FACTS, "a fact of env.json without a role in model/context.py"
    assert not set(context.PLACE_NAMES) - set(Where.__struct_fields__)
    assert not set(context.PLACE_NAMES) - set(Sample.__struct_fields__)
    assert set(context.OF_CELL) <= set(Cell.__struct_fields__)


def test_every_fact_that_a_stored_run_has_is_declared(tmp_path: Path) -> None:
    """The keys that code writes into env.json, read from the code itself."""
    import ast

    folder = Path(context.__file__).parents[1]
    found = set()
    for name in (
        "clusters/lab/cluster.py",
        "clusters/kind.py",
        "clusters/existing/present.py",
        "clusters/existing/cluster.py",
        "clusters/kubernetes/nodes/environment.py",
    ):
        for function in ast.walk(ast.parse((folder / name).read_text())):
            if isinstance(function, ast.FunctionDef) and function.name in (
                "environment",
                "describe",
            ):
                found |= {
                    key.value
                    for node in ast.walk(function)
                    if isinstance(node, ast.Dict)
                    for key in node.keys
                    if isinstance(key, ast.Constant)
                }
                found |= {
                    node.slice.value
                    for node in ast.walk(function)
                    if isinstance(node, ast.Subscript)
                    and isinstance(node.slice, ast.Constant)
                    and isinstance(node.ctx, ast.Store)
                }
    assert {"kernel", "wire_offload", "nodes"} <= found
    assert not found - context.FACTS


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
        _measure(request, run.path, True, {}, False)
    assert "kernel: 5.15.0-old against" in error.value.message
    assert "CPUs: 4096 against" in error.value.message
    assert "CPU:" not in error.value.message
    assert error.value.exit_code == 2
    assert {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()} == before


def test_one_metric_decides_everywhere(tmp_path: Path) -> None:
    """Flat latency beside a rate that scatters by 40 % must not end a run: stopping looks at what
    the report ranks by.
    """
    from cnibench.cli._execute import comparisons
    from cnibench.stats.sequential import decide

    works = providers("workloads")
    run = synthetic(
        tmp_path,
        {"a": 1.0, "b": 1.0},
        blocks=8,
        noise=0.4,
        workloads=("tcp-rr",),
        placements=("intra",),
        cpp=False,
        main={"tcp-rr": works["tcp-rr"].primary},
    )
    rates = list(run.samples())
    flat = [
        msgspec.structs.replace(line, metric="latency_mean", value=2e-5)
        for line in rates
        if line.metric == "transaction_rate"
    ]
    (series,) = comparisons([*rates, *flat], works, 8).values()
    decision = decide({"a against b": series}, 0.02, 8)
    assert decision.widest > 0.05, decision.reason
    (shown,) = [group for group in analyse([run]).groups if group.metric == works["tcp-rr"].primary]
    assert shown.metric == "transaction_rate"


def test_the_run_says_which_metric_decides(tmp_path: Path) -> None:
    more = {
        "blocks": 8,
        "noise": 0.003,
        "workloads": ("tcp-rr",),
        "placements": ("intra",),
        "cpp": False,
    }
    run = synthetic(tmp_path, {"a": 1.0, "b": 1.0}, main={"tcp-rr": "cpu_softirq"}, **more)
    assert "cpu_softirq" in call(["compare", f"{run.path}:a", f"{run.path}:b"]).stdout
    assert "tcp-rr on one node: CPU softirq" in call(["report", str(run.path)]).stdout


def test_a_claim_about_another_wire_is_not_tested(tmp_path: Path) -> None:
    from cnibench.claims.evaluate import judgement
    from cnibench.claims.model import Study

    run = synthetic(
        tmp_path,
        {"cilium": 1.0, "flannel": 1.2},
        blocks=8,
        workloads=("tcp-stream",),
        placements=("inter",),
        cpp=False,
    )
    plan = json.loads((run.path / "plan.json").read_text())
    for cell in plan["cells"]:
        cell["params"] = {"offload.wire": "none", "offload.pods": "default"}
    (run.path / "plan.json").write_text(json.dumps(plan))
    ground = Provenance("lab", "veth", "vxlan", "datapath-model", duration=10.0)
    found = []
    for line in run.samples():
        cell = msgspec.convert(
            next(one for one in plan["cells"] if one["label"] == line.label), Cell
        )
        (empty,) = failure(cell, line.block, ground, "ok", "", line.start)
        found.append(
            msgspec.structs.replace(
                empty,
                schema=1,
                metric=line.metric,
                value=line.value,
                unit=line.unit,
                better=line.better,
            )
        )
    (run.path / "samples.jsonl").write_bytes(
        b"".join(msgspec.json.encode(line) + b"\n" for line in found)
    )
    claim = {
        "id": "c",
        "source": "s",
        "sentence": "S.",
        "metric": "throughput",
        "workload": ["tcp-stream"],
        "placement": "inter",
        "kind": "order",
        "higher": ["cilium"],
        "lower": ["flannel"],
    }
    analysis = analyse([RunReader(run.path)])
    for wire, verdict in (("vxlan", "not-testable-here"), ("none", "does-not-hold")) * 2:
        one = claim | {"preconditions": {"wire_offload": [wire]}}
        study = Study.model_validate(
            {
                "schema": 1,
                "name": "t",
                "title": "T",
                "authors": "A",
                "published": "2020",
                "claims": [one],
            }
        )
        said = judgement(study, study.claims[0], analysis)
        assert said.verdict == verdict
        if wire == "vxlan":
            assert (
                said.reason == "not tested here: the wire offload is none, the claim is about vxlan"
            )
        else:  # the second time with lines of earlier versions, which told the run's offload
            _lines(run, wire_offload="vxlan")
            analysis = analyse([RunReader(run.path)])


def test_records_and_columns_come_from_the_declaration(tmp_path: Path) -> None:
    from cnibench.cli.query import ask
    from cnibench.rundir.schema import coordinates

    cell = Cell(label="x", profile="x", placement="inter", workload="tcp-rr")
    assert set(coordinates(cell, 0)) == {"schema", "attempt", "cell", "block", *context.OF_CELL}
    run = synthetic(tmp_path, {"x": 1.0}, blocks=1)
    heads, _ = ask("select * from samples", [run])
    assert heads == ["run", *Sample.__struct_fields__]


def test_the_sites_filters_are_the_coordinates_in_which_places_differ(tmp_path: Path) -> None:
    more = {"cpp": False, "blocks": 4, "workloads": ("tcp-rr",)}
    one = synthetic(tmp_path, {"x": 1.0}, name="one", **more)
    other = synthetic(tmp_path, {"x": 1.0}, name="other", seed=2, plan={"wire_rate": 2e8}, **more)
    call(["site", str(one.path), "--out", str(tmp_path / "alone")])
    plain = (tmp_path / "alone" / "index.html").read_text()
    assert '<select class="where" name="placement">' in plain
    assert "wire_rate" not in plain.partition("<form")[2].partition("</form>")[0]
    call(
        [
            "site",
            str(one.path),
            str(other.path),
            "--out",
            str(tmp_path / "both"),
            "--allow-different",
        ]
    )
    both = (tmp_path / "both" / "index.html").read_text()
    assert (
        '<option value="0.0">unlimited</option><option value="200000000.0">200 Mbit/s</option>'
        in both
    )
    assert 'data-wire_rate="200000000.0"' in both


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
