"""From synthetic run directories to verdicts, groups and words."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.analysis import Analysis, analyse, build
from cnibench.analysis.calibration import calibration
from cnibench.errors import CnibenchError, InputError, UsageError
from cnibench.reports.json_ import PROVIDER as JSON
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Unsupported
from tests.unit._runs import counted, synthetic

TRUTH = {"veth-baseline": 1.0, "same": 1.0, "slow": 0.9}
BASES = {"veth-baseline": "baseline"}


def _pair(analysis: Analysis, a: str, b: str, metric: str, placement: str = "intra") -> object:
    return next(
        p
        for p in analysis.pairs
        if (p.a, p.b, p.metric, p.placement) == (a, b, metric, placement) and not p.reading
    )


def test_verdicts_groups_and_words_agree(tmp_path: Path) -> None:
    analysis = analyse([synthetic(tmp_path, TRUTH, fidelity=BASES, seed=2)])
    for metric in ("throughput", "transaction_rate"):
        apart = _pair(analysis, "veth-baseline", "slow", metric)
        assert apart.verdict == "a-better"
        assert apart.ci_low < 1 / 0.9 < apart.ci_high
        assert apart.p_holm <= 0.05
        tied = _pair(analysis, "veth-baseline", "same", metric)
        assert tied.verdict == "no-difference-found"
    lower = _pair(analysis, "veth-baseline", "slow", "cycles_per_packet")
    assert lower.verdict == "a-better"
    assert lower.ratio < 1
    group = next(g for g in analysis.groups if g.metric == "throughput" and g.placement == "intra")
    assert [sorted(names) for names in group.order] == [["same", "veth-baseline"], ["slow"]]
    assert group.letters["slow"] == "b"
    assert analysis.baseline == "veth-baseline"
    words = " ".join(analysis.summary)
    assert "worst slow" in words
    assert "no NIC was in the path" in words
    assert analysis.cpp[0].total == pytest.approx(
        sum(analysis.cpp[0].components.values()) + analysis.cpp[0].unclassified
    )
    assert all(item.passed for item in analysis.attestations)


def test_cpp_windows_give_cycles_and_never_speed(tmp_path: Path) -> None:
    analysis = analyse([synthetic(tmp_path, TRUTH, blocks=6)])
    speed = [r for r in analysis.results if r.metric == "throughput"]
    assert {r.n for r in speed} == {6}
    assert {r.cycles_source for r in analysis.results if r.metric == "cycles_per_packet"} == {
        "estimated"
    }


def test_few_blocks_are_inconclusive_and_say_how_many_would_do(tmp_path: Path) -> None:
    analysis = analyse([synthetic(tmp_path, {"a": 1.0, "b": 0.5}, blocks=5)])
    assert {p.verdict for p in analysis.pairs} == {"inconclusive"}
    assert {p.blocks_needed for p in analysis.pairs} == {6}
    assert all(r.ci_low is None for r in analysis.results)
    assert "at least 6 are needed" in analysis.summary[0]
    assert "inconclusive" in analysis.summary[0]


def test_the_json_has_what_interface_promises(tmp_path: Path) -> None:
    unsupported = [
        Unsupported(label="ipip", profile="ipip", lacks="CONFIG_NET_IPIP", remedy="use --kernel vm")
    ]
    document = json.loads(
        JSON.render(
            analyse([synthetic(tmp_path, TRUTH, unsupported=unsupported, fail=[("slow", 2)])])
        )
    )
    assert set(document) >= {
        "schema",
        "run",
        "environment",
        "results",
        "groups",
        "pairs",
        "cpp",
        "attestations",
        "failures",
    }
    assert set(document["run"]) >= {
        "id",
        "name",
        "started",
        "finished",
        "seed",
        "command",
        "tool_version",
    }
    where = {"placement", "workload", "params", "metric"}
    result = {
        "profile",
        "label",
        "path",
        "ip",
        "mtu",
        "cpus",
        "testbed",
        "wire",
        "unit",
        "better",
        "n",
        "mean",
        "median",
        "ci_low",
        "ci_high",
    }
    assert set(document["results"][0]) >= where | result | {"confidence", "fidelity"}
    assert set(document["pairs"][0]) >= where | {
        "a",
        "b",
        "ratio",
        "ci_low",
        "ci_high",
        "p",
        "p_holm",
        "verdict",
    }
    assert set(document["groups"][0]) >= where | {"order"}
    cpp = {
        "profile",
        "placement",
        "workload",
        "total",
        "cycles_source",
        "packets",
        "components",
        "unclassified",
    }
    assert set(document["cpp"][0]) >= cpp
    assert set(document["attestations"][0]) >= {
        "profile",
        "check",
        "expected",
        "observed",
        "passed",
    }
    failures = document["failures"]
    assert failures[0]["status"] == "unsupported"
    assert "CONFIG_NET_IPIP" in failures[0]["reason"]
    assert {f["reason"] for f in failures[1:]} == {"the server is gone"}
    slow = next(
        r for r in document["results"] if r["label"] == "slow" and r["metric"] == "throughput"
    )
    assert (slow["n"], slow["failed"]) == (11, 1)


def test_runs_are_pooled_only_when_they_are_comparable(tmp_path: Path) -> None:
    one = synthetic(tmp_path, TRUTH, blocks=6, name="one", seed=1)
    two = synthetic(tmp_path, TRUTH, blocks=6, name="two", seed=2)
    other = synthetic(
        tmp_path, TRUTH, blocks=6, name="other", seed=3, environment={"kernel": "5.15.0"}
    )
    pooled = analyse([one, two])
    assert {r.n for r in pooled.results} == {12}
    with pytest.raises(UsageError, match=r"kernel: 6\.1\.0 against 5\.15\.0"):
        analyse([one, other])
    beside = analyse([one, other], allow_different=True)
    assert {r.n for r in beside.results} == {6}
    assert {r.environment for r in beside.results} == {0, 1}
    with pytest.raises(UsageError, match="twice"):
        analyse([one, RunReader(one.path)])
    with pytest.raises(UsageError):
        analyse([])
    with pytest.raises(UsageError, match="no 'nothing'"):
        analyse([one], baseline="nothing")


def test_readings_with_their_own_parameters_stay_apart(tmp_path: Path) -> None:
    reader = synthetic(
        tmp_path,
        {"a": 1.0, "b": 1.0},
        blocks=6,
        workloads=["tcp-rr"],
        placements=["intra"],
        cpp=False,
    )
    lines = [json.loads(line) for line in (reader.path / "samples.jsonl").read_text().splitlines()]
    more = [
        {**line, "params": {**line["params"], "node": node}}
        for line in lines
        if line["metric"] == "cpu_softirq"
        for node in "ab"
    ]
    _write(reader, [line for line in lines if line["metric"] != "cpu_softirq"] + more)
    analysis = analyse([reader])
    assert [
        r.reading for r in analysis.results if r.metric == "cpu_softirq" and r.label == "a"
    ] == [{"node": "a"}, {"node": "b"}]
    assert len([line for line in analysis.summary if line.startswith("tcp-rr")]) == 1
    assert "node=a" in TEXT.render(analysis, 200)


def _write(reader: RunReader, lines: list[object]) -> None:
    (reader.path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _bent(tmp_path: Path, change: object, **more: object) -> Analysis:
    """The analysis of a run whose sample lines went through ``change`` (line, number) -> line or
    text.
    """
    reader = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=6, **more)
    lines = [json.loads(line) for line in (reader.path / "samples.jsonl").read_text().splitlines()]
    out = []
    for number, line in enumerate(lines):
        new = change(line, number)
        out.append(new if isinstance(new, str) else json.dumps(new))
    (reader.path / "samples.jsonl").write_text("\n".join(out) + "\n")
    analysis = analyse([RunReader(reader.path)])
    for provider in (TEXT, JSON):
        assert provider.render(analysis)
    return analysis


def test_values_that_are_no_numbers_fail_and_are_told(tmp_path: Path) -> None:
    none = _bent(tmp_path / "none", lambda line, n: {**line, "value": None} if n == 0 else line)
    assert any(f.reason == "no value" for f in none.failures)
    nan = _bent(tmp_path / "nan", lambda line, n: {**line, "value": math.nan} if n == 3 else line)
    assert any("line 4" in problem for problem in nan.problems)
    huge = _bent(
        tmp_path / "huge",
        lambda line, n: json.dumps(line).replace(str(line["value"]), "1e999") if n == 0 else line,
    )
    assert any("line 1" in problem for problem in huge.problems)


def test_all_failed_is_said_and_not_a_traceback(tmp_path: Path) -> None:
    failed = _bent(
        tmp_path,
        lambda line, _: {**line, "metric": "", "value": None, "status": "failed", "reason": "gone"},
    )
    assert failed.results == []
    assert failed.summary[0].startswith("Nothing was measured")


def test_one_sample_and_one_profile(tmp_path: Path) -> None:
    reader = synthetic(
        tmp_path, {"only": 1.0}, blocks=1, workloads=["tcp-rr"], placements=["intra"], cpp=False
    )
    analysis = analyse([reader])
    assert analysis.pairs == []
    assert "no other profile to compare it with" in analysis.summary[0]
    assert "only" in TEXT.render(analysis, 80)


def test_values_without_any_variance(tmp_path: Path) -> None:
    def flat(line: dict[str, object], _: int) -> dict[str, object]:
        return {**line, "value": 3.0 if line["label"] == "a" else 4.0}

    analysis = _bent(tmp_path, flat)
    pair = _pair(analysis, "a", "b", "throughput")
    assert (pair.verdict, pair.ratio) == ("b-better", pytest.approx(0.75))
    zero = _bent(tmp_path / "zero", lambda line, _: {**line, "value": 0.0})
    assert {p.verdict for p in zero.pairs} == {"no-difference-found"}
    assert {p.ratio for p in zero.pairs} == {None}


def test_metrics_that_may_be_zero_are_compared_by_differences(tmp_path: Path) -> None:
    def some(line: dict[str, object], _: int) -> dict[str, object]:
        return (
            {**line, "value": 50.0 if line["label"] == "b" else 0.0}
            if line["metric"] == "retransmits"
            else line
        )

    pair = _pair(_bent(tmp_path, some), "a", "b", "retransmits")
    assert (pair.verdict, pair.ratio) == ("a-better", None)


def test_clock_jumps_outliers_and_unfinished_runs_are_told(tmp_path: Path) -> None:
    back = _bent(
        tmp_path / "back",
        lambda line, n: {**line, "start": "2020-01-01T00:00:00Z"} if n > 30 else line,
    )
    assert any("clock was set back" in note for note in back.notes)
    out = _bent(
        tmp_path / "out", lambda line, n: {**line, "value": line["value"] * 50} if n == 0 else line
    )
    assert any("outlying" in note for note in out.notes)
    result = next(r for r in out.results if r.outliers)
    assert result.n == 6
    unfinished = analyse([synthetic(tmp_path, TRUTH, blocks=2, name="unfinished", finished=False)])
    assert any("not finished" in note for note in unfinished.notes)


def test_missing_metrics_and_labels_are_named(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, TRUTH, blocks=6, fail=[("slow", block) for block in range(6)])
    assert any("slow" in text for text in analyse([reader]).summary)
    partly = _bent(
        tmp_path / "partly",
        lambda line, _: (
            {**line, "metric": "packets"}
            if line["label"] == "b"
            and line["workload"] == "tcp-rr"
            and line["metric"] == "transaction_rate"
            else line
        ),
    )
    assert any("no transaction_rate from b" in note for note in partly.notes)


def test_drift_is_told(tmp_path: Path) -> None:
    reader = synthetic(
        tmp_path,
        {"a": 1.0, "b": 1.0},
        blocks=20,
        noise=0.001,
        workloads=["tcp-rr"],
        placements=["intra"],
        cpp=False,
    )
    lines = [json.loads(line) for line in (reader.path / "samples.jsonl").read_text().splitlines()]
    _write(
        reader, [{**line, "value": line["value"] * (1 + 0.05 * line["block"])} for line in lines]
    )
    assert any("drift" in note for note in analyse([reader]).notes)


def test_a_stopped_run_is_judged_at_the_level_of_its_looks(tmp_path: Path) -> None:
    analysis = analyse([synthetic(tmp_path, TRUTH, target_ci=0.02)])
    assert analysis.level == pytest.approx(0.0125)
    assert all(r.confidence is None or r.confidence >= 1 - 0.0125 for r in analysis.results)


def test_cut_off_newer_and_empty_runs(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, TRUTH, blocks=6)
    file = reader.path / "samples.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert any("cut off" in note for note in analyse([RunReader(reader.path)]).notes)
    file.write_bytes(whole + whole.splitlines()[0].replace(b'"schema":1', b'"schema":99') + b"\n")
    with pytest.raises(InputError, match="newer"):
        analyse([RunReader(reader.path)])
    file.write_bytes(b"")
    assert analyse([RunReader(reader.path)]).summary == ["Nothing was measured."]
    file.unlink()
    assert analyse([RunReader(reader.path)]).results == []


@settings(max_examples=25)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=40))
def test_broken_bytes_are_never_a_traceback(broken: RunReader, at: int, junk: bytes) -> None:
    file = broken.path / "samples.jsonl"
    whole = (broken.path / "whole").read_bytes()
    place = at * len(whole) // 400
    file.write_bytes(whole[:place] + junk + whole[place + len(junk) :])
    with suppress(CnibenchError):
        assert TEXT.render(analyse([RunReader(broken.path)]), 80)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    reader = synthetic(tmp_path_factory.mktemp("broken"), {"a": 1.0, "b": 0.9}, blocks=2)
    (reader.path / "whole").write_bytes((reader.path / "samples.jsonl").read_bytes())
    return reader


def test_unusable_cpp_records_are_left_out_and_told(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, {"a": 1.0}, blocks=2)
    with (reader.path / "cpp.jsonl").open("ab") as file:
        file.write(msgspec.json.encode({"schema": 1, "cell": "x", "total": None}) + b"\n")
    analysis = analyse([RunReader(reader.path)])
    assert any("no usable total" in note for note in analysis.notes)
    assert len(analysis.cpp) == 4


def test_calibration_finds_the_noise_and_few_false_alarms(tmp_path: Path) -> None:
    quiet = synthetic(
        tmp_path,
        {"x.a": 1.0, "x.b": 1.0},
        blocks=240,
        noise=0.004,
        name="quiet",
        seed=1,
        workloads=["tcp-rr"],
        cpp=False,
    )
    loud = synthetic(
        tmp_path,
        {"x.a": 1.0, "x.b": 1.0},
        blocks=240,
        noise=0.03,
        name="loud",
        seed=2,
        workloads=["tcp-rr"],
        cpp=False,
    )
    found = calibration([quiet, loud], 0.02)
    assert [floor.noise for floor in found.floors] == [
        pytest.approx(noise, rel=0.2) for noise in (0.004, 0.004, 0.03, 0.03)
    ]
    assert found.comparisons == 160
    assert found.low <= found.expected <= found.high
    few, many = found.floors[0], found.floors[2]
    assert few.blocks == 6
    assert many.blocks is not None
    assert 30 < many.blocks < 80
    assert all(line.startswith("tcp-rr") for line in found.recommended)
    assert len(found.recommended) == 2
    with pytest.raises(UsageError, match="two labels that must tie"):
        calibration([synthetic(tmp_path, {"x": 1.0}, name="one", blocks=6)], 0.02)
    none = synthetic(
        tmp_path, {"a": 1.0, "b": 1.0}, name="none", blocks=1, fail=[("a", 0), ("b", 0)]
    )
    assert calibration([none], 0.02).rate is None


def test_counts_that_are_alike_in_every_block_are_known_and_need_no_test(tmp_path: Path) -> None:
    analysis = analyse(
        [
            counted(
                tmp_path,
                {
                    "none": [0, 0],
                    "few": [20, 20],
                    "same": [20, 20],
                    "many": [69, 69],
                    "odd": [70, 71],
                },
            )
        ]
    )
    pairs = {(pair.a, pair.b): pair for pair in analysis.pairs}
    assert (pairs["few", "many"].verdict, pairs["few", "many"].ratio, pairs["few", "many"].p) == (
        "a-better",
        20 / 69,
        None,
    )
    assert (pairs["none", "few"].verdict, pairs["none", "few"].ratio) == ("a-better", None)
    assert (pairs["few", "same"].verdict, pairs["few", "same"].ratio) == (
        "no-difference-found",
        1.0,
    )
    assert all(
        pair.verdict == "inconclusive" and not pair.exact
        for names, pair in pairs.items()
        if "odd" in names
    )
    assert "6 are counts, not measurements, and need no test" in " ".join(analysis.summary)
    text = TEXT.render(analysis)
    assert "(counted)" in text
    alone = analyse([counted(tmp_path / "alone", {"few": [20, 20], "many": [69, 69]})])
    assert "all values are counts" in " ".join(alone.summary)
    assert (
        "best few (20), significantly different from all others; worst many (69), 3.45 times the"
        " best" in alone.summary[0]
    )


def test_places_with_the_same_outcome_share_a_sentence(tmp_path: Path) -> None:
    few = analyse([synthetic(tmp_path, TRUTH, blocks=3, name="few")]).summary
    assert (
        sum("inconclusive; 3 blocks are too few to compare 3 profiles" in line for line in few) == 1
    )
    assert few[0].startswith(
        "tcp-rr on one node, tcp-rr between nodes, tcp-stream on one node, tcp-stream between"
        " nodes: inconclusive"
    )
    same = analyse([synthetic(tmp_path, {"a": 1.0, "b": 1.0}, blocks=12, name="same")]).summary
    assert sum("no significant difference among the 2 profiles" in line for line in same) == 1


def test_an_unknown_wire_is_not_called_another_than_a_nic(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, TRUTH, blocks=3)
    file = reader.path / "samples.jsonl"
    file.write_text(file.read_text().replace('"wire":"veth"', '"wire":"not recorded"'))
    assert (
        "whether a NIC was in the path is not recorded"
        in analyse([RunReader(reader.path)]).summary[-1]
    )
    file.write_text(file.read_text().replace('"wire":"not recorded"', '"wire":"nic"'))
    assert "NIC" not in analyse([RunReader(reader.path)]).summary[-1]


def test_swept_values_stand_in_the_order_of_numbers() -> None:
    swept = [
        '{"concurrency":200}',
        '{"setting":"no-match"}',
        '{"concurrency":1}',
        '{"concurrency":50}',
    ]
    assert sorted(swept, key=build._natural) == [swept[2], swept[3], swept[0], swept[1]]
