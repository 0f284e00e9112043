"""What a study's shorter plan measures is what its figures draw and its claims judge: no point and
no claim of a figure is left without a value, but for those that are named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis import Analysis, Cpp, Result, analyse
from cnibench.claims import evaluate
from cnibench.model.cell import Cell
from cnibench.model.profile import choose
from cnibench.model.units import duration
from cnibench.planning import plans
from cnibench.planning.cells import cells
from cnibench.planning.forecast import passes, whole
from cnibench.registry import provider, providers
from cnibench.reproduction import Panel, figures, points, reduced
from cnibench.reproduction.model import SHARES, WIRE
from cnibench.testbed.cluster import Options
from tests.unit._claims import cycles, result, values
from tests.unit._runs import synthetic

STUDIES = ("bruijn2017", "makowski2018", "qi2021")
PARTS = (
    *("bridge", "fib", "ip-forward", "netfilter", "conntrack", "ebpf", "veth", "vxlan", "ipip"),
    "segmentation",
)
NOT_MEASURED = {
    "multi-no-penalty-slides": "the study was tested up to 200 entries, and so is the plan",
    "scale-sharp-drop": "more than 100 connections saturate two cores",
    "scale-latency-rises": "as scale-sharp-drop",
    "scale-inter-latency-without-offload": "as scale-sharp-drop",
    "memory-small": "of workloads without load, on clusters",
    "memory-small-range": "as memory-small",
    "memory-large-range": "as memory-small",
    "flannel-udp-slow": "the study has no figure of it",
    "weave-udp-slow": "as flannel-udp-slow",
    "table-3-independent": "the rule path is measured without load",
}


def readings(panel: Panel) -> dict[str, Any]:
    """Parameters that a reading adds to those of its cell."""
    known = ("node", "process", "at", "direction")
    return {key: value for key, value in panel.params.items() if key in known}


def rows(panel: Panel, cell: Cell, seed: int) -> Iterator[Result | Cpp]:
    """Invented values of a cell for the metrics of a panel."""
    more = readings(panel)
    wire = cell.params.get(WIRE, "default")
    how: dict[str, Any] = {
        "placement": cell.placement,
        "workload": cell.workload,
        "params": {**cell.params, **more},
        "mtu": cell.mtu,
        "ip": cell.ip,
        "wire_offload": "vxlan" if wire == "default" else wire,
        "reading": more,
    }
    names = [panel.metric]
    if panel.kind == "shares":
        names = [f"{panel.metric}_p{share}" for share in SHARES]
    yield from (result(cell.profile, values(2.0, 8, seed=seed), metric=n, **how) for n in names)
    if cell.window == "cpp":
        table = cycles(cell.profile, {name: values(20.0, 8, seed=seed) for name in PARTS})
        where = {"placement": cell.placement, "workload": cell.workload, "params": cell.params}
        yield msgspec.structs.replace(table, mtu=cell.mtu, ip=cell.ip, **where)


@pytest.mark.parametrize("study", STUDIES)
def test_the_documentation_says_how_long_each_figure_takes(study: str) -> None:
    """As ``--dry-run`` does where every profile can be measured."""
    known, lab, works = (
        figures(study),
        provider("clusters", "lab")(Options()),
        providers("workloads"),
    )
    page = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text(encoding="utf-8")
    for chosen in (known.figures, *((one,) for one in known.figures)):
        name = chosen[0].called if len(chosen) == 1 else "all"
        plan, _ = reduced(known, chosen, plans.named(study))
        samples, seconds = "none", ""
        if plan is not None:
            profiles = choose(plan.cni)
            found = passes(cells(plan, works, profiles)[0], plan.blocks)
            seconds = duration(whole(found, works, plan.duration, plan.warmup, lab, profiles))
            samples = str(len(found))
        assert f"| {study} | {name} | {samples} | {seconds} |\n".replace("  ", " ") in page


@pytest.fixture(scope="module", params=STUDIES)
def measured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Analysis]:
    """A study, and an analysis that has a value for each cell of its shorter plan."""
    study: str = request.param
    known = figures(study)
    plan, _ = reduced(known, known.figures, plans.named(study))
    assert plan
    made = cells(plan, providers("workloads"), choose(plan.cni))[0]
    found: dict[str, Result | Cpp] = {}
    for figure in known.figures:
        for panel in figure.panels:
            for seed, cell in enumerate(made):
                place = (panel.workload, panel.placement, panel.window)
                if (cell.workload, cell.placement, cell.window) != place:
                    continue
                for row in rows(panel, cell, seed):
                    kind = row.metric if isinstance(row, Result) else "parts"
                    found[f"{cell.id} {kind} {readings(panel)}"] = row
    base = analyse([synthetic(tmp_path_factory.mktemp("run"), {"flannel": 1.0}, blocks=6)])
    return study, msgspec.structs.replace(
        base,
        results=[row for row in found.values() if isinstance(row, Result)],
        cpp=[row for row in found.values() if isinstance(row, Cpp)],
    )


def test_every_point_has_a_value(measured: tuple[str, Analysis]) -> None:
    study, analysis = measured
    for figure in figures(study).figures:
        for panel in figure.panels:
            found = points(panel, analysis)
            for one in found:
                assert one.ours is not None, (figure.called, panel.title, one)
            if panel.kind == "lines" and panel.over in figure.reduce:
                assert sorted({one.at for one in found}) == figure.reduce[panel.over]  # type: ignore[type-var]


def test_a_panel_takes_the_values_of_its_ip_family(empty_analysis: Analysis) -> None:
    (figure,) = (one for one in figures("bruijn2017").figures if one.called == "Chapter 8")
    both = [panel for panel in figure.panels if panel.ip]
    assert {panel.ip for panel in both} == {4, 6}
    how = {
        "placement": "inter",
        "workload": "iperf3-tcp",
        "params": {"streams": 1, "offload.pods": "default"},
    }
    at = {4: 1e9, 6: 2e9}
    measured = [result("host", values(rate, 8), ip=ip, **how) for ip, rate in at.items()]
    for panel in both:
        for known, expected in ((measured, at[panel.ip or 4] / 1e9), (measured[:1], None)):
            (one,) = (
                one
                for one in points(panel, msgspec.structs.replace(empty_analysis, results=known))
                if one.series == "host to host"
            )
            if expected is None and panel.ip == 6:
                assert (one.ours, one.why) == (None, "not measured over IPv6")
            else:
                assert one.ours == pytest.approx(at[panel.ip or 4] / 1e9, rel=0.05)


def test_every_claim_is_judged(measured: tuple[str, Analysis]) -> None:
    study, analysis = measured
    named = {name for figure in figures(study).figures for name in figure.claims}
    missing = {
        one.id
        for one in evaluate(analysis, (study,))
        if one.id in named and one.verdict == "not-measured"
    }
    assert missing == NOT_MEASURED.keys() & named
