"""The site as files: what is on which page, and which names are left out."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from cnibench.model.profile import builtin
from cnibench.reports.site.build import build
from cnibench.rundir.schema import LOG
from tests.unit._call import call
from tests.unit._runs import disturb, synthetic
from tests.unit._site import OFFLOAD, TRUTH, Page, check_links, runs_of_a_site


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Two runs with everything, without raw data."""
    folder = tmp_path_factory.mktemp("whole")
    truth = {"veth-baseline": 1.3, **TRUTH}
    facts = {
        "hostname": "secret-box",
        "nodes": {"secret-box": {"address": "192.168.7.9"}},
        "foreign_programs": ["/usr/bin/payroll"],
    }
    facts |= {
        "note": (
            "payroll on secret-box at 192.168.7.9 and fd00::17, 02:00:5e:10:00:07, /home/alice/run;"
            " kernel 6.1.0"
        )
    }
    known_agent = {"agent": "flanneld", "version": "v0.28.4", "differences": 0}
    facts |= {"offload": OFFLOAD, "certificates": {"flannel": known_agent, "cilium": {}}}
    known = {label: builtin()[label].model_dump(mode="json", by_alias=True) for label in truth}
    runs = runs_of_a_site(
        folder,
        truth,
        blocks=12,
        environment=facts,
        command=["cnibench", "run", "--cni", "/home/alice/x.yaml"],
        profiles=known,
    )
    site = folder / "site"
    return site, build(runs, site)


def test_every_page_is_there_and_every_link_leads_somewhere(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    site, written = whole
    assert {
        "index.html",
        "features.html",
        "method.html",
        "trend.html",
        "workload-tcp-rr.html",
        "profile-cilium.html",
    } <= set(written["pages"])
    assert "profile-calico-wp-ipip.html" in written["pages"]
    check_links(site, written["pages"])
    assert (site / "vega.js").stat().st_size > 100_000
    pictures = sorted((site / "charts").iterdir())
    text = "".join((site / name).read_text() for name in written["pages"])
    shown = set(re.findall(r'<figure class="chart" id="([^"]*)"', text))
    assert len(shown) == written["charts"]
    pairs = {one for one in shown if re.match("steps-|versus-", one)}  # the page alone draws them
    assert pairs
    assert {picture.stem for picture in pictures} == shown - pairs
    assert len(pictures) == 2 * len(shown - pairs) > 20
    for picture in pictures:
        assert picture.read_bytes().startswith(b"<svg" if picture.suffix == ".svg" else b"\x89PNG")
        assert picture.with_suffix({".svg": ".png", ".png": ".svg"}[picture.suffix]) in pictures
    for name in written["pages"]:
        assert (site / name).stat().st_size < 2_000_000


def test_a_verdict_by_a_model_says_so_and_shows_no_p(tmp_path: Path) -> None:
    """Four blocks decide by no test; the test's p, above the level, stood beside "is better"."""
    truth = {"cilium": 1.3, "flannel": 1.0}
    one = {"workloads": ("tcp-rr",), "placements": ("inter",), "cpp": False}
    run = synthetic(tmp_path, truth, blocks=4, noise=0.001, **one)  # type: ignore[arg-type]
    build([run], tmp_path / "site", baseline="")
    page = Page(tmp_path / "site" / "versus-cilium-flannel.html").text
    assert "cilium is better in 1. This assumes normal noise." in page
    assert page.count("assumes normal noise") == 3
    assert "With too few blocks for a test, a model decides" in page


def test_the_overview_answers_first_and_says_what_the_figures_are(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    text = Page(whole[0] / "index.html").text
    lead = text[: text.index("At a glance")]
    assert (
        "calico-wp-xsub is in the leading group in all 3 comparisons that could be decided" in lead
    )
    assert "veth-baseline is in the leading group" not in lead
    assert "These are models of the datapaths, not the CNIs themselves." in lead
    assert "ewest cycles" not in lead  # a mean without a test names nobody in a headline
    assert lead.count("No recommendation: the wire between the nodes is veth") == 1
    for words in (
        "model of the datapath, not the CNI itself",
        "cycles estimated",
        "baseline, no CNI",
        "testbed lab",
    ):
        assert words in lead


def test_studies_with_tested_claims_come_first(whole: tuple[Path, dict[str, Any]]) -> None:
    """Profiles of qi2021 were measured, and none of bruijn2017, whose name comes first."""
    text = Page(whole[0] / "claims.html").text
    first = text[text.index("without them it is not given") :]
    assert first.index("qi2021") < first.index("bruijn2017")


def test_claims_that_were_not_tested_are_folded(whole: tuple[Path, dict[str, Any]]) -> None:
    """Most of them: a page of all would be thirty screens of a desktop."""
    page = (whole[0] / "claims.html").read_text()
    folded = re.findall("<details>.*?</details>", page, re.DOTALL)
    assert "not measured" in "".join(folded)
    rest = re.sub("<details>.*?</details>", "", page, flags=re.DOTALL)
    shown = re.findall('class="verdict ([a-z-]+)"', rest)
    assert shown
    assert {"not-measured", "not-testable-here"}.isdisjoint(shown)
    assert f"{len(shown)} of " in rest


def test_a_link_to_a_page_shows_its_answer_and_that_it_is_of_models(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    for name, title, answer in (
        ("index.html", "Which CNI for me?", "is in the leading group in all 3 comparisons"),
        ("versus-flannel-calico-wp-xsub.html", "flannel or calico-wp-xsub?", "is better in"),
    ):
        tags = [tag for kind, tag in Page(whole[0] / name).tags if kind == "meta"]
        card = {tag["property"]: tag["content"] or "" for tag in tags if "property" in tag}
        assert card["og:title"] == title
        assert answer in card["og:description"]
        assert card["og:description"].endswith("models of the datapaths, not the CNIs themselves.")


def test_a_workload_has_all_its_charts_with_their_numbers(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    site, _ = whole
    page = Page(site / "workload-tcp-stream.html")
    for words in (
        "distribution of latency",
        "over the time of a sample",
        "steps of a Pod",
        "Rule path",
        "by component",
        "KUBE-SERVICES",
        "rules compared",
        "21",
    ):
        assert words in page.text
    specs = [json.loads(script) for script in page.scripts if script.strip()]
    assert len(specs) >= 10
    plots = [
        attributes
        for tag, attributes in page.tags
        if tag == "div" and attributes.get("class") == "plot"
    ]
    assert len(plots) == len(specs) == sum(tag == "figure" for tag, _ in page.tags)
    assert all(plot["aria-label"] and plot["role"] == "img" for plot in plots)


def test_names_of_machines_networks_and_programs_are_left_out(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    site, _ = whole
    for file in site.rglob("*"):
        if file.is_file() and file.name != "vega.js" and file.suffix != ".png":
            text = file.read_text(encoding="utf-8")
            for secret in (
                "secret-box",
                "payroll",
                "192.168.7.9",
                "fd00::17",
                "02:00:5e:10:00:07",
                "alice",
            ):
                assert secret not in text, (file.name, secret)
    method = Page(site / "method.html").text
    for words in (
        "program-1 on host-",
        "address-1",
        "mac-1",
        "/home/user/x.yaml",
        "kernel 6.1.0",
        "CONFIG_NET_IPIP",
    ):
        assert words in method
    assert not (site / "raw").exists()


def test_raw_keeps_names_and_brings_the_run_but_no_link_out_of_it(tmp_path: Path) -> None:
    run = synthetic(
        tmp_path,
        TRUTH,
        blocks=2,
        workloads=("tcp-rr",),
        placements=("intra",),
        environment={"hostname": "secret-box", "where": "secret-box at 192.168.7.9"},
    )
    (run.path / "stolen").symlink_to("/etc/passwd")
    os.mkfifo(run.path / "pipe")
    (run.path / LOG).write_text("every command and request\n")
    written = build([run], tmp_path / "site", raw=True)
    assert (tmp_path / "site/raw/synthetic/samples.jsonl").read_bytes() == (
        run.path / "samples.jsonl"
    ).read_bytes()
    assert not (tmp_path / "site/raw/synthetic/stolen").exists()
    assert not (tmp_path / "site/raw/synthetic/pipe").exists()
    assert not (tmp_path / "site/raw/synthetic" / LOG).exists()
    assert "secret-box at 192.168.7.9" in Page(tmp_path / "site/method.html").text
    check_links(tmp_path / "site", written["pages"])


def test_what_the_nics_do_is_shown_beside_what_was_measured(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    site, written = whole
    assert "offload.html" in written["pages"]
    text = Page(site / "offload.html").text
    for words in (
        "mlx5_core",
        "VXLAN over IPv4",
        "fixed-off",
        "crossed no NIC (wire: veth)",
        "one node was asked",
        "calico-wp-xsub 1 none",
    ):
        assert words in text
    assert (
        text.index("calico-wp-xsub 1 none")
        < text.index("cilium 3 VXLAN over IPv4 offloaded")
        < text.index("flannel 4 VXLAN over IPv4 with checksum unknown")
    )


def test_two_profiles_have_a_page_against_each_other(whole: tuple[Path, dict[str, Any]]) -> None:
    site, written = whole
    pairs = sorted(name for name in written["pages"] if name.startswith("versus-"))
    assert len(pairs) == 6
    text = Page(site / "versus-flannel-calico-wp-xsub.html").text
    assert "flannel or calico-wp-xsub? Of 4 comparisons: calico-wp-xsub is better in 4." in text
    for words in (
        "cycles",
        "netfilter",
        "encapsulation",
        "flannel / calico-wp-xsub",
        "times better",
    ):
        assert words in text + (site / "versus-flannel-calico-wp-xsub.html").read_text()
    assert "versus-flannel-calico-wp-xsub.html" in (site / "profile-flannel.html").read_text()


def test_a_page_of_some_profiles_says_nothing_of_the_models_of_others(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    site, _ = whole
    flannel, cilium = "model of flannel: certified", "model of cilium: not certified"
    for name, said in (
        ("index.html", {flannel, cilium}),
        ("versus-flannel-calico-wp-xsub.html", {flannel}),
        ("profile-cilium.html", {cilium}),
    ):
        badges = (site / name).read_text().partition('<ul class="badges">')[2].partition("</ul>")[0]
        assert {one for one in (flannel, cilium) if one in badges} == said, name


def test_who_failed_often_is_nowhere_the_best(tmp_path: Path) -> None:
    """The pair says that b is better, on 2 of 12 blocks: no page may lead with that."""
    run = synthetic(
        tmp_path,
        {"a": 1.0, "b": 1.1, "c": 0.9},
        blocks=12,
        workloads=("tcp-rr",),
        placements=("intra",),
        fail=[("b", block) for block in range(10)],
    )
    site = tmp_path / "site"
    build([run], site)
    overview = Page(site / "index.html").text
    lead, matrix = overview.split("At a glance")
    assert "<caption>" not in (site / "index.html").read_text(), "as wide as the table, on a phone"
    assert "a, significantly different from all others that are ranked." in lead
    assert "Not ranked, as it failed often: b. b rests on 2 of 12 blocks." in lead
    assert "b not ranked" in matrix
    assert matrix.count("100 %") == 2, "in the words above it, and of a"
    versus = Page(site / "versus-a-b.html").text
    assert "Of 1 comparison: in 1 one of them failed often." in versus
    assert "b is better; b failed often" in versus
    assert "not ranked failed often" in Page(site / "profile-b.html").text


def test_where_every_cni_failed_nobody_is_said_to_be_ranked(tmp_path: Path) -> None:
    run = synthetic(
        tmp_path,
        {"a": 1.0, "b": 1.1, "veth-baseline": 2.0},
        workloads=("tcp-rr",),
        placements=("intra",),
        fidelity={"veth-baseline": "baseline"},
        fail=[(label, block) for label in "ab" for block in range(5)],
    )
    build([run], tmp_path / "site")
    lead = Page(tmp_path / "site" / "index.html").text.split("At a glance")[0]
    assert "Every CNI failed often here. a failed in 5 of 12 blocks, b failed" in lead
    assert "Not ranked" not in lead


def test_too_few_blocks_in_common_are_counted_as_such(tmp_path: Path) -> None:
    run = synthetic(
        tmp_path,
        {"a": 1.0, "b": 1.1},
        blocks=12,
        workloads=("tcp-rr",),
        placements=("intra",),
        cpp=False,
    )
    run = disturb(run, lambda line: (line["block"] > 6) == (line["label"] == "a"), value=1.0)
    run = disturb(run, lambda line: line["label"] == "a" and line["block"] == 6, value=1.0)
    site = tmp_path / "site"
    build([run], site)
    assert "Inconclusive: 0 blocks are too few; at least 6 are needed." in (
        Page(site / "index.html").text
    )


def test_a_site_can_be_written_again(tmp_path: Path) -> None:
    run = synthetic(tmp_path, TRUTH, blocks=2, workloads=("tcp-rr",))
    for _ in range(2):
        done = call(["site", str(run.path), "--out", str(tmp_path / "site"), "--json"])
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["charts"] > 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "synthetic"]
    assert call(["site", "nothing", "--out", str(tmp_path / "other")]).exit_code == 2


def test_runs_that_differ_are_refused_unless_asked(tmp_path: Path) -> None:
    runs = [
        synthetic(
            tmp_path,
            TRUTH,
            blocks=8,
            name=name,
            workloads=("tcp-rr",),
            placements=("intra",),
            environment={"kernel": name},
        )
        for name in ("one", "two")
    ]
    paths = [str(run.path) for run in runs]
    assert call(["site", *paths, "--out", str(tmp_path / "site")]).exit_code == 2
    done = call(["site", *paths, "--out", str(tmp_path / "site"), "--allow-different"])
    assert done.exit_code == 0, done.stderr
    assert "environment 2" in Page(tmp_path / "site/workload-tcp-rr.html").text


def test_a_sweep_has_a_chart(tmp_path: Path) -> None:
    run = synthetic(
        tmp_path, TRUTH, blocks=2, workloads=("tcp-stream",), placements=("intra",), cpp=False
    )
    plan = json.loads((run.path / "plan.json").read_text())
    samples = [json.loads(line) for line in (run.path / "samples.jsonl").read_text().splitlines()]
    cells, lines = [], []
    for size in (64, 1024, 65536):
        cells += [cell | {"params": {"message": size}} for cell in plan["cells"]]
        lines += [
            s
            | {
                "params": {"message": size},
                "cell": f"{s['cell']}-{size}",
                "value": s["value"] * math.log(size),
            }
            for s in samples
        ]
    (run.path / "plan.json").write_text(json.dumps(plan | {"cells": cells}))
    (run.path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    build([run], tmp_path / "site")
    assert "throughput over message" in Page(tmp_path / "site/workload-tcp-stream.html").text
