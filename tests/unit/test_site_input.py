"""Runs with hostile names, missing parts or broken records: no markup, and still a site."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cnibench.reports._escape import script_json
from cnibench.reports.site.build import build
from cnibench.reports.site.figures.charts import unique
from cnibench.rundir.schema import Unsupported
from tests.unit._call import call
from tests.unit._runs import synthetic
from tests.unit._site import (
    CHAIN,
    HOSTILE,
    NIC,
    OFFLOAD,
    POD,
    RULES,
    TRUTH,
    TUNNEL,
    Page,
    add_records,
    check_links,
)


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
        blocks=3,
        workloads=("tcp-rr",),
        placements=("intra",),
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
    few = {"truth": TRUTH, "blocks": 3, "workloads": ("tcp-rr",), "placements": ("intra",)}
    run = synthetic(tmp_path, **few | options)
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


def test_broken_records_are_left_out_and_reported(tmp_path: Path) -> None:
    one = {"workloads": ("tcp-rr",), "placements": ("intra",)}
    run = synthetic(tmp_path, TRUTH, blocks=2, **one)
    add_records(run, "cdf", {"shares": [0.5], "values": "none"})
    (run.path / "series.jsonl").write_text('{"schema": 1, "times": [1]}\n')
    done = call(["site", str(run.path), "--out", str(tmp_path / "site")])
    assert done.exit_code == 0, done.stderr
    assert "without its coordinates is left out" in done.stderr
    assert "of another shape is left out" in done.stderr


@pytest.mark.parametrize(
    "wrong",
    ["text", {}, {"nics": 1}, {**OFFLOAD, "tunnels": [{**TUNNEL, "tunnel": "carrier pigeon"}]}],
)
def test_offload_facts_of_another_shape_make_no_page(tmp_path: Path, wrong: Any) -> None:
    run = synthetic(
        tmp_path,
        {"flannel": 1.0},
        blocks=2,
        workloads=("tcp-rr",),
        placements=("intra",),
        cpp=False,
        environment={"offload": wrong},
    )
    assert "offload.html" not in build([run], tmp_path / "site")["pages"]


def test_json_cannot_end_its_script() -> None:
    text = script_json({"a": "</script>\u2028&<!--"})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script>\u2028&<!--"}
    assert unique("A b/../c", set()) == "a-b-c"
    assert unique("x", {"x", "x-2"}) == "x-3"
