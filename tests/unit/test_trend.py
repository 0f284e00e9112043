"""Runs of one machine over time: what is put in a series, what is found, and what is refused."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis.trend.build import trend
from cnibench.analysis.trend.model import Trend
from cnibench.errors import UsageError
from cnibench.reports._trend import FORMATS
from cnibench.rundir.reader import RunReader
from tests.unit._call import call
from tests.unit._nights import nights
from tests.unit._runs import edited

GOLDEN = Path(__file__).parent.parent / "golden" / "trend"
STEP = [1.0] * 6 + [0.9] * 6
KERNELS = [{"kernel": "6.1.0" if night < 6 else "6.2.0"} for night in range(12)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunReader]:
    folder = tmp_path_factory.mktemp("nights")
    return nights(folder, {"veth": [1.0] * 12, "flannel": STEP}, facts=KERNELS)


def _changes(found: Trend) -> dict[str, list[str]]:
    return {one.label: [change.run for change in one.changes] for one in found.series}


def test_a_step_is_found_with_the_kernel_that_came_with_it(runs: list[RunReader]) -> None:
    found = trend(list(reversed(runs)))
    assert [run.id for run in found.runs] == [reader.id for reader in runs], "by their start"
    assert _changes(found) == {"veth": [], "flannel": ["n07-7"]}
    (change,) = found.series[1].changes
    assert change.earliest <= "n07-7" <= change.latest
    assert change.low <= 0.9 <= change.high
    assert change.direction == "worse"
    assert [(one.run, one.what) for one in change.differs] == [("n07-7", "kernel: 6.1.0 to 6.2.0")]
    point = found.series[1].points[0]
    assert (point.run, point.n, point.low is not None) == ("n01-1", 4, True)
    assert point.low is not None
    assert point.high is not None
    assert point.low < point.estimate < point.high


def test_the_first_lines_say_what_was_found(runs: list[RunReader]) -> None:
    found = trend(runs)
    said = " ".join(found.summary)
    assert "12 runs from 2026-01-01" in said
    assert "1 change point in 1 of 2 series" in said
    assert "may be the machine" in said
    assert "--baseline LABEL" in FORMATS["text"](found)


def test_a_baseline_cancels_the_machine(tmp_path: Path) -> None:
    levels = {"veth": [1.0] * 12, "flannel": [1.0] * 6 + [1.04] * 6}
    readers = nights(tmp_path, levels, machine=0.2, noise=0.003)
    assert _changes(trend(readers)) == {"veth": [], "flannel": []}
    found = trend(readers, baseline="veth")
    assert _changes(found) == {"flannel": ["n07-7"]}
    (one,) = found.series
    assert (found.baseline, one.unit) == ("veth", "1")
    assert one.points[0].estimate == pytest.approx(1.0, abs=0.02)
    assert one.changes[0].direction == "better"
    with pytest.raises(UsageError, match="no 'nothing'"):
        trend(readers, baseline="nothing")


def test_what_differs_of_the_cni_and_its_settings(tmp_path: Path) -> None:
    readers = nights(tmp_path, {"flannel": STEP})
    for number, reader in enumerate(readers):
        new = number >= 6
        plan = json.loads((reader.path / "plan.json").read_bytes())
        plan["tool_version"] = "0.2.0" if new else "0.1.0"
        plan["profiles"]["flannel"]["datapath"] = {"mode": "native" if new else "vxlan"}
        plan["facts"] = {"commit": "b2" if new else "a1", **({"only": "now"} if new else {})}
        plan["plan"] = {"settings": {"flannel": {"mtu": 9000}} if new else {}}
        (reader.path / "plan.json").write_text(json.dumps(plan))
        facts = json.loads((reader.path / "env.json").read_bytes())
        facts["installed"] = {"flannel": {f"image flannel:{1 + new}": "abc"}}
        facts["sysctls"] = {"a": {"net/ipv4/tcp_rmem": "4096" if new else "8192"}}
        (reader.path / "env.json").write_text(json.dumps(facts))
    found = trend([RunReader(reader.path) for reader in readers])
    (change,) = found.series[0].changes
    assert {one.what for one in change.differs} == {
        "tool version: 0.1.0 to 0.2.0",
        "commit: a1 to b2",
        "sysctls a net/ipv4/tcp_rmem: 8192 to 4096",
        "flannel, profile datapath mode: vxlan to native",
        'flannel, settings: none to {"mtu":9000}',
        "flannel, installed image flannel:1: abc to none",
        "flannel, installed image flannel:2: none to abc",
    }


def test_runs_of_another_machine_or_measurement_are_refused(tmp_path: Path) -> None:
    facts = [{"cpu_model": "old" if night < 10 else "new"} for night in range(20)]
    readers = nights(tmp_path, {"flannel": [1.0] * 10 + [0.5] * 10}, facts=facts)
    readers[10] = dated_again(readers[10], "2026-01-11", "2026-01-10")
    with pytest.raises(UsageError, match="CPU: old against new"):
        trend(readers)
    apart = trend(readers, allow_different=True)
    assert [(one.environment, len(one.points)) for one in apart.series] == [(0, 10), (1, 10)]
    assert all(not one.changes for one in apart.series), "two machines are no change point"
    assert any("CPU: old against new" in note for note in apart.notes)
    assert not any("uncertain" in note for note in apart.notes), "two machines have two clocks"
    edited(readers[3], lambda line: line | {"wire_rate": 2e8})
    with pytest.raises(UsageError, match="wire rate"):
        trend([RunReader(one.path) for one in readers[:10]])


def test_what_an_older_version_did_not_record_is_no_difference(tmp_path: Path) -> None:
    facts: list[dict[str, Any]] = [{"smt": "on"} if night > 3 else {} for night in range(8)]
    found = trend(nights(tmp_path, {"flannel": [1.0] * 8}, facts=facts))
    assert len(found.series[0].points) == 8


def test_few_runs_say_so(runs: list[RunReader]) -> None:
    few = trend(runs[:1])
    assert {one.reason for one in few.series} == {"1 run, change points need at least 8"}
    assert any("Not tested: 1 run" in text for text in few.summary)
    assert "Change points\n-------------\nnot tested\n" in FORMATS["text"](few)
    assert {one.reason for one in trend(runs[:8]).series} == {""}
    assert len(trend(runs[:7]).series[0].points) == 7
    with pytest.raises(UsageError, match="no run was named"):
        trend([])
    with pytest.raises(UsageError, match="one run was named twice"):
        trend([*runs, RunReader(runs[0].path)])


def test_a_label_may_lack_runs(tmp_path: Path) -> None:
    gone = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.9, 0.9, 0.0, 0.9, 0.9, 0.9]
    found = trend(nights(tmp_path, {"veth": [1.0] * 12, "flannel": gone}))
    flannel = found.series[1]
    assert (flannel.label, len(flannel.points)) == ("flannel", 10)
    assert [change.run for change in flannel.changes] == ["n07-7"]
    ratios = trend([RunReader(Path(tmp_path / run.name)) for run in found.runs], baseline="flannel")
    assert [len(one.points) for one in ratios.series] == [10]


def test_values_that_give_no_ratio(tmp_path: Path) -> None:
    readers = nights(tmp_path, {"veth": [1.0] * 9, "flannel": [1.0] * 9})

    def broken(line: dict[str, Any]) -> dict[str, Any]:
        zero = line["label"] == "flannel" and line["metric"] == "transaction_rate"
        return line | ({"value": 0.0} if zero else {})

    readers[4] = edited(readers[4], broken)
    readers[5] = edited(
        readers[5], lambda line: line | ({"value": None} if line["label"] == "veth" else {})
    )
    found = trend(readers)
    assert [len(one.points) for one in found.series] == [8, 0]
    assert found.series[1].reason == "a value is not above 0, so there are no ratios"
    msgspec.json.encode(found)


def test_constants_have_no_change_points(tmp_path: Path) -> None:
    readers = [
        edited(run, lambda line: line | {"value": 5.0})
        for run in nights(tmp_path, {"veth": [1.0] * 9})
    ]
    found = trend(readers, only=["v*"])
    assert [(one.changes, one.points[0].estimate) for one in found.series] == [
        ([], pytest.approx(5.0))
    ]


def test_one_outlying_run_is_no_change_point(tmp_path: Path) -> None:
    found = trend(nights(tmp_path, {"veth": [1.0] * 7 + [0.3] + [1.0] * 7}))
    assert _changes(found) == {"veth": []}


def test_clocks_that_contradict_each_other(tmp_path: Path) -> None:
    readers = nights(tmp_path, {"veth": [1.0] * 9})
    readers[1] = dated_again(readers[1], "2026-01-02", "2026-01-01")
    events = readers[4].path / "events.jsonl"
    lines = events.read_text().splitlines()
    lines[-1] = lines[-1].replace("2026-01-05T", "2026-01-04T")
    events.write_text("\n".join(lines) + "\n")
    found = trend([RunReader(one.path) for one in readers])
    assert any("n02-2 started before n01-1 had finished" in note for note in found.notes)
    assert any("n05-5: finished before it started" in note for note in found.notes)
    assert sum("order is uncertain" in note for note in found.notes) == 1
    assert len(found.series[0].points) == 9


def dated_again(run: RunReader, old: str, new: str) -> RunReader:
    for name in ("events.jsonl", "plan.json", "samples.jsonl"):
        file = run.path / name
        file.write_text(file.read_text().replace(f"{old}T", f"{new}T"))
    return RunReader(run.path)


def test_a_run_without_a_time_has_no_place(tmp_path: Path) -> None:
    readers = nights(tmp_path, {"veth": [1.0] * 2})
    events = readers[0].path / "events.jsonl"
    events.write_text(events.read_text().replace("2026-01-01T00:00:00Z", "yesterday", 1))
    with pytest.raises(UsageError, match="'yesterday' is not a time"):
        trend([RunReader(one.path) for one in readers])


def test_runs_that_depend_on_each_other_are_named(tmp_path: Path) -> None:
    wave = [1 + 0.2 * math.sin(night / 2) for night in range(28)]
    found = trend(nights(tmp_path, {"veth": wave}, noise=0.001))
    assert any(text.startswith("Neighbouring runs depend on each other") for text in found.summary)


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_golden_output(runs: list[RunReader], form: str) -> None:
    """Without the notes, which have the paths of the runs."""
    found = msgspec.structs.replace(trend(runs, baseline="veth"), notes=["clock: set back"])
    golden = (GOLDEN / f"step.{form}").read_text()
    assert _twelve_digits(FORMATS[form](found)) == _twelve_digits(golden)


def _twelve_digits(text: str) -> str:
    """The last digits are not the same on every CPU: numpy adds up in the order that suits it."""
    return re.sub(r"\d+\.\d{12,}(e-?\d+)?", lambda number: f"{float(number[0]):.12g}", text)


def test_the_command(runs: list[RunReader], tmp_path: Path) -> None:
    folder = str(runs[0].path.parent)
    shown = call(["report", "--trend", "--folder", folder])
    assert shown.exit_code == 0
    assert "kernel: 6.1.0 to" in shown.stdout
    named = call(["report", "--trend", "n01", "n02", "--folder", folder, "--json", "--cni", "veth"])
    document = json.loads(named.stdout)
    assert [run["id"] for run in document["runs"]] == ["n01-1", "n02-2"]
    assert {one["label"] for one in document["series"]} == {"veth"}
    out = tmp_path / "trend.md"
    assert call(["report", "--trend", "--folder", folder, "--format", "md", "--out", str(out)])
    assert out.read_text().startswith("# cnibench report: trend")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "csv"], "--trend has no format 'csv'"),
        (["--family", "baseline"], "--family does not apply to --trend"),
        (["--full"], "--full does not apply to --trend"),
        (["--folder", "/nowhere"], "there is no run in /nowhere"),
    ],
)
def test_what_a_trend_does_not_have(runs: list[RunReader], options: list[str], said: str) -> None:
    refused = call(["report", "--trend", "--folder", str(runs[0].path.parent), *options])
    assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr


def test_a_damaged_run_is_named(tmp_path: Path) -> None:
    readers = nights(tmp_path, {"veth": [1.0] * 8})
    file = readers[2].path / "samples.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"value":', b'"value":NaN', 1))
    shown = call(["report", "--trend", "--folder", str(tmp_path)])
    assert shown.exit_code == 1
    assert shown.stdout.splitlines()[1].startswith("problem: n03")
