"""Where the difference in cycles per packet of two profiles is: steps that add up, in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import structs

from cnibench.analysis.model import Cpp, Pair
from cnibench.cpp import colors
from cnibench.reports._looks import looks
from cnibench.reports.site.build import build
from cnibench.reports.site.dataset import Material, material
from cnibench.reports.site.figures import waterfall
from tests.unit._runs import synthetic
from tests.unit._site import Page

ONE = {"bridge": 100.0, "netfilter": 200.0, "tcp-ip": 50.0, "lock": 3.0}
OTHER = {"ebpf": 80.0, "netfilter": 20.0, "tcp-ip": 55.0, "lock": 1.0, "idle": 4.0}
MANY = {name: 10.0 * at for at, name in enumerate(colors.stacking()[:12], 1)}
MORE = {**MANY, "lock": 500.0}  # has no colour of its own


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Material:
    run = synthetic(tmp_path_factory.mktemp("runs"), {"flannel": 1.0, "cilium": 2.0})
    return material([run], raw=False, allow_different=False, baseline="")


def cycles(found: Material, label: str, components: Mapping[str, float]) -> Cpp:
    total = math.fsum(components.values())
    parts = dict(components)
    return structs.replace(
        found.analysis.cpp[0], label=label, components=parts, total=total, unclassified=0.0
    )


def pair(found: Material, verdict: str) -> Pair:
    return structs.replace(found.analysis.pairs[0], verdict=verdict)


@pytest.mark.parametrize(
    ("one", "other"), [(ONE, OTHER), (OTHER, ONE), (ONE, MANY), (ONE, MORE), (ONE, ONE)]
)
def test_the_steps_lead_from_one_total_to_the_other(
    found: Material, one: dict[str, float], other: dict[str, float]
) -> None:
    rows = [cycles(found, "flannel", one), cycles(found, "cilium", other)]
    known = looks({row.label: {"cni": row.label} for row in rows})
    chart = waterfall.chart(rows[0], rows[1], "there", list(known.values()))
    ends, steps = chart.spec["ends"], chart.spec["steps"]
    assert [label for label, _, _ in ends] == ["flannel", "cilium"]
    assert [total for _, total, _ in ends] == [rows[0].total, rows[1].total]
    assert ends[0][1] + sum(change for _, change, _ in steps) == pytest.approx(ends[1][1])
    sizes = [abs(change) for part, change, _ in steps if part != "other"]
    assert sizes == sorted(sizes, reverse=True)
    assert len(steps) <= 9
    parts = [part for part, _, _ in steps]
    assert parts.count("other") == sum("other" in part for part in parts) <= 1
    assert [shade for _, _, shade in ends] == [known[label].color for label, _, _ in ends]
    assert [shade for _, _, shade in steps] == [colors.color(part) for part in parts]


def test_what_distinguishes_cnis_has_a_step_by_its_name_however_small_that_is(
    found: Material,
) -> None:
    tiny = dict.fromkeys(("ebpf", "vxlan", "conntrack", "bridge"), 1.0)
    large = {name: 10.0 * at for at, name in enumerate(set(colors.stacking()[:-2]) - {*tiny}, 1)}
    rows = [cycles(found, "flannel", {"copy": 1.0}), cycles(found, "cilium", large | tiny)]
    known = looks({row.label: {"cni": row.label} for row in rows})
    steps = waterfall.chart(rows[0], rows[1], "there", list(known.values())).spec["steps"]
    assert {*tiny} < {part for part, _, _ in steps}
    assert len(steps) == 9
    assert max(large, key=large.__getitem__) == steps[0][0]


def test_the_sentence_names_a_cause_only_where_the_difference_is_proven(found: Material) -> None:
    one, other = cycles(found, "flannel", ONE), cycles(found, "cilium", OTHER)
    proven = (
        "flannel takes 353 cycles per packet, cilium 160 (a significant difference): cilium saves"
        " 180 cycles of netfilter and pays 80 of ebpf."
    )
    assert waterfall.sentence(one, other, pair(found, "b-better")) == proven
    assert waterfall.sentence(other, one, pair(found, "a-better")) == proven
    modelled = structs.replace(pair(found, "b-better"), basis="additive model")
    said = waterfall.sentence(one, other, modelled)
    assert said == proven.replace("difference)", "difference, assuming normal noise)")
    open_ = "flannel takes 353 cycles per packet, cilium 160 (not proven to differ)."
    assert waterfall.sentence(one, other, pair(found, "inconclusive")) == open_
    assert waterfall.sentence(one, other, None) == open_.replace("proven to differ", "tested")


def test_the_page_of_a_pair_has_it(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"flannel": 1.0, "cilium": 2.0}, blocks=12, placements=("inter",))
    build([run], tmp_path / "site")
    page = Page(tmp_path / "site" / "versus-flannel-cilium.html")
    said = r"flannel takes 2,\d{3} cycles per packet, cilium 1,\d{3} \(a significant difference\): "
    assert re.search(said + r"cilium saves 7\d\d cycles of tcp-ip\.", page.text)
    assert "from flannel to cilium" in page.text
    assert "These are models of the datapaths, not the CNIs themselves." in page.text
