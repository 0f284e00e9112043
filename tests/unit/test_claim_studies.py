"""The claims of the studies that cnibench has, judged by runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.analysis import Analysis, analyse
from cnibench.claims import evaluate, studies
from cnibench.claims.evaluate import judgement
from cnibench.collectors.footprint import ALL
from cnibench.errors import UsageError
from cnibench.model.cell import Cell
from cnibench.run.provenance import Measured, Provenance, lines
from cnibench.run.sample_context import Measurements
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import now
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest
from tests.unit._claims import values


def test_no_data_no_verdict(empty_analysis: Analysis) -> None:
    for study in studies().values():
        for one in study.claims:
            found = judgement(study, one, empty_analysis)
            assert found.verdict == ("not-testable-here" if one.untestable else "not-measured")
            assert found.reason


@pytest.mark.parametrize(
    ("flannel", "expected"),
    [
        (
            45,
            {
                "memory-small": "holds",
                "memory-small-range": "holds",
                "memory-large-range": "holds",
                "memory-independent": "holds",
            },
        ),
        (
            190,
            {
                "memory-small": "does-not-hold",
                "memory-small-range": "does-not-hold",
                "memory-independent": "holds",
            },
        ),
    ],
)
def test_memory_is_judged_by_all_processes_of_a_node(
    tmp_path: Path, flannel: float, expected: dict[str, str]
) -> None:
    """From a run in the store, whose CNIs have processes of different names."""
    levels = {
        "flannel": flannel,
        "kube-router": 44.0,
        "weave": 170.0,
        "cilium": 185.0,
        "calico-wp-xsub": 165.0,
    }
    works = [("tcp-rr", {})] + [
        ("tcp-rr-under-load", {"connections": connections}) for connections in (100, 1000)
    ]
    cells = [
        Cell(label=label, profile=label, placement="inter", workload=work, params=params)
        for label in levels
        for work, params in works
    ]
    plan = manifest(cells, blocks=8, cluster="kind")
    with RunWriter.create(tmp_path / "run", plan) as writer:
        writer.environment({"kernel": "6.1"})
        for number, cell in enumerate(cells):
            for block, total in enumerate(values(levels[cell.label] * 1e6, 8, seed=number)):
                found = Measurements()
                found.add("memory", 0.7 * total, process=f"{cell.label}-agent on a")
                found.add("memory", total, process=ALL, node="a")
                found.add("memory", 9 * total, process=ALL, node="b")
                found.add("cpu_user", 0.5, node="a")
                writer.finish(
                    cell,
                    block,
                    lines(
                        cell,
                        block,
                        Provenance("kind", "veth", "", "cni"),
                        Measured(found, now(), now()),
                    ),
                )
    judged = {one.id: one for one in evaluate(analyse([RunReader(tmp_path / "run")]), ("qi2021",))}
    assert {name: judged[name].verdict for name in expected} == expected
    assert judged["memory-small"].figures[-1].ours == pytest.approx(44e6, rel=0.05)


def test_unknown_study(empty_analysis: Analysis) -> None:
    with pytest.raises(UsageError):
        evaluate(empty_analysis, ("nobody1999",))
