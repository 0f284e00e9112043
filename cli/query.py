"""Ask the samples of any number of runs in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cnibench.cell import SCHEMA, Sample
from cnibench.cli._output import json_option, print_json, print_table
from cnibench.errors import InputError, UsageError
from cnibench.model import context


@click.command("query")
@click.argument("sql")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Where run directories are.")
@json_option
def command(sql: str, runs: tuple[str, ...], folder: Path, as_json: bool) -> None:
    """Ask the samples of any number of runs in SQL (DuckDB); without RUN, those of all runs.

    The table is 'samples': the fields of samples.jsonl, and 'run'. For instance:

    cnibench query "select label, median(value) from samples where metric = 'throughput' group by all"
    """
    from cnibench.store import RunReader, find
    from cnibench.store import runs as all_runs

    readers = [RunReader(find(name, folder)) for name in runs] or all_runs(folder)
    if not readers:
        raise UsageError(f"there are no runs in {folder}", "name one: cnibench query SQL RUN")
    heads, rows = ask(sql, [(reader.id, reader.path) for reader in readers])
    if as_json:
        print_json({"schema": 1, "columns": heads, "rows": [dict(zip(heads, row, strict=True)) for row in rows]})
        return
    from cnibench.reports._escape import plain

    print_table([plain(head) for head in heads], [["" if value is None else plain(value) for value in row] for row in rows])


# Of lines of any version; what a line lacks is NULL.
_COLUMNS = {name: context.sql(name) for name in Sample.__struct_fields__}


def ask(sql: str, runs: list[tuple[str, Path]]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """(column names, rows) of a statement over the table ``samples`` of (id, path) ``runs``.

    The statement may read and write no file and load no extension: it only sees the table. A line that a crash cut off is left out.
    Raises UsageError with DuckDB's own words.
    """
    import duckdb

    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in _COLUMNS.items())
    with duckdb.connect(config={"threads": "2"}) as database:
        _load(database, columns, runs)
        _whole(database, runs)
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        try:
            answer = database.execute(sql)
            heads = [column[0] for column in answer.description or ()]
            return heads, answer.fetchall()
        except duckdb.Error as error:
            raise UsageError(
                f"DuckDB: {str(error).strip().splitlines()[0]}", "the table is 'samples'; DESCRIBE samples lists its columns"
            ) from None


def _whole(database: Any, runs: list[tuple[str, Path]]) -> None:
    """Raises InputError for lines of a newer version; says on stderr how many lines could not be read."""
    newest = database.execute("SELECT max(schema) FROM samples").fetchone()[0] or SCHEMA
    if newest > SCHEMA:
        raise InputError(
            f"samples.jsonl: written by a newer cnibench (schema {newest}, this one reads up to {SCHEMA})", "install a newer one"
        )
    counts = dict(database.execute("SELECT run, count(*) FROM samples GROUP BY run").fetchall())
    for identity, path in runs:
        file = path / "samples.jsonl"
        if not file.exists():
            continue
        with file.open("rb") as lines:
            left_out = sum(1 for line in lines if line.strip()) - counts.get(identity, 0)
        if left_out > 0:
            click.echo(f"warning: {file}: {left_out} line{'s' * (left_out != 1)} cannot be read and are left out", err=True)


def _load(database: Any, columns: str, runs: list[tuple[str, Path]]) -> None:
    import duckdb

    first = True
    for identity, path in runs:
        file = path / "samples.jsonl"
        if not file.exists() and not first:
            continue
        reading = f"read_json(?, format = 'newline_delimited', ignore_errors = true, columns = {{{columns}}})"
        source = f"SELECT ? AS run, * FROM {reading} WHERE schema IS NOT NULL"
        try:
            if first:
                database.execute(f"CREATE TABLE samples AS {source}" + ("" if file.exists() else " LIMIT 0"),
                                 [identity, str(file) if file.exists() else "/dev/null"])  # fmt: skip
                first = False
            else:
                database.execute(f"INSERT INTO samples {source}", [identity, str(file)])
        except duckdb.Error as error:
            raise InputError(f"{file}: {str(error).strip().splitlines()[0]}", "is this a run directory of cnibench?") from None
