"""``cnibench query``: its tables have what the report has, and its help tells the truth."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from cnibench.analysis import analyse
from cnibench.model import context
from cnibench.registry import provider
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Unsupported, coordinates
from cnibench.tables.database import ask, named
from cnibench.tables.declaration import RESERVED, TABLES
from tests.unit._call import call
from tests.unit._runs import synthetic

NEVER = Unsupported(label="weave", profile="weave", lacks="a module", remedy="load it")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    """Two labels, one of which fails in one block; with a process of the CNI, and conditions."""
    folder = tmp_path_factory.mktemp("runs")
    made = synthetic(
        folder, {"a": 1.0, "b": 0.9}, blocks=8, fail=[("b", 3)], unsupported=[NEVER], name="one"
    )
    cell = made.plan.cells[0]
    there = msgspec.structs.replace(cell, params={"size": 1, "policy.entries": 10})
    _append(
        made,
        "footprint",
        {
            **coordinates(cell, 0),
            "process": "agentd-a",
            "node": "a",
            "pods": 2,
            "unit": "B",
            "times": [0.0, 1.0, 1.5],
            "values": [4096, 8192, 8192],
            "cpu_user": [0.0, 0.25, 0.5],
            "cpu_system": [0.0, 0.5, 0.5],
        },
        {**coordinates(cell, 1), "process": "", "said": "no process"},
    )
    _append(
        made,
        "conditions",
        {
            **coordinates(there, 0),
            "condition": "policy",
            "entries": 10,
            "found": {"a": 10, "b": 10},
            "seconds": 0.125,
        },
        {
            **coordinates(there, 0),
            "condition": "offload",
            "place": "a",
            "device": "eth0",
            "now": {"tx-tcp-segmentation": True},
            "before": {"tx-tcp-segmentation": False},
        },
    )
    return RunReader(made.path)


def _append(run: RunReader, name: str, *records: dict[str, Any]) -> None:
    with (run.path / f"{name}.jsonl").open("ab") as file:
        file.writelines(msgspec.json.encode({**one, "schema": 1}) + b"\n" for one in records)


def rows(sql: str, *readers: RunReader) -> list[dict[str, Any]]:
    heads, found = ask(sql, readers)
    return [dict(zip(heads, row, strict=True)) for row in found]


def report(run: RunReader) -> Any:
    return json.loads(provider("reports", "json").render(analyse([run])))


def examples() -> list[list[str]]:
    """The commands of ``query --help``, as a shell splits them."""
    _, _, text = call(["query", "--help"]).stdout.partition("Examples:\n")
    found: list[list[str]] = []
    for word in shlex.split(text):
        if word == "cnibench":
            found.append([])
        else:
            found[-1].append(word)
    return found


@pytest.mark.parametrize("number", range(9))
def test_each_example_of_the_help_works(run: RunReader, number: int) -> None:
    *_, arguments = examples()[: number + 1]
    if arguments == ["query", "--tables"]:
        assert call(arguments).exit_code == 0
        return
    done = call([*arguments, "--folder", str(run.path.parent), "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"], arguments[1]
    assert all(None not in row.values() for row in found["rows"])


def test_each_table_has_an_example() -> None:
    words = [arguments[1].split() for arguments in examples()]
    assert len(words) == 9
    read = {one[one.index("from") + 1] for one in words if "from" in one}
    assert read == set(TABLES)


def test_the_list_of_tables_fits_a_terminal_and_is_true(run: RunReader) -> None:
    shown = call(["query", "--tables"])
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    table = ""
    statements = []
    for line in shown.stdout.splitlines():
        if line.startswith("  "):
            statements.append(f"select {line.split()[0]} from {table}")
        else:
            table = line.partition(":")[0]
    assert len(statements) == sum(len(one.columns) for one in TABLES.values())
    with duckdb.connect() as database:
        words = database.execute(
            "select keyword_name from duckdb_keywords() where keyword_category = 'reserved'"
        ).fetchall()
    names = {column.name for one in TABLES.values() for column in one.columns}
    assert names & {word for (word,) in words} == set(RESERVED)
    heads, _ = ask("; ".join(statements), [run])
    assert heads == [statements[-1].split()[1].strip('"')]
    document = json.loads(call(["query", "--tables", "--json"]).stdout)
    described = rows("select * from information_schema.columns order by ordinal_position", run)
    for one in document["tables"]:
        assert [(column["name"], column["type"]) for column in one["columns"]] == [
            (row["column_name"], row["data_type"])
            for row in described
            if row["table_name"] == one["name"]
        ]


def test_coordinates_are_the_same_in_all_tables() -> None:
    known = {*context.PLACE_NAMES, "label", "profile", "fidelity"}
    for table in TABLES.values():
        assert table.columns[0].name == "run"
        for column in table.columns:
            if column.name in known:
                assert (column.kind, column.unit) == (
                    context.sql(column.name),
                    context.coordinate(column.name).unit,
                ), (table.name, column.name)
    for name in ("samples", "results", "pairs"):
        assert set(context.PLACE_NAMES) <= {column.name for column in TABLES[name].columns}


@pytest.mark.parametrize("table", ["results", "pairs", "attestations"])
def test_figures_and_verdicts_are_those_of_the_report(run: RunReader, table: str) -> None:
    expected = report(run)[table]
    found = rows(f"select * from {table}", run)
    assert len(found) == len(expected) > 0
    names = [column.name for column in TABLES[table].columns if column.name != "run"]
    for row, one in zip(found, expected, strict=True):
        assert row["run"] == run.id
        for name in names:
            value = json.loads(row[name]) if name == "params" else row[name]
            assert value == one[name], name


def test_pairs_say_what_their_verdict_rests_on(tmp_path: Path) -> None:
    """Three blocks decide by a model only; whoever asks for proofs must be able to see it."""
    few = synthetic(tmp_path, {"a": 1.0, "b": 0.5}, blocks=3, workloads=("tcp-rr",), cpp=False)
    found = rows(
        "select distinct basis, evidence, verdict from pairs where metric = 'transaction_rate'", few
    )
    assert found == [{"basis": "additive model", "evidence": "proven", "verdict": "a-better"}]


def test_cycles_are_those_of_the_report(run: RunReader) -> None:
    expected = {
        (one["label"], one["placement"], one["workload"], component): (value, one["total"])
        for one in report(run)["cpp"]
        for component, value in {**one["components"], "unclassified": one["unclassified"]}.items()
    }
    found = rows("select * from cycles", run)
    assert len(found) == len(expected) > 0
    for row in found:
        key = (row["label"], row["placement"], row["workload"], row["component"])
        assert (row["cycles_per_packet"], row["total"]) == expected[key]


def test_failures_say_where_they_belong(run: RunReader) -> None:
    found = rows("select * from failures order by block nulls first", run)
    expected = report(run)["failures"]
    assert [(one["status"], one["reason"]) for one in expected] == [
        (row["status"], row["reason"]) for row in found
    ]
    profile, *samples = found
    assert (profile["label"], profile["status"]) == ("weave", "unsupported")
    assert (profile["placement"], profile["block"], profile["cell"]) == (None, None, None)
    assert {(row["block"], row["path"], row["ip"], row["mtu"]) for row in samples} == {
        (3, "pod", 4, 1500)
    }
    assert {row["window"] for row in samples} == {"speed", "cpp"}


def test_a_label_that_always_failed_has_a_row_without_a_figure(tmp_path: Path) -> None:
    one = synthetic(
        tmp_path, {"a": 1.0, "b": 0.9}, blocks=3, cpp=False, fail=[("b", i) for i in range(3)]
    )
    found = rows(
        "select label, profile, unit, median, n, failed, tried from results"
        " where metric = 'throughput' and placement = 'intra' order by label",
        one,
    )
    assert [tuple(row.values())[:3] for row in found] == [("a", "a", "bit/s"), ("b", "b", "bit/s")]
    assert [(row["n"], row["failed"], row["tried"]) for row in found] == [(3, 0, 3), (0, 3, 3)]
    assert found[0]["median"] > 0
    assert found[1]["median"] is None


def test_processes_are_told_over_time(run: RunReader) -> None:
    found = rows("select * from footprint order by block, elapsed", run)
    figures = ("block", "process", "elapsed", "memory", "cpu_user", "cpu_system", "pods", "said")
    assert [tuple(row[name] for name in figures) for row in found] == [
        (0, "agentd-a", 0.0, 4096.0, 0.0, 0.0, 2, None),
        (0, "agentd-a", 1.0, 8192.0, 0.25, 0.5, 2, None),
        (0, "agentd-a", 1.5, 8192.0, 0.5, 0.5, 2, None),
        (1, "", None, None, None, None, None, "no process"),
    ]
    assert {(row["label"], row["placement"], row["window"]) for row in found} == {
        ("a", "intra", "speed")
    }


def test_conditions_are_what_was_asked_and_found(run: RunReader) -> None:
    policy, offload = rows("select * from conditions order by condition desc", run)
    assert json.loads(policy["asked"]) == {"policy.entries": 10}
    assert json.loads(policy["found"]) == {"a": 10, "b": 10}
    assert (policy["seconds"], policy["device"], policy["before"]) == (0.125, None, None)
    assert (offload["place"], offload["device"]) == ("a", "eth0")
    assert json.loads(offload["found"]) == {"tx-tcp-segmentation": True}
    assert json.loads(offload["before"]) == {"tx-tcp-segmentation": False}


def test_runs_that_are_not_comparable_have_rows_of_their_own(tmp_path: Path) -> None:
    one = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=3, cpp=False, name="one")
    two = synthetic(
        tmp_path, {"a": 1.0}, blocks=3, cpp=False, name="two", environment={"kernel": "6.12.0"}
    )
    found = rows("select run, label, median from results where metric = 'throughput'", one, two)
    for reader in (one, two):
        expected = [
            (result["label"], result["median"])
            for result in report(reader)["results"]
            if result["metric"] == "throughput"
        ]
        assert [(row["label"], row["median"]) for row in found if row["run"] == reader.id] == (
            expected
        )


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select pairs from samples", ["samples"]),
        ("with results as (select 1) from results", []),
        ("with x as (from main.RESULTS) from x, pairs", ["results", "pairs"]),
        ("from query_table('results')", ["results"]),
        ("describe samples", ["samples"]),
        ("show tables", []),
        ("from query_table('res' || 'ults')", list(TABLES)),
        ("from samples; from results", list(TABLES)),
        ("selec", list(TABLES)),
    ],
)
def test_only_what_a_statement_reads_is_filled(sql: str, tables: list[str]) -> None:
    with duckdb.connect() as database:
        for name in TABLES:
            database.execute(f"create table {name} (run varchar, pairs integer)")
        assert named(database, sql) == tables


def test_no_column_of_json_takes_the_place_of_another(run: RunReader) -> None:
    sql = "select a.label, b.label from samples a cross join samples b limit 1"
    done = call(["query", sql, str(run.path), "--json"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "two columns are called 'label'" in done.stderr
    assert call(["query", sql, str(run.path)]).stdout.split()[:2] == ["label", "label"]


@pytest.mark.parametrize(
    ("sql", "message", "remedy"),
    [
        ("select * from sample", "there is no table 'sample'", "nearest: samples; "),
        ("select * from qwertz", "there is no table 'qwertz'", "'cnibench query --tables' "),
        ("select lable from samples", "there is no column 'lable'", "nearest: label, "),
        ("select x.ratios from pairs x", "there is no column 'ratios'", "nearest: ratio, "),
        ("select * exclude (medain) from results", "column 'medain'", "nearest: median, "),
        (
            'select * from results where metric = "throughput"',
            "there is no column 'throughput'",
            "if it is a text, write it in single quotes: 'throughput'; ",
        ),
        (
            "select check from attestations",
            "DuckDB: Parser Error",
            'the columns "check", "end", "window" need double quotes; ',
        ),
        ("selec 1", "DuckDB: Parser Error", "'cnibench query --tables' lists"),
        ("select 1 +", "DuckDB: Parser Error", "'cnibench query --tables' lists"),
    ],
)
def test_what_is_wrong_with_a_statement_is_said(
    run: RunReader, sql: str, message: str, remedy: str
) -> None:
    done = call(["query", sql, str(run.path)])
    assert (done.exit_code, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert second.startswith(f"  remedy: {remedy}")
    assert second.endswith("'cnibench query --tables' lists the tables and their columns")


@pytest.mark.parametrize("arguments", [["query"], ["query", "--tables", "select 1"]])
def test_wrong_use_is_refused(arguments: list[str]) -> None:
    assert call(arguments).exit_code == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"times": ["soon"], "values": [1]},
        {"process": 7},
        {"process": "x", "pods": 1 << 40},
        {"process": "x", "pods": -1},
        {"process": "x", "cell": None},
    ],
)
def test_records_that_are_no_records_are_left_out_and_named(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    one = synthetic(tmp_path, {"a": 1.0}, blocks=1)
    good = {**coordinates(one.plan.cells[0], 0), "process": "agentd", "said": "it ended"}
    _append(one, "footprint", {**good, **wrong}, good)
    done = call(["query", "select process, said from footprint", str(one.path), "--json"])
    assert json.loads(done.stdout)["rows"] == [{"process": "agentd", "said": "it ended"}]
    assert "footprint.jsonl" in done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("samples.jsonl", b'"start":"2026', b'"start":"soon'),
        ("samples.jsonl", b'"ip":4', b'"ip":99999999999'),
        ("footprint.jsonl", b'"ip":4', b'"ip":99999999999'),
    ],
)
def test_a_run_that_does_not_fit_the_tables_is_an_input_error(
    tmp_path: Path, file: str, old: bytes, new: bytes
) -> None:
    one = synthetic(tmp_path, {"a": 1.0}, blocks=1)
    _append(one, "footprint", {**coordinates(one.plan.cells[0], 0), "process": "x"})
    path = one.path / file
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    done = call(["query", f"select count(*) from {path.stem}", str(one.path)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{one.path}: a row does not fit the table {path.stem}" in done.stderr


@pytest.mark.parametrize("sql", ["", "  ", ";", "/* all of it */"])
def test_an_empty_statement_is_refused(sql: str, run: RunReader) -> None:
    done = call(["query", sql, str(run.path)])
    assert (done.exit_code, "the statement is empty" in done.stderr) == (2, True)
