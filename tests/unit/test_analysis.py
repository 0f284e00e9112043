"""From synthetic run directories to verdicts, groups and words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnibench.analysis import analyse, build
from cnibench.reports.json_ import PROVIDER as JSON
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Unsupported
from tests.unit._analyses import TRUTH, bent, pair_of
from tests.unit._runs import counted, synthetic

BASES = {"veth-baseline": "baseline"}


def test_verdicts_groups_and_words_agree(tmp_path: Path) -> None:
    analysis = analyse([synthetic(tmp_path, TRUTH, fidelity=BASES, seed=2)])
    for metric in ("throughput", "transaction_rate"):
        apart = pair_of(analysis, "veth-baseline", "slow", metric)
        assert apart.verdict == "a-better"
        assert apart.ci_low < 1 / 0.9 < apart.ci_high
        assert apart.p_holm <= 0.05
        tied = pair_of(analysis, "veth-baseline", "same", metric)
        assert tied.verdict == "no-difference-found"
    lower = pair_of(analysis, "veth-baseline", "slow", "cycles_per_packet")
    assert lower.verdict == "a-better"
    assert lower.ratio < 1
    group = next(g for g in analysis.groups if g.metric == "throughput" and g.placement == "intra")
    assert [sorted(names) for names in group.order] == [["same", "veth-baseline"], ["slow"]]
    assert group.letters["slow"] == "b"
    assert analysis.baseline == "veth-baseline"
    words = " ".join(analysis.summary)
    assert "worse (ratio to veth-baseline): slow 0." in words
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
    analysis = analyse([synthetic(tmp_path, {"a": 1.0, "b": 0.5}, blocks=1)])
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
    rest = [line for line in lines if line["metric"] != "cpu_softirq"]
    (reader.path / "samples.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in rest + more)
    )
    analysis = analyse([reader])
    assert [
        r.reading for r in analysis.results if r.metric == "cpu_softirq" and r.label == "a"
    ] == [{"node": "a"}, {"node": "b"}]
    assert len([line for line in analysis.summary if line.startswith("tcp-rr")]) == 1
    assert "node=a" in TEXT.render(analysis, 200)


def test_values_without_any_variance(tmp_path: Path) -> None:
    def flat(line: dict[str, object], _: int) -> dict[str, object]:
        return {**line, "value": 3.0 if line["label"] == "a" else 4.0}

    analysis = bent(tmp_path, flat)
    pair = pair_of(analysis, "a", "b", "throughput")
    assert (pair.verdict, pair.ratio) == ("b-better", pytest.approx(0.75))
    zero = bent(tmp_path / "zero", lambda line, _: {**line, "value": 0.0})
    assert {p.verdict for p in zero.pairs} == {"no-difference-found"}
    assert {p.ratio for p in zero.pairs} == {None}


def test_metrics_that_may_be_zero_are_compared_by_differences(tmp_path: Path) -> None:
    def some(line: dict[str, object], _: int) -> dict[str, object]:
        return (
            {**line, "value": 50.0 if line["label"] == "b" else 0.0}
            if line["metric"] == "retransmits"
            else line
        )

    pair = pair_of(bent(tmp_path, some), "a", "b", "retransmits")
    assert (pair.verdict, pair.ratio) == ("a-better", None)


def test_a_stopped_run_is_judged_at_the_level_of_its_looks(tmp_path: Path) -> None:
    analysis = analyse([synthetic(tmp_path, TRUTH, target_ci=0.02)])
    assert analysis.level == pytest.approx(0.0125)
    assert all(r.confidence is None or r.confidence >= 1 - 0.0125 for r in analysis.results)


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
        "best few (20), significantly different from all others; worse (ratio to few):"
        " many 3.45." in alone.summary[0]
    )


def test_places_with_the_same_outcome_share_a_sentence(tmp_path: Path) -> None:
    few = analyse([synthetic(tmp_path, TRUTH, blocks=1, name="few")]).summary
    assert (
        sum("inconclusive; 1 block is too few to compare 3 profiles" in line for line in few) == 1
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
