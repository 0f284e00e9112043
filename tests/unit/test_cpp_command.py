"""cnibench cpp on synthetic runs: tables, bars, flame graphs and differences."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from cnibench.cli.output import cpp as output
from cnibench.cpp import flamegraph, stacks, summary, taxonomy
from cnibench.cpp.stacks import Stack
from cnibench.errors import InputError, MeasureError, UsageError
from cnibench.rundir.reader import RunReader
from cnibench.system.text import console
from tests.unit._runs import synthetic


@pytest.fixture
def run(tmp_path: Path) -> RunReader:
    """Two profiles, two blocks; the raw stacks of each."""
    reader = synthetic(
        tmp_path, {"flannel": 1.0, "calico<&>": 0.8}, blocks=2, workloads=("tcp-stream",)
    )
    for record in reader.records("cpp"):
        found = [
            Stack("cell", ("nf_hook_slow", "ip_forward", "do_syscall_64", stacks.USER), 3e8, 30),
            Stack("kernel", ("veth_xmit", "net_rx_action"), 1e8, 10),
            Stack("kernel", ("pv_native_safe_halt", "do_idle"), 1e9, 100),
            Stack("foreign", (stacks.USER,), 5e8, 50),
        ]
        folder = reader.raw(record["cell"], record["block"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stacks.folded").write_text(stacks.fold(found))
    return reader


def cpp(*arguments: str) -> str:
    from cnibench.cli.commands.read.cpp import command

    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    return result.stdout


def test_the_table_shows_every_component_and_says_what_is_estimated(run: RunReader) -> None:
    text = cpp(str(run.path), "--placement", "intra")
    for word in (
        "netfilter",
        "veth",
        "tcp-ip",
        "unclassified",
        "total",
        "flannel",
        "calico<&>",
        "cycles: estimated",
        "tcp-stream on one node",
    ):
        assert word in text
    assert "tcp-stream between nodes" not in text
    assert "nf_hook_slow" in cpp(str(run.path), "--by", "function")


def test_a_bar_fits_beside_a_long_label(run: RunReader, monkeypatch: pytest.MonkeyPatch) -> None:
    (one, *_) = summary.groups(run.records("cpp"))
    file = io.StringIO()
    monkeypatch.setattr(output, "console", lambda: console(file, width=60))
    long = replace(one, label="calico-wp-xsub-with-a-long-name")
    output.show("there", [long], "component", taxonomy.load())
    (bar,) = (line for line in file.getvalue().splitlines() if line.startswith(long.label))
    assert bar.endswith(f" {one.total:.0f}")
    assert len(bar) == 60


def test_flame_graphs_leave_out_idle_and_foreign_stacks(run: RunReader) -> None:
    group = summary.groups(run.records("cpp"))[0]
    trees = summary.trees(run, group, taxonomy.load())
    assert trees.keys() == {
        (stacks.USER, "do_syscall_64", "ip_forward", "nf_hook_slow"),
        ("net_rx_action", "veth_xmit"),
    }
    mean = sum(4e8 / packets for packets in group.per_block.values()) / 2
    assert sum(trees.values()) == pytest.approx(mean)


def test_json_components_add_up(run: RunReader) -> None:
    found = json.loads(cpp(str(run.path), "--json"))
    assert found["run"] == run.id
    assert len(found["cpp"]) == 4
    for entry in found["cpp"]:
        assert math.isclose(
            sum(entry["components"].values()) + entry["unclassified"], entry["total"], rel_tol=1e-9
        )
        assert entry["n"] == 2
        assert entry["cycles_source"] == "estimated"
    only = json.loads(cpp(str(run.path), "--json", "--cni", "flan*", "--placement", "inter"))["cpp"]
    assert [(entry["label"], entry["placement"]) for entry in only] == [("flannel", "inter")]


def test_the_difference_is_b_minus_a(run: RunReader) -> None:
    both = {
        entry["label"]: entry
        for entry in json.loads(cpp(str(run.path), "--json", "--placement", "intra"))["cpp"]
    }
    [change] = json.loads(
        cpp(str(run.path), "--json", "--placement", "intra", "--diff", "flannel", "calico<&>")
    )["differences"]
    assert math.isclose(change["total"], both["calico<&>"]["total"] - both["flannel"]["total"])
    assert change["total"] > 0
    text = cpp(str(run.path), "--placement", "intra", "--diff", "flannel", "calico<&>")
    assert "netfilter" in text
    assert f"{change['total']:+.1f}" in text


def test_a_flame_graph_is_one_static_escaped_document(run: RunReader, tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    cpp(str(run.path), "--cni", "calico<&>", "--placement", "intra", "--flamegraph", str(path))
    text = path.read_text()
    root = ElementTree.fromstring(text)
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "script" not in text
    assert "calico&lt;&amp;&gt;" in text
    assert any(title.startswith("nf_hook_slow: 300.0 cycles per packet") for title in titles)
    assert not any("do_idle" in title for title in titles)
    cpp(
        str(run.path),
        "--placement",
        "intra",
        "--diff",
        "flannel",
        "calico<&>",
        "--flamegraph",
        str(path),
    )
    assert "+0.0" in path.read_text()


def test_what_is_not_there_is_said(run: RunReader, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no 'cilium'"):
        cpp(str(run.path), "--cni", "cilium")
    with pytest.raises(UsageError, match="draws one profile, this is 4"):
        cpp(str(run.path), "--flamegraph", str(tmp_path / "x.svg"))
    with pytest.raises(UsageError, match="nothing in this run"):
        cpp(str(run.path), "--workload", "http")
    with pytest.raises(UsageError, match="one comparison, this is 2"):
        cpp(
            str(run.path), "--diff", "flannel", "calico<&>", "--flamegraph", str(tmp_path / "x.svg")
        )
    chart = [str(run.path), "--cni", "flannel", "--placement", "intra", "--flamegraph"]
    with pytest.raises(UsageError, match="No such file"):
        cpp(*chart, str(tmp_path / "no" / "x.svg"))
    for path in run.path.glob("raw/*/*/stacks.folded"):
        path.unlink()
    with pytest.raises(InputError, match=r"stacks\.folded"):
        cpp(*chart, str(tmp_path / "x.svg"))
    with pytest.raises(InputError, match="no cycles per packet"):
        cpp(str(synthetic(tmp_path, {"a": 1.0}, blocks=1, cpp=False, name="speed").path))


def test_a_garbled_record_is_named() -> None:
    record = {
        "label": "a",
        "profile": "a",
        "components": {},
        "functions": {},
        "cycles": 1.0,
        "block": 0,
        "cell": "c",
    }
    where = {
        "placement": "intra",
        "path": "pod",
        "workload": "w",
        "params": {},
        "ip": 4,
        "mtu": 1500,
        "cpus": "shared",
        "pair": 0,
    }
    with pytest.raises(InputError, match="total"):
        summary.groups([{**record, **where}])


def test_stacks_of_blocks_are_averaged_per_packet(run: RunReader) -> None:
    group = summary.groups(run.records("cpp"))[0]
    tree = summary.trees(run, group, taxonomy.load())
    assert math.isclose(sum(tree.values()), 4e8 / 1e6)
    assert all(path[-1] in ("nf_hook_slow", "veth_xmit") for path in tree)


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(MeasureError, match="no stacks"):
        flamegraph.draw({}, "nothing", lambda name: "#000000")
