"""Claims: each kind and each verdict on figures made for the purpose, and the studies' files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from cnibench.analysis import Analysis, Cpp, Result, analyse
from cnibench.claims import evaluate, studies
from cnibench.claims.evaluate import judgement
from cnibench.claims.model import Claim, Study
from cnibench.claims.verdict import Judgement
from cnibench.collectors.footprint import ALL
from cnibench.errors import UsageError
from cnibench.model.cell import Cell
from cnibench.model.metrics import METRICS
from cnibench.run.provenance import Measured, Provenance, lines
from cnibench.run.sample_context import Measurements
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest, now
from cnibench.rundir.writer import RunWriter
from tests.unit._runs import synthetic


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """An analysis to hang invented results into."""
    run = synthetic(
        tmp_path_factory.mktemp("claims"),
        {"flannel": 1.0},
        blocks=1,
        cpp=False,
        placements=("intra",),
        workloads=("tcp-rr",),
    )
    return msgspec.structs.replace(analyse([run]), results=[], pairs=[], groups=[], cpp=[])


def values(level: float, n: int = 12, noise: float = 0.005, seed: int = 1) -> list[float]:
    return (level * np.exp(noise * np.random.default_rng([seed, n]).standard_normal(n))).tolist()


def result(profile: str, row: list[float], **how: Any) -> Result:
    """One figure; ``how`` overrides where it stands."""
    where: dict[str, Any] = {
        "placement": "intra",
        "path": "pod",
        "workload": "tcp-stream",
        "params": {},
        "ip": 4,
        "mtu": 1500,
        "cpus": "shared",
        "pair": 0,
        "metric": "throughput",
        "testbed": "lab",
        "wire": "veth",
        "wire_offload": "vxlan",
        "fidelity": "datapath-model",
        **how,
    }
    kind = METRICS[where["metric"]]
    return Result(
        **where,
        unit=kind.unit,
        better=kind.better,
        profile=profile,
        label=profile,
        n=len(row),
        mean=float(np.mean(row)),
        median=float(np.median(row)),
        ci_low=None,
        ci_high=None,
        confidence=None,
        spread=None,
        blocks=list(range(len(row))),
        values=row,
    )


def cycles(profile: str, parts: Mapping[str, list[float]], source: str = "estimated") -> Cpp:
    n = len(next(iter(parts.values())))
    total = [sum(row[i] for row in parts.values()) + 100 for i in range(n)]
    return Cpp(
        profile=profile,
        label=profile,
        placement="intra",
        path="pod",
        workload="tcp-stream",
        params={},
        ip=4,
        mtu=1500,
        cpus="shared",
        total=float(np.mean(total)),
        cycles_source=source,
        packets=1e6,
        components={k: float(np.mean(v)) for k, v in parts.items()},
        unclassified=100,
        n=n,
        fidelity="datapath-model",
        blocks=list(range(n)),
        by_block={**parts, "total": total},
    )


def claim(**what: Any) -> Claim:
    usual = {
        "id": "c",
        "source": "s",
        "sentence": "S.",
        "metric": "throughput",
        "workload": ["tcp-stream"],
        "placement": "intra",
    }
    return Claim.model_validate({**usual, **what})


def verdict(one: Claim, analysis: Analysis, *rows: Result | Cpp, **environment: Any) -> Judgement:
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
    results = [row for row in rows if isinstance(row, Result)]
    table = [row for row in rows if isinstance(row, Cpp)]
    facts = {**analysis.environment, **environment}
    return judgement(
        study, one, msgspec.structs.replace(analysis, results=results, cpp=table, environment=facts)
    )


ORDER = {"kind": "order", "higher": ["cilium"], "lower": ["flannel", "kube-router"]}


@pytest.mark.parametrize(
    ("levels", "n", "expected"),
    [
        ((12.0, 10.0, 11.0), 12, "holds"),
        ((12.0, 13.0, 11.0), 12, "does-not-hold"),  # one pair the other way round is enough
        ((10.0, 10.0, 10.0), 12, "does-not-hold"),  # nothing that would matter is left
        ((12.0, 10.0, 11.0), 5, "inconclusive"),  # five blocks can never decide
    ],
)
def test_order(empty: Analysis, levels: tuple[float, float, float], n: int, expected: str) -> None:
    names = ("cilium", "flannel", "kube-router")
    rows = [
        result(name, values(level, n, seed=i))
        for i, (name, level) in enumerate(zip(names, levels, strict=True))
    ]
    found = verdict(claim(**ORDER), empty, *rows)
    assert found.verdict == expected, found.reason
    assert [figure.what for figure in found.figures] == list(names)


def test_order_without_power_refutes_nothing(empty: Analysis) -> None:
    """A wide interval around no difference says nothing."""
    rows = [
        result(name, values(10, 8, noise=0.2, seed=i))
        for i, name in enumerate(("cilium", "flannel", "kube-router"))
    ]
    assert verdict(claim(**ORDER), empty, *rows).verdict == "inconclusive"


def test_order_with_a_profile_missing_is_never_said_to_hold(empty: Analysis) -> None:
    found = verdict(
        claim(**ORDER), empty, result("cilium", values(12)), result("flannel", values(10, seed=2))
    )
    assert found.verdict == "inconclusive"
    assert "kube-router" in found.reason
    assert verdict(claim(**ORDER), empty, result("flannel", values(10))).verdict == "not-measured"


def test_no_data_no_verdict(empty: Analysis) -> None:
    for study in studies().values():
        for one in study.claims:
            found = judgement(study, one, empty)
            assert found.verdict == ("not-testable-here" if one.untestable else "not-measured")
            assert found.reason


@pytest.mark.parametrize(("ratio", "expected"), [(1.2, "holds"), (1.5, "does-not-hold")])
def test_ratio(empty: Analysis, ratio: float, expected: str) -> None:
    one = claim(kind="ratio", higher=["cilium"], lower=["flannel"], ratio=ratio)
    assert (
        verdict(
            one, empty, result("cilium", values(12)), result("flannel", values(10, seed=2))
        ).verdict
        == expected
    )


@pytest.mark.parametrize(("other", "expected"), [(10.05, "holds"), (12.0, "does-not-hold")])
def test_equality(empty: Analysis, other: float, expected: str) -> None:
    one = claim(kind="equality", profiles=["cilium", "flannel"])
    assert (
        verdict(
            one, empty, result("cilium", values(10)), result("flannel", values(other, seed=2))
        ).verdict
        == expected
    )


@pytest.mark.parametrize(
    ("level", "expected"), [(11.1e9, "holds"), (12.5e9, "does-not-hold"), (11.66e9, "inconclusive")]
)
def test_value_in_the_units_of_the_study(empty: Analysis, level: float, expected: str) -> None:
    one = claim(kind="value", published={"flannel": 11.1}, unit="Gbit/s")
    found = verdict(one, empty, result("flannel", values(level)))
    assert found.verdict == expected, found.reason
    assert found.figures[0].published == 11.1e9


def test_ranking(empty: Analysis) -> None:
    one = claim(
        kind="ranking",
        published={"cilium": 12.0, "flannel": 10.0, "kube-router": 10.1},
        unit="Gbit/s",
    )
    rows = [
        result("cilium", values(3)),
        result("flannel", values(2.0, seed=2)),
        result("kube-router", values(2.4, seed=3)),
    ]
    assert (
        verdict(one, empty, *rows).verdict == "holds"
    )  # flannel and kube-router were too close to rank
    assert verdict(one, empty, result("cilium", values(1)), *rows[1:]).verdict == "does-not-hold"


def test_range_and_share_and_absence(empty: Analysis) -> None:
    between = claim(kind="range", profiles=["flannel"], between=[14, 15.5], unit="Gbit/s")
    assert verdict(between, empty, result("flannel", values(14.7e9))).verdict == "holds"
    assert verdict(between, empty, result("flannel", values(10e9))).verdict == "does-not-hold"
    row = cycles("flannel", {"vxlan": values(100, 8), "tcp-ip": values(1800, 8, seed=2)})
    share = {
        "kind": "share",
        "metric": "cycles_per_packet",
        "components": ["vxlan"],
        "profiles": ["flannel"],
    }
    assert verdict(claim(**share, between=[0.03, 0.11]), empty, row).verdict == "holds"
    assert verdict(claim(**share, between=[0.2, 0.3]), empty, row).verdict == "does-not-hold"
    absent = {
        "kind": "absence",
        "metric": "cycles_per_packet",
        "profiles": ["flannel"],
        "at_most": 1,
    }
    assert verdict(claim(**absent, components=["bridge"]), empty, row).verdict == "holds"
    assert verdict(claim(**absent, components=["vxlan"]), empty, row).verdict == "does-not-hold"


def test_components_are_added_up_and_compared(empty: Analysis) -> None:
    one = claim(
        kind="ratio",
        metric="cycles_per_packet",
        components=["netfilter", "conntrack"],
        higher=["calico-wp-xsub"],
        lower=["flannel"],
        ratio=1.35,
    )
    rows = [
        cycles("calico-wp-xsub", {"netfilter": values(170), "conntrack": values(100, seed=2)}),
        cycles("flannel", {"netfilter": values(120, seed=3), "conntrack": values(80, seed=4)}),
    ]
    assert verdict(one, empty, *rows).verdict == "holds"
    counted = claim(**{**one.model_dump(), "preconditions": {"cycles": "pmu"}})
    assert verdict(counted, empty, *rows).verdict == "not-testable-here"


@pytest.mark.parametrize(
    ("end", "what", "expected"),
    [
        (7.1, {"direction": "falls", "ratio": 0.71}, "holds"),
        (7.1, {"direction": "falls"}, "holds"),
        (7.1, {"direction": "stays"}, "does-not-hold"),
        (7.1, {"direction": "rises"}, "does-not-hold"),
        (10.0, {"direction": "stays"}, "holds"),
    ],
)
def test_trend(empty: Analysis, end: float, what: dict[str, Any], expected: str) -> None:
    one = claim(
        kind="trend",
        profiles=["bridge-static"],
        sweep={"param": "policy.entries", "start": 0, "end": 200},
        **what,
    )
    rows = [
        result(
            "bridge-static",
            values(10.0),
            params={"policy.setting": "no-match", "policy.entries": 0},
        ),
        result(
            "bridge-static",
            values(9.0, seed=2),
            params={"policy.setting": "no-match", "policy.entries": 100},
        ),
        result(
            "bridge-static",
            values(end, seed=3),
            params={"policy.setting": "no-match", "policy.entries": 200},
        ),
    ]
    found = verdict(one, empty, *rows)
    assert found.verdict == expected, found.reason
    assert [figure.what for figure in found.figures] == [
        "bridge-static at 0",
        "bridge-static at 200",
    ]
    assert verdict(one, empty, *rows[:2]).verdict == "not-measured"


def test_counts_need_no_test_but_must_agree(empty: Analysis) -> None:
    one = claim(
        kind="value",
        metric="rules",
        workload=["rule-path"],
        published={"flannel": 5, "cilium": 0},
        unit="1",
        within=0,
        by_construction="the model loads them",
    )

    def counts(flannel: float, **how: Any) -> Judgement:
        rows = [
            result(name, [value], metric="rules", workload="rule-path", **how)
            for name, value in (("flannel", flannel), ("cilium", 0.0))
        ]
        return verdict(one, empty, *rows)

    assert counts(5).verdict == "by-construction"
    assert counts(5).reason == "the model loads them"
    assert counts(5, fidelity="cni").verdict == "holds"
    assert counts(6).verdict == "does-not-hold"
    order = claim(
        kind="order", metric="rules", workload=["rule-path"], higher=["flannel"], lower=["cilium"]
    )
    rows = [
        result(name, [value], metric="rules", workload="rule-path")
        for name, value in (("flannel", 5.0), ("cilium", 0.0))
    ]
    assert verdict(order, empty, *rows).verdict == "holds"


@pytest.mark.parametrize(
    ("preconditions", "how", "facts"),
    [
        ({"wire_offload": ["vxlan"]}, {"wire_offload": "none"}, {}),
        ({"wire": ["nic"]}, {}, {}),
        ({"fidelity": ["cni"]}, {}, {}),
        ({"testbed": ["cluster"]}, {}, {}),
        ({"cpu": "E5-2640 v4"}, {}, {}),
        ({"kernel": "4.10"}, {}, {}),
        ({"releases": "those of 2020"}, {}, {}),
        ({}, {}, {"accelerator": "tcg"}),
    ],
)
def test_unmet_preconditions_judge_nothing_and_show_ours(
    empty: Analysis, preconditions: dict[str, Any], how: dict[str, Any], facts: dict[str, Any]
) -> None:
    rows = [result("cilium", values(12), **how), result("flannel", values(10, seed=2), **how)]
    one = claim(kind="order", higher=["cilium"], lower=["flannel"], preconditions=preconditions)
    found = verdict(one, empty, *rows, **facts)
    assert found.verdict == "not-testable-here"
    assert found.reason
    assert found.figures[0].ours == pytest.approx(12, rel=0.05)


def test_met_preconditions_judge(empty: Analysis) -> None:
    met = {"wire_offload": ["vxlan"], "testbed": ["lab"], "cpu": "synthetic", "kernel": "6.1"}
    one = claim(kind="order", higher=["cilium"], lower=["flannel"], preconditions=met)
    assert (
        verdict(
            one, empty, result("cilium", values(12)), result("flannel", values(10, seed=2))
        ).verdict
        == "holds"
    )


def test_an_emulated_vm_still_counts_rules(empty: Analysis) -> None:
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
            empty,
            result("flannel", [5.0], metric="rules", workload="rule-path"),
            accelerator="tcg",
        ).verdict
        == "holds"
    )


def test_places_that_disagree_decide_nothing(empty: Analysis) -> None:
    one = claim(kind="order", higher=["cilium"], lower=["flannel"])
    rows = [
        result("cilium", values(12), mtu=1500),
        result("flannel", values(10, seed=2), mtu=1500),
        result("cilium", values(10), mtu=9000),
        result("flannel", values(12, seed=2), mtu=9000),
    ]
    found = verdict(one, empty, *rows)
    assert found.verdict == "inconclusive"
    assert "MTU 9000" in found.reason


def test_parts_of_a_reading_count_only_where_asked_for(empty: Analysis) -> None:
    one = claim(kind="order", higher=["cilium"], lower=["flannel"])
    half = {"params": {"direction": "forward"}, "reading": {"direction": "forward"}}
    rows = [result("cilium", values(12), **half), result("flannel", values(10, seed=2), **half)]
    assert verdict(one, empty, *rows).verdict == "not-measured"
    asked = claim(
        kind="order", higher=["cilium"], lower=["flannel"], params={"direction": "forward"}
    )
    assert verdict(asked, empty, *rows).verdict == "holds"


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
    plan = Manifest(
        id="r",
        name="",
        created=now(),
        command=["cnibench"],
        tool_version="0",
        seed=1,
        blocks=8,
        duration=1.0,
        warmup=0.0,
        cluster="kind",
        cells=cells,
        profiles={},
    )
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


def test_unknown_study(empty: Analysis) -> None:
    with pytest.raises(UsageError):
        evaluate(empty, ("nobody1999",))


def test_zeros_have_no_ratio_and_still_an_order(empty: Analysis) -> None:
    """A component that is 0 in some blocks: the sign of the differences decides, and no infinite
    ratio is shown.
    """
    rows = [
        cycles("flannel", {"netfilter": [300.0] * 8}),
        cycles("cilium", {"netfilter": [0.0] * 7 + [1.0]}),
    ]
    what: dict[str, Any] = {
        "metric": "cycles_per_packet",
        "components": ["netfilter"],
        "higher": ["flannel"],
        "lower": ["cilium"],
    }
    found = verdict(claim(kind="order", **what), empty, *rows)
    assert found.verdict == "holds"
    assert "inf" not in found.reason
    assert verdict(claim(kind="ratio", ratio=2, **what), empty, *rows).verdict == "inconclusive"
