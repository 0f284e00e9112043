"""The pages of a study's figures: measured and published values side by side, verdicts, and the
reasons of what is not there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from cnibench.analysis import Analysis, Result, analyse
from cnibench.analysis.model import Failure
from cnibench.errors import UsageError
from cnibench.reports._looks import looks
from cnibench.reports.reproduction.build import INDEX, build, measured, verdicts
from cnibench.reports.reproduction.numbers import number
from cnibench.reports.reproduction.page import Page
from cnibench.reproduction import Figures, figures, points
from tests.unit._call import call
from tests.unit._claims import cycles, result, values
from tests.unit._runs import synthetic

SVG = "{http://www.w3.org/2000/svg}"
FILTER = {"policy.entries": 1, "policy.setting": "top-of-chain"}
COMMON = {"streams": 1, "offload.pods": "tso-on"}
GONE = Failure(
    label="cilium",
    profile="cilium",
    placement="",
    workload="",
    params={},
    cell="",
    block=-1,
    metric="",
    status="unsupported",
    reason="the kernel has no BPF",
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """An analysis of a run that has none of the study's cells."""
    run = synthetic(tmp_path_factory.mktemp("run"), {"flannel": 1.0, "cilium": 1.2}, blocks=6)
    return msgspec.structs.replace(analyse([run]), results=[], cpp=[])


def figure_10(swarm: float = 20e9, cilium: float = 25e9) -> list[Result]:
    """Figure 10 of makowski2018, invented."""
    systems = [
        ("swarm-vxlan", COMMON, swarm),
        ("swarm-vxlan-filter", COMMON, swarm),
        ("cilium", COMMON, cilium),
        ("cilium", {**COMMON, **FILTER}, cilium),
    ]
    return [
        result(
            profile,
            values(level, seed=seed),
            workload="iperf3-tcp",
            placement="inter",
            params=params,
            mtu=9000,
            wire_offload="none",
        )
        for seed, (profile, params, level) in enumerate(systems)
    ]


def pages(
    study: str, number: str, analysis: Analysis | None, folder: Path, notes: list[str] | None = None
) -> Page:
    known = figures(study)
    (page,), kept = build(known, known.chosen((number,)), analysis, notes or [], folder)
    assert kept == []
    return page


def texts(path: Path) -> list[str]:
    return [one.text or "" for one in ElementTree.parse(path).getroot().iter(f"{SVG}text")]


def with_results(analysis: Analysis, *rows: Result) -> Analysis:
    return msgspec.structs.replace(analysis, results=list(rows))


def test_a_page_has_measured_and_published_values(empty: Analysis, tmp_path: Path) -> None:
    analysis = with_results(empty, *figure_10())
    page = pages("makowski2018", "10", analysis, tmp_path, ["less: 20 blocks instead of 100"])
    text = (tmp_path / "figure-10.md").read_text()
    assert text == page.text
    for name, published in (("ipt_no_rules", "7.22"), ("cilium_tcp5201", "8.24")):
        (row,) = re.findall(rf"^\| {name} \| ([^|]*) \| ([^|]*) \| ([^|]*) \| 12 \|$", text, re.M)
        assert row[0] == published
        level = 20 if name.startswith("ipt") else 25
        assert float(row[1]) == pytest.approx(level, rel=0.02)
        low, high = map(float, row[2].split(" to "))
        assert low < float(row[1]) < high
    assert "| holds here | ebpf-over-bridge: " in text
    assert "less: 20 blocks instead of 100" in text
    assert "datapath-model" in text
    assert "](figure-10-1.svg)" in text
    drawn = texts(tmp_path / "figure-10-1.svg")
    assert {"ipt_no_rules", "cilium_no_rules", "measured here", "published"} <= set(drawn)
    assert "mean TCP bandwidth, Gb/s" in drawn
    assert measured(page) == "4 of 4"
    assert re.fullmatch(r"holds here: \d+(, .*)?", verdicts(page))
    index = (tmp_path / INDEX).read_text()
    assert "(figure-10.md)" in index
    assert "9: topology of the filtering set-up" in index


def test_what_a_study_says_in_words_follows_its_level(empty: Analysis, tmp_path: Path) -> None:
    text = pages("bruijn2017", "7.4", with_results(empty), tmp_path).text
    assert "- iptables top-of-chain, as published: 2.99, steady\n" in text
    assert "no-match, as published: 2.94, before it falls, from 50 on; about meets" in text


def test_verdicts_are_those_of_the_claims(empty: Analysis, tmp_path: Path) -> None:
    from cnibench.claims import evaluate

    analysis = with_results(empty, *figure_10(swarm=30e9))
    page = pages("makowski2018", "10", analysis, tmp_path)
    known = {one.id: one.verdict for one in evaluate(analysis, ("makowski2018",))}
    assert {one.id: one.verdict for one in page.verdicts} == {
        name: known[name] for name in page.figure.claims
    }
    assert known["ebpf-over-bridge"] == "does-not-hold"


def test_what_was_not_measured_has_its_reason(empty: Analysis, tmp_path: Path) -> None:
    analysis = msgspec.structs.replace(empty, results=figure_10()[:1], failures=[GONE])
    text = pages("makowski2018", "10", analysis, tmp_path).text
    assert "| cilium_no_rules | 8.22 | - | - | - |" in text
    assert "- cilium_no_rules, cilium_tcp5201: not measured: the kernel has no BPF" in text
    assert "- ipt_tcp5201: not measured\n" in text


def test_a_line_has_a_point_at_each_published_and_each_measured_place(empty: Analysis) -> None:
    params = {"streams": 1, "offload.pods": "tso-off", "policy.conntrack": "bypassed"}
    rows = [
        result(
            "bridge-static",
            values(level),
            workload="iperf3-tcp",
            params={**params, "policy.setting": "no-match", "policy.entries": entries},
        )
        for entries, level in ((0, 5e9), (25, 4e9))
    ]
    (panel,) = figures("bruijn2017").chosen(("7.2",))[0].panels
    found = points(panel, with_results(empty, *rows))
    mine = [one for one in found if one.series == "iptables no-match"]
    assert [one.at for one in mine] == [0, 25, 200]
    assert [one.published.low if one.published else None for one in mine] == [3.17, None, 2.26]
    assert mine[1].ours == pytest.approx(4, rel=0.02)
    assert mine[2].ours is None
    (other,) = [one for one in found if one.series == "iptables top-of-chain"]
    assert (other.at, other.ours) == (0, None)
    (panel, _) = figures("bruijn2017").chosen(("7.9",))[0].panels
    (nothing,) = points(panel, with_results(empty, *rows))
    assert (nothing.at, nothing.why) == ("-", "not measured")


def test_published_values_are_drawn_in_the_colour_of_their_line(
    empty: Analysis, tmp_path: Path
) -> None:
    pages("bruijn2017", "7.4", empty, tmp_path)
    root = ElementTree.parse(tmp_path / "figure-7-4-1.svg").getroot()
    filled = {one.get("fill") for one in root.iter(f"{SVG}path")}
    dashed = {one.get("stroke") for one in root.iter(f"{SVG}line") if one.get("stroke-dasharray")}
    cnis = {"cilium-native": "cilium", "bridge-static": "docker", "iptables top-of-chain": "docker"}
    drawn = {
        one.color for one in looks({name: {"cni": cni} for name, cni in cnis.items()}).values()
    }
    assert len(drawn) == 3
    assert drawn <= filled
    assert dashed == drawn
    assert "entries" in texts(tmp_path / "figure-7-4-1.svg")


def test_offload_models_of_the_wire_are_told_apart(empty: Analysis) -> None:
    rows = [
        result(
            "flannel",
            values(level),
            placement="inter",
            params={"message": 1 << 20, **({"offload.wire": wire} if wire == "all" else {})},
            wire_offload=wire,
        )
        for wire, level in (("vxlan", 5e9), ("all", 9e9))
    ]
    first, _, third, _ = figures("qi2021").chosen(("10",))[0].panels
    found = with_results(empty, *rows)
    assert points(first, found)[0].ours == pytest.approx(5, rel=0.02)
    assert points(third, found)[0].ours == pytest.approx(9, rel=0.02)
    missing = points(third, with_results(empty, rows[0]))[0]
    assert (missing.ours, missing.why) == (None, "not measured with the wire's offload model 'all'")


def test_a_stack_has_the_parts_of_both(empty: Analysis, tmp_path: Path) -> None:
    table = cycles(
        "flannel", {"bridge": values(60), "netfilter": values(200), "conntrack": values(50, seed=2)}
    )
    totals = result("flannel", table.by_block["total"], metric="cycles_per_packet")
    analysis = msgspec.structs.replace(empty, cpp=[table], results=[totals])
    text = pages("qi2021", "9", analysis, tmp_path).text
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    (heads,) = [row for row in rows if row[0] == "series"]
    said, ours = (
        dict(zip(heads, row, strict=True))
        for name in ("published", "here")
        for row in rows
        if row[0] == f"Flannel, {name}"
    )
    assert (said["Bridge"], said["FIB"], said["total"]) == ("approximately 45", "-", "-")
    for part, level in (("Bridge", 60), ("Netfilter", 250), ("eBPF", 0), ("total", 410)):
        assert float(ours[part].split()[0]) == pytest.approx(level, rel=0.02), part
    assert "| Weave, here" not in text
    assert {"Flannel, here", "Flannel, published"} <= set(texts(tmp_path / "figure-9-1.svg"))


def test_percentiles_are_drawn_over_latency(empty: Analysis, tmp_path: Path) -> None:
    rows = [
        result(
            "cilium",
            values(level),
            workload="http",
            placement="inter",
            params={"concurrency": 400},
            metric=f"latency_p{share}",
        )
        for share, level in ((50, 0.1), (90, 0.2), (99, 0.9))
    ]
    text = pages("qi2021", "14", with_results(empty, *rows), tmp_path).text
    found = re.findall(r"^\| Cilium \| (50|90|99) \| - \| ([\d.]+) \|", text, re.M)
    assert [round(float(value), -2) for _, value in found] == [100, 200, 900]
    assert {"share of requests", "latency, ms"} <= set(texts(tmp_path / "figure-14-2.svg"))


def test_a_table_of_words_needs_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = call(["reproduce", "makowski2018", "--figure", "5"])
    assert shown.exit_code == 0, shown.stderr
    text = (tmp_path / "reproduced" / "makowski2018" / "figure-5.md").read_text()
    assert "**Not measured:** a table of properties" in text
    assert "| control plane | MP-BGP | none |" in text


def test_the_command_takes_a_run_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = synthetic(tmp_path / "runs", {"flannel": 1.0, "cilium": 1.2}, blocks=6)
    done = call(["reproduce", "qi2021", "--run", "last", "--figure", "8,I,10", "--json"])
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["run"] == run.id
    assert [one["number"] for one in document["figures"]] == ["8", "10", "I"]
    first = document["figures"][0]["panels"][0]["points"][0]
    assert first["series"] == "Flannel"
    assert first["ours"] == pytest.approx(10, rel=0.05)
    published = document["figures"][1]["panels"][0]["points"][0]["published"]
    assert published == {"low": 14, "high": 15.5, "about": False}
    assert {one["id"] for one in document["figures"][0]["claims"]} >= {
        "intra-throughput-cilium-first"
    }
    folder = tmp_path / "reproduced" / run.path.name
    assert {path.name for path in folder.iterdir()} == {
        *("README.md", "figure-8.md", "figure-10.md", "table-i.md"),
        *("figure-8-1.svg", "figure-10-1.svg", ".cnibench-site.json"),
    }
    again = call(["reproduce", "qi2021", "--run", "last", "--figure", "8", "--out", "pages"])
    assert again.exit_code == 0, again.stderr
    assert "inconclusive: 1" in again.stdout or "not measured" in again.stdout
    assert (tmp_path / "pages" / "figure-8.md").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody1999"], "qi2021"),
        (["qi2021", "--figure", "16"], "15"),
        (["qi2021", "--figure", "7"], "drawing"),
        (["qi2021", "--run", "last", "--dry-run"], "--dry-run"),
        (["qi2021", "--run", "none-such"], "none-such"),
    ],
)
def test_wrong_use_is_reported(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(["reproduce", *arguments])
    assert done.exit_code == 2
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_reported(empty: Analysis, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError) as caught:
        pages("makowski2018", "10", empty, file)
    assert "--out" in caught.value.remedy


def test_files_of_others_stay(empty: Analysis, tmp_path: Path) -> None:
    mine = tmp_path / INDEX
    mine.write_text("mine")
    with pytest.raises(UsageError, match=r"README\.md already exists"):
        pages("makowski2018", "10", empty, tmp_path)
    assert mine.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [mine]
    mine.unlink()
    pages("makowski2018", "10", empty, tmp_path)
    (tmp_path / "figure-10.md").write_text("edited")
    known = figures("makowski2018")
    assert build(known, known.chosen(("10",)), empty, [], tmp_path)[1] == ["figure-10.md"]
    assert (tmp_path / "figure-10.md").read_text() == "edited"


def test_numbers_have_no_exponent() -> None:
    assert [number(value) for value in (0, 0.5, 18.91, 123.456, 7481.709)] == [
        *("0", "0.5", "18.91", "123.5", "7482")
    ]


def test_a_study_without_figures_of_a_kind_is_still_listed(tmp_path: Path) -> None:
    known: Figures = figures("makowski2018")
    build(known, known.figures, None, [], tmp_path)
    index = (tmp_path / INDEX).read_text()
    assert "8 figures without data" in index
    assert "| Figure 10: TCP bandwidth with and without a filter | - | - |" in index


def test_a_dry_run_of_a_table_of_properties_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(["reproduce", "makowski2018", "--figure", "5", "--dry-run"])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("nothing is measured\nnote: Figure 5: a table of properties")
    done = call(["reproduce", "qi2021", "--figure", "I", "--dry-run", "--json"])
    assert json.loads(done.stdout)["samples"] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", ["", "7.2,", " ,7.2"])
def test_an_empty_name_of_a_figure_is_refused(names: str) -> None:
    """It would stand for all figures, which take most of an hour."""
    done = call(["reproduce", "bruijn2017", "--figure", names, "--dry-run"])
    assert done.exit_code == 2
    assert "--figure has an empty name" in done.stderr
