"""Every command that reads a damaged run names the damage, and its exit status is not 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.cpp import stacks
from cnibench.rundir.schema import coordinates
from cnibench.rundir.writer import RunWriter
from tests.unit._call import call
from tests.unit._runs import synthetic
from tests.unit.test_verify_damages import DAMAGES


@pytest.mark.parametrize(
    "arguments", [["report"], ["report", "--format", "md"], ["claims"], ["runs", "show"]]
)
def test_readers_name_it_in_their_first_lines(run: Path, arguments: list[str]) -> None:
    DAMAGES["lost line"][0](run)
    done = call([*arguments, str(run)])
    assert done.exit_code == 1
    assert "lost" in "".join(done.stdout.splitlines()[:6])


@pytest.mark.parametrize("form", ["text", "md", "junit"])
def test_the_gate_names_it_in_what_it_prints_and_writes(
    run: Path, tmp_path: Path, form: str
) -> None:
    """Whatever the gate decides, the exit status is not 0, and the file says why."""
    DAMAGES["lost line"][0](run)
    arguments = ["compare", f"{run}:a", f"{run}:b", "--inconclusive", "pass", "--format", form]
    done = call(arguments)
    assert done.exit_code == 1
    assert "problem: run: samples.jsonl, line 5" in "".join(done.stdout.splitlines()[:5])
    if form != "text":
        assert "problem: run: samples.jsonl, line 5" in done.stderr
    call([*arguments, "--out", str(tmp_path / "gate")])
    assert (tmp_path / "gate").read_text() == done.stdout


@pytest.mark.parametrize("form", ["csv", "openmetrics", "benchstat"])
def test_formats_without_a_place_for_it_say_it_on_stderr(run: Path, form: str) -> None:
    DAMAGES["lost line"][0](run)
    done = call(["report", str(run), "--format", form])
    assert done.exit_code == 1
    assert done.stderr.startswith("problem: run: samples.jsonl, line 5 (a.inter")
    assert "lost" in done.stderr


def test_the_site_names_it(run: Path, tmp_path: Path) -> None:
    DAMAGES["doubled line"][0](run)
    done = call(["site", str(run), "--out", str(tmp_path / "site")])
    assert done.exit_code == 1
    assert "doubled" in done.stdout
    assert "doubled" in (tmp_path / "site" / "index.html").read_text()


def test_a_changed_stack_is_named_where_the_site_draws_it(tmp_path: Path) -> None:
    few: dict[str, Any] = {"workloads": ("tcp-rr",), "placements": ("intra",)}
    old = synthetic(tmp_path, {"a": 1.0}, blocks=1, **few)
    samples, records = list(old.samples()), list(old.records("cpp"))
    folded = stacks.fold([stacks.Stack("kernel", ("veth_xmit", "net_rx_action"), 1e8, 10)])
    with RunWriter.create(tmp_path / "run", msgspec.structs.replace(old.plan, schema=2)) as writer:
        for cell in old.plan.cells:
            where = coordinates(cell, 0)
            mine = [
                {key: value for key, value in one.items() if key not in where}
                for one in records
                if one["cell"] == cell.id
            ]
            (writer.raw(cell, 0) / "stacks.folded").write_text(folded)
            writer.finish(
                cell,
                0,
                [one for one in samples if one.cell == cell.id],
                [("cpp", one) for one in mine],
            )
        writer.event("run-finished")
    sites = [tmp_path / "site-1", tmp_path / "site-2"]
    told = call(["site", str(tmp_path / "run"), "--out", str(sites[0])])
    assert told.exit_code == 0, told
    changed = sorted((tmp_path / "run").glob("raw/*cpp*/0/stacks.folded"))[0]
    changed.write_text(folded.replace("veth_xmit", "vxlan_xmit"))
    told = call(["site", str(tmp_path / "run"), "--out", str(sites[1])])
    assert told.exit_code == 1
    assert "stacks.folded" in told.stdout
    assert "its stacks are lost or changed" in "".join(
        page.read_text() for page in sites[1].glob("*.html")
    )
