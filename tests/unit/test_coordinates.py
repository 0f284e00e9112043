"""Each coordinate of a figure is declared in one place, and samples, records, queries and the site
have it from there.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cnibench.analysis.model import Where
from cnibench.cli.commands.measure.run import command
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.model import context
from cnibench.model.cell import Cell, Sample
from cnibench.model.coordinates import MACHINE, UNREAD
from cnibench.run.provenance import Measured, Provenance, failure, lines
from cnibench.run.sample_context import Measurements
from cnibench.system.environment import machine
from cnibench.testbed.cluster import Options
from tests.unit._call import call
from tests.unit._runs import synthetic


def test_lines_say_what_was_in_force() -> None:
    cell = Cell(
        label="x",
        profile="x",
        placement="inter",
        workload="tcp-rr",
        params={"offload.wire": "none", "offload.pods": "default"},
    )
    provenance = Provenance(
        "lab",
        "veth",
        "vxlan",
        "baseline",
        wire_rate=2e8,
        pairs=2,
        warmup_time=1.5,
        duration=3.0,
        congestion_control="cubic",
    )
    found = Measurements()
    found.add("transaction_rate", 1.0)
    (line,) = lines(
        cell,
        0,
        provenance,
        Measured(found, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", congestion_control="cubic"),
    )
    (failed,) = failure(cell, 0, provenance, "failed", "gone", "2026-01-01T00:00:00Z")
    for one in (line, failed):
        assert (one.wire_offload, one.wire_rate, one.pairs, one.warmup_time, one.duration) == (
            "none",
            2e8,
            2,
            1.5,
            3.0,
        )
        assert (one.congestion_control, one.method) == ("cubic", "windows")
    assert (line.priority, failed.priority) == ("normal", UNREAD)
    (own,) = failure(
        msgspec.structs.replace(cell, duration=60.0, params={"offload.wire": "default"}),
        0,
        provenance,
        "failed",
        "gone",
        "",
    )
    assert (own.wire_offload, own.duration) == ("vxlan", 60.0)


def test_every_coordinate_is_declared() -> None:
    """A new option of run, field of a sample or fact of the environment has a role before it can be
    merged.
    """
    options = {parameter.name for parameter in command.params}
    assert not options - context.OPTIONS, (
        "an option of run that no coordinate in model/coordinates.py names"
    )
    assert not set(Sample.__struct_fields__) - context.FIELDS, (
        "a field of Sample without a role in model/coordinates.py"
    )
    facts = set(machine(("netperf",))) | set(LabCluster(Options()).environment())
    assert not facts - context.FACTS, "a fact of env.json without a role in model/coordinates.py"
    assert not set(context.PLACE_NAMES) - set(Where.__struct_fields__)
    assert not set(context.PLACE_NAMES) - set(Sample.__struct_fields__)
    assert set(context.OF_CELL) <= set(Cell.__struct_fields__)


def test_every_fact_that_a_stored_run_has_is_declared(tmp_path: Path) -> None:
    """The keys that code writes into env.json, read from the code itself."""
    import ast

    folder = Path(context.__file__).parents[1]
    files = [
        *(folder / "clusters").glob("*/cluster.py"),
        *(folder / "clusters").glob("*/deployment.py"),
        folder / "clusters/existing/present.py",
        folder / "clusters/kubernetes/nodes/environment.py",
        folder / "clusters/kubernetes/api/resources.py",
        folder / "cli/measurement/execute.py",
        folder / "run/session.py",
    ]
    functions = ("environment", "describe", "fact", "others", "offloads")
    found = set()
    for file in files:
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef) and function.name in functions:
                found |= {
                    key.value
                    for node in ast.walk(function)
                    if isinstance(node, ast.Dict)
                    for key in node.keys
                    if isinstance(key, ast.Constant)
                }
                found |= {
                    node.slice.value
                    for node in ast.walk(function)
                    if isinstance(node, ast.Subscript)
                    and isinstance(node.slice, ast.Constant)
                    and isinstance(node.ctx, ast.Store)
                }
    assert {"kernel", "wire_offload", "nodes", "busy", "pod_resources"} <= found
    of_nodes = {path.split(".")[-1] for one in MACHINE for path in one.at}
    assert not found - context.FACTS - of_nodes


def test_records_and_columns_come_from_the_declaration(tmp_path: Path) -> None:
    from cnibench.rundir.schema import coordinates
    from cnibench.tables.database import ask

    cell = Cell(label="x", profile="x", placement="inter", workload="tcp-rr")
    assert set(coordinates(cell, 0)) == {"schema", "attempt", "cell", "block", *context.OF_CELL}
    run = synthetic(tmp_path, {"x": 1.0}, blocks=1)
    heads, _ = ask("select * from samples", [run])
    assert heads == ["run", *Sample.__struct_fields__]


def test_the_sites_filters_are_the_coordinates_in_which_places_differ(tmp_path: Path) -> None:
    more = {"cpp": False, "blocks": 4, "workloads": ("tcp-rr",)}
    one = synthetic(tmp_path, {"x": 1.0}, name="one", **more)
    other = synthetic(tmp_path, {"x": 1.0}, name="other", seed=2, plan={"wire_rate": 2e8}, **more)
    call(["site", str(one.path), "--out", str(tmp_path / "alone")])
    plain = (tmp_path / "alone" / "index.html").read_text()
    assert '<select class="where" name="placement">' in plain
    assert "wire_rate" not in plain.partition("<form")[2].partition("</form>")[0]
    call(
        [
            "site",
            str(one.path),
            str(other.path),
            "--out",
            str(tmp_path / "both"),
            "--allow-different",
        ]
    )
    both = (tmp_path / "both" / "index.html").read_text()
    assert (
        '<option value="0.0">unlimited</option><option value="200000000.0">200 Mbit/s</option>'
        in both
    )
    assert 'data-wire_rate="200000000.0"' in both
