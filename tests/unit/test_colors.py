"""One colour for each component and each CNI, whatever else a run has."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cnibench.analysis.text.narrative import primary_groups
from cnibench.cpp import colors, taxonomy
from cnibench.cpp.stacks import USER, Stack
from cnibench.model.profile import builtin
from cnibench.reports._looks import Look, looks
from cnibench.reports._page.flame import flame_page
from cnibench.reports.board import build as board
from cnibench.reports.bundle.making import bundle
from cnibench.reports.document.parts import Section
from cnibench.reports.site.build import build
from cnibench.reports.site.dataset import material
from cnibench.reports.site.figures import cycles
from cnibench.reports.site.pages.overview import pages
from cnibench.reports.site.places import place
from cnibench.reproduction import figures
from tests.unit._bundles import stored
from tests.unit._runs import synthetic
from tests.unit._sight import BLACK, NIGHT, WHITE, contrast, difference
from tests.unit._site import Page, add_site_records

PART_OF_OTHER = {"tun", "lock", "idle", "other"}
BY_NAME = ("ebpf", "vxlan", "conntrack", "bridge")
SHIPPED = {name: {"name": name, "cni": one.cni} for name, one in builtin().items()}
COMPONENTS = taxonomy.load().components


def test_each_component_has_a_colour_or_is_part_of_other() -> None:
    own = {name: one.color for name, one in COMPONENTS.items() if one.color}
    assert COMPONENTS.keys() - own.keys() == PART_OF_OTHER
    assert set(BY_NAME) < own.keys()
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in own.values())
    assert {colors.color(name) for name in PART_OF_OTHER} == {colors.color(colors.OTHER)}
    assert colors.color("of another taxonomy") == colors.color(colors.OTHER)


def test_components_that_are_stacked_side_by_side_look_different_to_everybody() -> None:
    shades = [colors.color(name) for name in colors.stacking()]
    for one, other in pairwise(shades):
        assert difference(one, other)[1] > 0.11, (one, other)
    for one, other in combinations(shades, 2):
        assert difference(one, other)[0] > 0.08, (one, other)
    for shade in shades:
        assert contrast(shade, NIGHT) > 3
        assert contrast(shade, BLACK) > 4.5  # of the names in a flame graph


def test_cycles_without_a_colour_of_their_own_are_added_up() -> None:
    found = colors.grouped({"lock": 2.0, "vxlan": 1.0, "other": 3.0, "bridge": 4.0, "fib": 0.0}, 5)
    assert list(found.items()) == [("bridge", 4), ("vxlan", 1), ("other", 5), ("unclassified", 5)]


def shown(folder: Path, truth: Mapping[str, float], components: dict[str, float]) -> dict[str, str]:
    """The colours of a chart of cycles per packet."""
    found = material([synthetic(folder, truth)], raw=False, allow_different=False, baseline="")
    rows = [structs.replace(row, components=components) for row in found.analysis.cpp]
    found = replace(found, analysis=structs.replace(found.analysis, cpp=rows))
    (group, *_) = primary_groups(found.analysis)
    chart = cycles.chart(found, place(found.analysis, group, Section("", [], []), frozenset()))
    assert chart
    scale = chart.spec["encoding"]["color"]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def test_a_component_has_the_same_colour_in_every_chart_and_flame_graph(tmp_path: Path) -> None:
    many = dict.fromkeys(["tcp-ip", "skb", "copy", "sched", "irq", "driver", "netfilter"], 900.0)
    small = dict.fromkeys(BY_NAME, 1.0)
    one = shown(tmp_path / "one", {"flannel": 1.0, "cilium": 1.1}, many | small)
    other = shown(tmp_path / "other", {"weave": 1.0, "cilium": 1.1}, small | {"lock": 7.0})
    assert one.keys() >= {*many, *small}
    assert other.keys() == {*small, "other", "unclassified"}
    assert all(one[name] == other[name] for name in one.keys() & other.keys())
    frames = {"br_handle_frame": "bridge", "bpf_prog_run": "ebpf", "_raw_spin_lock": "other"}
    tree = {(name,): 1.0 for name in [*frames, "nobody_knows_this"]}
    page = flame_page(tree, None, label="a", where="b", source="pmu")
    legend = {name: color for name, color, _ in page.legend}
    assert legend == {name: other[name] for name in [*frames.values(), "unclassified"]}
    drawn = json.loads(page.frames)
    for frame, name in frames.items():
        at = drawn["color"][drawn["names"].index(frame)]
        assert drawn["colors"][at] == legend[name]


def test_other_has_the_same_cycles_on_every_page(tmp_path: Path) -> None:
    """Locks have no colour and are part of it, as are functions of the taxonomy's own ``other``."""
    stacks = (
        Stack("cell", ("_raw_spin_lock", "tcp_sendmsg"), 2e6, 20),
        Stack("cell", ("tun_net_xmit", "tcp_sendmsg"), 1e6, 10),
        Stack("cell", ("do_syscall_64", USER), 4e6, 40),
        Stack("kernel", ("br_handle_frame", "net_rx_action"), 3e6, 30),
    )
    truth = {"flannel": 1.0, "cilium": 1.1}
    cycles = dict.fromkeys(truth, stacks)
    run = stored(tmp_path / "run", truth, workloads=("tcp-rr",), cycles=cycles)
    (tmp_path / "results" / "here").mkdir(parents=True)
    (tmp_path / "results" / "here" / "a.cnibench").write_bytes(bundle(run))
    board.build(tmp_path / "results", tmp_path / "board")
    build([run], tmp_path / "site", baseline="")
    legend = 'other <span class="much">7000<'
    assert legend in (tmp_path / "site" / "flames" / "flannel-intra-tcp-rr.html").read_text()
    flames = sorted((tmp_path / "board" / "bundles").glob("*-?.html"))
    assert all(legend in one.read_text() for one in flames)
    shown = next((tmp_path / "board" / "bundles").glob("*run.html")).read_text()
    assert "</span>other 7000, <span" in shown
    assert not re.search(r"</span>(lock|tun|unclassified)\b", shown)
    for name in ("workload-tcp-rr", "profile-flannel", "versus-flannel-cilium"):
        text = Page(tmp_path / "site" / f"{name}.html").text
        assert "7000" in text.replace(",", ""), name
        assert not re.search(r"\b(lock|tun)\b", text), name


def lines(folder: Path, truth: Mapping[str, float]) -> dict[str, Any]:
    """Colour, dashes and marker of each profile in a chart of a site."""
    run = synthetic(
        folder, truth, blocks=6, workloads=("tcp-rr",), placements=("inter",), cpp=False
    )
    add_site_records(run)
    found = material([run], raw=False, allow_different=False, baseline="")
    specs = [chart.spec for chart in pages(found).gallery.charts.values()]
    (spec, *_) = [one for one in specs if "strokeDash" in json.dumps(one)]
    line = next(one["encoding"] for one in spec["layer"] if one["mark"]["type"] == "line")
    marks = {row["profile"]: row["shape"] for row in spec["data"]["values"]}
    scales = [line[channel]["scale"] for channel in ("color", "strokeDash")]
    return {
        label: (marks[label], *(scale["range"][scale["domain"].index(label)] for scale in scales))
        for label in scales[0]["domain"]
    }


def test_a_cni_has_the_same_colour_on_every_site(tmp_path: Path) -> None:
    one = lines(tmp_path / "one", {"flannel": 1.0, "cilium": 1.1, "calico-wp-xsub": 1.2})
    other = lines(tmp_path / "other", {"weave": 1.0, "calico-wp-xsub": 1.3, "cilium": 1.1})
    for label in ("cilium", "calico-wp-xsub"):
        assert one[label] == other[label]
    assert len({color for _, color, _ in (one | other).values()}) == 4


def test_every_bar_of_a_cni_has_its_colour(tmp_path: Path) -> None:
    """On the overview, in the rankings, on the board and on the page of a bundle."""
    truth = {"flannel": 1.0, "cilium": 1.3}
    own = {label: look.color for label, look in looks({n: SHIPPED[n] for n in truth}).items()}
    run = stored(tmp_path / "run", truth, blocks=8)
    found = material([run], raw=False, allow_different=False, baseline="")
    for chart in pages(found).gallery.charts.values():
        if "fillOpacity" in json.dumps(chart.spec):
            bars = chart.spec["layer"][0]["encoding"]
            scale = bars["fill"]["scale"]
            assert dict(zip(scale["domain"], scale["range"], strict=True)) == own
            full = bars["fillOpacity"]["scale"]
            assert dict(zip(full["domain"], full["range"], strict=True)) == {
                "in the leading group": 1,
                "behind it": 0.45,
            }
            break
    else:
        raise AssertionError("there is no ranking")
    build([run], tmp_path / "site", baseline="")
    overview = (tmp_path / "site" / "index.html").read_text()
    bars = re.findall(r'class="who">(.*?)</span>.*?<span class="bar" style="(.*?)"', overview, re.S)
    assert {label for label, _ in bars} == own.keys()
    assert all(style.endswith(f"background: {own[label]}") for label, style in bars)
    (tmp_path / "results" / "here").mkdir(parents=True)
    (tmp_path / "results" / "here" / "a.cnibench").write_bytes(bundle(run))
    board.build(tmp_path / "results", tmp_path / "board")
    text = (tmp_path / "board" / "data.js").read_text()
    cnis = json.loads(text[text.index("=") + 1 : text.rindex(";")])["cnis"]
    assert {one["title"].partition(" ")[0]: one["color"] for one in cnis} == own
    page = next((tmp_path / "board" / "bundles").glob("*.html")).read_text()
    rows = re.findall(r"<td>(flannel|cilium)</td>.*?background: (#\w+)", page)
    assert {label for label, _ in rows} == own.keys()
    assert all(own[label] == color for label, color in rows)


def test_each_shipped_profile_looks_like_no_other() -> None:
    everything = looks(SHIPPED)
    assert len(set(everything.values())) == len(SHIPPED)
    for name, profile in SHIPPED.items():
        assert looks({name: profile}) == {name: everything[name]}


def test_the_modes_of_a_cni_have_its_marker_and_cnis_differ() -> None:
    found = looks(SHIPPED)
    assert {found[name].shape for name in found if name.startswith("calico")} == {"square"}
    assert found["kindnet"].shape == found["kindnetd"].shape
    assert found["flannel-k3s"].shape == found["flannel"].shape
    firsts = [one for one in found.values() if one.dash == (1, 0)]
    for one, other in combinations(firsts, 2):
        if one.shape == other.shape:
            assert difference(one.color, other.color)[0] > 0.05, (one, other)
    for look in [*found.values(), *unlisted(range(40))]:
        assert contrast(look.color, WHITE) >= 3
        assert contrast(look.color, NIGHT) >= 3


def unlisted(numbers: Sequence[int]) -> list[Look]:
    cnis = ({"name": f"mine-{n}", "cni": f"cni-{n}"} for n in numbers)
    return [look for one in cnis for look in looks({one["name"]: one}).values()]


def test_a_profile_that_is_not_shipped_has_a_look_of_its_own() -> None:
    mine = {"name": "mine", "cni": "something"}
    alone = looks({"mine": mine})["mine"]
    assert looks({**SHIPPED, "mine": mine})["mine"] == alone
    assert alone.color not in {look.color for look in looks(SHIPPED).values()}
    mode = {"name": "cilium-mine", "cni": "cilium"}
    assert looks({"cilium-mine": mode})["cilium-mine"].shape == looks(SHIPPED)["cilium"].shape


@pytest.mark.parametrize("order", [1, -1])
def test_profiles_of_a_chart_never_look_alike(order: int) -> None:
    """The same profile with ten settings, beside itself: the listed one keeps its look."""
    flannel = SHIPPED["flannel"]
    labels = ["flannel", *(f"flannel-{n}" for n in range(10))][::order]
    found = looks(dict.fromkeys(labels, flannel))
    assert list(found) == labels
    assert len(set(found.values())) == len(labels)
    assert found["flannel"] == looks({"flannel": flannel})["flannel"]
    assert found == looks(dict.fromkeys(reversed(labels), flannel))
    crowd = looks({f"flannel-{n}": flannel for n in range(40)})  # more than there are looks
    assert len(set(crowd.values())) == 15


def test_the_parts_of_a_study_s_figure_have_colours_of_their_own() -> None:
    for study in ("qi2021", "bruijn2017", "makowski2018"):
        for figure in figures(study).figures:
            for panel in figure.panels:
                shades = [colors.color(names[0]) for names in panel.components.values()]
                assert len({*shades, colors.color(colors.OTHER)}) == len(shades) + 1
