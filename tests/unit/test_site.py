"""The site as files: what is on which page, what is left out, what a hostile run cannot do."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.model.profile import builtin
from cnibench.reports.site.build import build
from cnibench.reports.site.charts import script_json, unique
from cnibench.reports.site.pseudonyms import Pseudonyms
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import LOG, Unsupported, coordinates
from tests.unit._call import call
from tests.unit._runs import synthetic

HOSTILE = (
    "</script><script>alert(1)</script>\x1b[31m\x00\u202eevil\u2028<img src=x onerror=alert(2)>{{"
    " 191 * 7919 }}😀'\"&"
)
TRUTH = {"flannel": 1.0, "calico-wp-xsub": 1.2, "cilium": 1.0}
FIDELITY = {"veth-baseline": "baseline"}


# The shapes that workloads/pods.py and workloads/rule_path.py write.
POD = {
    "number": 0,
    "pod": "p",
    "ready": 0.02,
    "network": 0.01,
    "steps": [{"step": "link", "seconds": 0.01}, {"step": "address", "seconds": 0.002}],
}
CHAIN = {"family": "ip", "table": "nat", "chain": "KUBE-SERVICES", "evaluated": 21, "matched": 2}
PATH = [{"hook": "prerouting", "chains": [CHAIN]}, {"hook": "postrouting", "chains": []}]
RULES = {
    "packet": "first",
    "hooks": 2,
    "chains": 1,
    "rules": 21,
    "matched": 2,
    "nodes": [{"node": "a", "hooks": 2, "chains": 1, "rules": 21, "matched": 2, "path": PATH}],
}
NIC = {
    "node": "this machine",
    "name": "eth9",
    "driver": "mlx5_core",
    "version": "",
    "firmware": "14.2",
    "hardware": True,
    "source": "netlink",
    "problem": "",
    "ports": None,
    "queues": 8,
    "udp_hash": "sdfn",
    "underlay": True,
    "virtual": "",
}
TUNNEL = {
    "node": "this machine",
    "nic": "eth9",
    "outcome": "offloaded",
    "reason": "it is on",
    "command": "",
}
OFFLOAD = {
    "nics": [NIC],
    "other": [
        {"node": "this machine", "nic": "eth9", "checksum": "at any offset", "scaling": "8 queues"}
    ],
    "tunnels": [
        {**TUNNEL, "tunnel": "vxlan"},
        {**TUNNEL, "tunnel": "ipip", "outcome": "fixed-off"},
    ],
    "vxlan_ports": [],
    "asymmetries": [],
    "notes": ["one node was asked"],
}


class Page(HTMLParser):
    """The elements, links and text of a page, as a browser would take them apart."""

    def __init__(self, file: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._in = ""
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in = tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self._in == "script" else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def add_records(reader: RunReader, name: str, record: dict[str, Any]) -> None:
    """The same record for every cell of the run, in each block."""
    plan = reader.plan
    lines = [
        {**coordinates(cell, block), "schema": 1, **record}
        for cell in plan.cells
        for block in range(plan.blocks)
        if cell.window == "speed"
    ]
    (reader.path / f"{name}.jsonl").write_bytes(
        b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    )


def add_site_records(run: RunReader) -> None:
    """One record of each kind that a site shows."""
    add_records(
        run,
        "cdf",
        {
            "metric": "latency",
            "unit": "s",
            "shares": [0.0, 0.5, 0.99, 1.0],
            "values": [1e-5, 2e-5, 3e-4, 1e-3],
        },
    )
    add_records(
        run,
        "series",
        {
            "metric": "throughput",
            "unit": "bit/s",
            "times": [0.1, 0.2, 0.3],
            "values": [1e9, 2e9, 3e9],
        },
    )
    add_records(run, "pods", POD)
    add_records(run, "rulepath", RULES)


def check_links(site: Path, pages: Sequence[str]) -> None:
    """Every link leads to a file of the site; nothing outside is named."""
    for name in pages:
        page = Page(site / name)
        ids = {attributes.get("id") for _, attributes in page.tags}
        for tag, attributes in page.tags:
            for key in ("href", "src"):
                link = attributes.get(key)
                if link is None or link == "data:,":
                    continue
                file, _, anchor = link.partition("#")
                assert not re.match(r"[a-z]+:|//", link), (name, tag, link)
                assert (site / file).exists(), (name, link)
                assert not anchor or file or anchor in ids, (name, link)
        unique_ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(unique_ids) == len(set(unique_ids)), name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Two runs with everything, without raw data."""
    folder = tmp_path_factory.mktemp("whole")
    truth = {"veth-baseline": 1.3, **TRUTH}
    lacking = [
        Unsupported(
            label="calico-wp-ipip",
            profile="calico-wp-ipip",
            lacks="CONFIG_NET_IPIP",
            remedy="use --kernel vm",
        )
    ]
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
    facts |= {"offload": OFFLOAD}
    known = {label: builtin()[label].model_dump(mode="json", by_alias=True) for label in truth}
    runs = []
    for number in (1, 2):
        run = synthetic(
            folder,
            truth,
            blocks=12,
            seed=number,
            name=f"run{number}",
            unsupported=lacking,
            fidelity=FIDELITY,
            environment=facts,
            fail=[("flannel", 3)],
            command=["cnibench", "run", "--cni", "/home/alice/x.yaml"],
            profiles=known,
        )
        add_site_records(run)
        runs.append(run)
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
    assert len(pictures) == 2 * written["charts"] > 20
    for picture in pictures:
        assert picture.read_bytes().startswith(b"<svg" if picture.suffix == ".svg" else b"\x89PNG")
        assert picture.with_suffix({".svg": ".png", ".png": ".svg"}[picture.suffix]) in pictures
    for name in written["pages"]:
        assert (site / name).stat().st_size < 2_000_000


def test_the_overview_answers_first_and_says_what_the_figures_are(
    whole: tuple[Path, dict[str, Any]],
) -> None:
    text = Page(whole[0] / "index.html").text
    lead = text[: text.index("At a glance")]
    assert (
        "calico-wp-xsub is in the leading group in all 3 comparisons that could be decided" in lead
    )
    assert "veth-baseline is in the leading group" not in lead
    assert lead.count("No recommendation: the wire between the nodes is veth") == 1
    for words in (
        "model of the datapath, not the CNI itself",
        "cycles estimated",
        "baseline, no CNI",
        "testbed lab",
    ):
        assert words in lead


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


def test_nothing_in_a_run_becomes_markup(tmp_path: Path) -> None:
    truth = {HOSTILE: 1.0, "=cmd()": 0.9, "\u202dlabel": 1.1}
    strange = {
        "node": HOSTILE,
        "nic": HOSTILE,
        "outcome": "unknown",
        "reason": HOSTILE,
        "command": HOSTILE,
        "tunnel": "vxlan",
    }
    offload = {
        **OFFLOAD,
        "nics": [{**NIC, "name": HOSTILE, "driver": HOSTILE}],
        "tunnels": [strange],
        "notes": [HOSTILE],
    }
    run = synthetic(
        tmp_path,
        truth,
        blocks=8,
        notes=[HOSTILE],
        environment={HOSTILE: HOSTILE, "offload": offload},
        command=["cnibench", HOSTILE],
        unsupported=[
            Unsupported(label=f"x{HOSTILE}", profile=HOSTILE, lacks=HOSTILE, remedy=HOSTILE)
        ],
        profiles={
            label: {"title": HOSTILE, "cni": HOSTILE, "features": {"mode": HOSTILE}}
            for label in truth
        },
    )
    chain = {**CHAIN, "chain": HOSTILE, "table": HOSTILE}
    nodes = [{**RULES["nodes"][0], "path": [{"hook": HOSTILE, "chains": [chain]}]}]  # type: ignore[index]
    add_records(run, "rulepath", {**RULES, "packet": HOSTILE, "nodes": nodes, HOSTILE: 1})
    add_records(run, "pods", {**POD, "steps": [{"step": HOSTILE, "seconds": 1.0}]})
    site = tmp_path / "site"
    written = build([run], site)
    check_links(site, written["pages"])
    assert {"offload.html", "workload-tcp-rr.html"} <= set(written["pages"])
    assert sum(name.startswith("versus-") for name in written["pages"]) == 3
    for name in written["pages"]:
        text = (site / name).read_text(encoding="utf-8")
        page = Page(site / name)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202a-\u202e]", text)
        assert {attributes.get("type") for tag, attributes in page.tags if tag == "script"} <= {
            None,
            "application/json",
        }
        assert all(
            "src" in attributes or attributes.get("type")
            for tag, attributes in page.tags
            if tag == "script"
        )
        assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
        assert not any(
            tag == "img" and attributes.get("src") == "x" for tag, attributes in page.tags
        )
        assert "1512529" not in page.text
        for script in page.scripts:
            if script.strip():
                json.loads(script)


@pytest.mark.parametrize(
    "case",
    [
        "one block",
        "one profile",
        "all failed",
        "no cycles",
        "zero variance",
        "zeros",
        "empty",
        "no environment",
    ],
)
def test_a_poor_run_still_becomes_pages(tmp_path: Path, case: str) -> None:
    options: dict[str, Any] = {
        "one block": {"blocks": 1},
        "one profile": {"truth": {"flannel": 1.0}},
        "no cycles": {"cpp": False},
        "zero variance": {"noise": 0.0},
        "empty": {"blocks": 0},
        "all failed": {
            "blocks": 2,
            "fail": [(label, block) for label in TRUTH for block in range(2)],
        },
    }.get(case, {})
    run = synthetic(tmp_path, **{"truth": TRUTH, "blocks": 3, **options})
    if case == "zeros":
        lines = [
            json.loads(line) | {"value": 0.0}
            for line in (run.path / "samples.jsonl").read_text().splitlines()
        ]
        (run.path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if case == "no environment":
        (run.path / "env.json").unlink()
    written = build([run], tmp_path / "site")
    check_links(tmp_path / "site", written["pages"])
    text = Page(tmp_path / "site/index.html").text
    if case in ("all failed", "empty"):
        assert "Nothing was measured" in text
    if case == "one block":
        assert "Inconclusive: 1 block" in text
    for name in written["pages"]:
        assert not re.search(
            r"\bNaN\b|\bInfinity\b|\bnan\b", (tmp_path / "site" / name).read_text()
        )


def test_broken_records_are_left_out_and_told(tmp_path: Path) -> None:
    run = synthetic(tmp_path, TRUTH, blocks=2)
    add_records(run, "cdf", {"shares": [0.5], "values": "none"})
    (run.path / "series.jsonl").write_text('{"schema": 1, "times": [1]}\n')
    done = call(["site", str(run.path), "--out", str(tmp_path / "site")])
    assert done.exit_code == 0, done.stderr
    assert "without its coordinates is left out" in done.stderr
    assert "of another shape is left out" in done.stderr


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


@pytest.mark.parametrize(
    "wrong",
    ["text", {}, {"nics": 1}, {**OFFLOAD, "tunnels": [{**TUNNEL, "tunnel": "carrier pigeon"}]}],
)
def test_offload_facts_of_another_shape_make_no_page(tmp_path: Path, wrong: Any) -> None:
    run = synthetic(tmp_path, TRUTH, blocks=2, cpp=False, environment={"offload": wrong})
    assert "offload.html" not in build([run], tmp_path / "site")["pages"]


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


def test_a_site_can_be_written_again(tmp_path: Path) -> None:
    run = synthetic(tmp_path, TRUTH, blocks=2)
    for _ in range(2):
        done = call(["site", str(run.path), "--out", str(tmp_path / "site"), "--json"])
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["charts"] > 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site", "synthetic"]
    assert call(["site", "nothing", "--out", str(tmp_path / "other")]).exit_code == 2


def test_runs_that_differ_are_refused_unless_told(tmp_path: Path) -> None:
    runs = [
        synthetic(tmp_path, TRUTH, blocks=8, name=name, environment={"kernel": name})
        for name in ("one", "two")
    ]
    paths = [str(run.path) for run in runs]
    assert call(["site", *paths, "--out", str(tmp_path / "site")]).exit_code == 2
    done = call(["site", *paths, "--out", str(tmp_path / "site"), "--allow-different"])
    assert done.exit_code == 0, done.stderr
    assert "environment 2" in Page(tmp_path / "site/workload-tcp-rr.html").text


def test_a_sweep_has_a_chart(tmp_path: Path) -> None:
    run = synthetic(tmp_path, TRUTH, blocks=6, workloads=("tcp-stream",), cpp=False)
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


def test_pseudonyms_keep_what_is_no_name() -> None:
    names = Pseudonyms(True, ["flannel"])
    names.learn({"hostname": "flannel", "node_name": "node-x"})
    for text in (
        "flannel",
        "6.1.0",
        "22:30:58",
        "0.0.0.0",
        "::1",
        "127.0.0.1",
        "1.2.3",
        "a::b::c",
        "nf_hook_slow",
        "10.5 Gbit/s",
    ):
        assert names.text(text) == text
    assert "node-x" not in names.text("node-x and node-xy")
    assert names.text("10.0.0.1/24") == names.text("10.0.0.1/24") == "address-1/24"
    assert Pseudonyms(False).text("10.0.0.1\x1b[31m") == "10.0.0.1"


def test_json_cannot_end_its_script() -> None:
    text = script_json({"a": "</script>\u2028&<!--"})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script>\u2028&<!--"}
    assert unique("A b/../c", set()) == "a-b-c"
    assert unique("x", {"x", "x-2"}) == "x-3"
