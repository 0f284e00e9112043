"""Preconditions of claims: figures from other conditions than the claim's judge nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis import Analysis, analyse
from cnibench.claims.evaluate import judgement
from cnibench.claims.model import Preconditions
from cnibench.model.cell import Cell
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.reader import RunReader
from tests.unit._claims import claim, result, study, values, verdict
from tests.unit._runs import edited, synthetic


@pytest.mark.parametrize(
    ("preconditions", "how", "facts"),
    [
        ({"wire_offload": ["vxlan"]}, {"wire_offload": "none"}, {}),
        ({"wire": ["nic"]}, {}, {}),
        ({"fidelity": ["cni"]}, {}, {}),
        ({"testbed": ["cluster"]}, {}, {}),
        ({"mtu": [9000]}, {}, {}),
        ({"mtu": [1500]}, {"mtu": 0}, {}),
        (
            {"conditions": {"offload.pods": ["default"]}},
            {"params": {"offload.pods": "tso-off"}},
            {},
        ),
        ({"cpu": "E5-2640 v4"}, {}, {}),
        ({"kernel": "4.10"}, {}, {}),
        ({"releases": "those of 2020"}, {}, {}),
        ({}, {}, {"accelerator": "tcg"}),
    ],
)
def test_unmet_preconditions_judge_nothing_and_show_ours(
    empty_analysis: Analysis,
    preconditions: dict[str, Any],
    how: dict[str, Any],
    facts: dict[str, Any],
) -> None:
    rows = [result("cilium", values(12), **how), result("flannel", values(10, seed=2), **how)]
    one = claim(kind="order", higher=["cilium"], lower=["flannel"], preconditions=preconditions)
    found = verdict(one, empty_analysis, *rows, **facts)
    assert found.verdict == "not-testable-here"
    assert found.reason
    assert found.figures[0].ours == pytest.approx(12, rel=0.05)


def test_met_preconditions_judge(empty_analysis: Analysis) -> None:
    met = {
        "wire_offload": ["vxlan"],
        "testbed": ["lab"],
        "mtu": [9000, 1500],
        "conditions": {"offload.pods": ["tso-on", "default"]},
        "cpu": "synthetic",
        "kernel": "6.1",
    }
    one = claim(kind="order", higher=["cilium"], lower=["flannel"], preconditions=met)
    assert (
        verdict(
            one, empty_analysis, result("cilium", values(12)), result("flannel", values(10, seed=2))
        ).verdict
        == "holds"
    )


@pytest.mark.parametrize(
    ("laptop", "node", "expected"),
    [("Synthetic CPU", "Xeon E5-2640 v4", "holds"), ("Xeon E5-2640 v4", "x", "not-testable-here")],
)
def test_a_cluster_s_machines_are_its_nodes(
    empty_analysis: Analysis, laptop: str, node: str, expected: str
) -> None:
    """Not the machine that ran the command."""
    rows = [result("cilium", values(12)), result("flannel", values(10, seed=2))]
    one = claim(
        kind="order", higher=["cilium"], lower=["flannel"], preconditions={"cpu": "E5-2640 v4"}
    )
    nodes = {"a": {"cpu_model": node}, "b": {"cpu_model": node}}
    facts = {"testbed": "cluster", "cpu_model": laptop, "nodes": nodes}
    assert verdict(one, empty_analysis, *rows, **facts).verdict == expected


def test_a_study_has_preconditions_of_all_its_claims(empty_analysis: Analysis) -> None:
    """Makowski's links had an MTU of 9000; a claim's own value takes the place of the study's."""
    rows = [result("cilium", values(12)), result("flannel", values(10, seed=2))]
    measured = msgspec.structs.replace(empty_analysis, results=rows)
    about: dict[str, Any] = {"kind": "order", "higher": ["cilium"], "lower": ["flannel"]}
    for own, expected in (({}, "not-testable-here"), ({"mtu": [1500]}, "holds")):
        one = claim(**about, preconditions=own)
        asks = study(one).model_copy(update={"preconditions": Preconditions(mtu=(9000,))})
        said = judgement(asks, one, measured)
        assert said.verdict == expected
        if not own:
            assert said.reason == "not tested here: the MTU is 1500 B, the claim is about 9000 B"


def test_an_emulated_vm_still_counts_rules(empty_analysis: Analysis) -> None:
    one = claim(
        kind="value",
        metric="rules",
        workload=["rule-path"],
        published={"flannel": 5},
        unit="1",
        within=0,
    )
    assert (
        verdict(
            one,
            empty_analysis,
            result("flannel", [5.0], metric="rules", workload="rule-path"),
            accelerator="tcg",
        ).verdict
        == "holds"
    )


def test_a_claim_about_another_wire_is_not_tested(tmp_path: Path) -> None:
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
    provenance = Provenance("lab", "veth", "vxlan", "datapath-model", duration=10.0)
    found = []
    for line in run.samples():
        cell = msgspec.convert(
            next(one for one in plan["cells"] if one["label"] == line.label), Cell
        )
        (empty,) = failure(cell, line.block, provenance, "ok", "", line.start)
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
    about = {"kind": "order", "higher": ["cilium"], "lower": ["flannel"], "placement": "inter"}
    analysis = analyse([RunReader(run.path)])
    for wire, expected in (("vxlan", "not-testable-here"), ("none", "does-not-hold")) * 2:
        one = claim(**about, preconditions={"wire_offload": [wire]})
        said = judgement(study(one), one, analysis)
        assert said.verdict == expected
        if wire == "vxlan":
            assert (
                said.reason == "not tested here: the wire offload is none, the claim is about vxlan"
            )
        else:  # the second time with lines of earlier versions, which give the run's offload
            analysis = analyse([edited(run, lambda line: line | {"wire_offload": "vxlan"})])
