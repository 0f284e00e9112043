"""Query the samples of runs with SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli._integrity import check, first_lines, later, warn
from cnibench.cli._options import folder_option
from cnibench.cli._output import json_option, print_json, print_table
from cnibench.errors import InputError, UsageError
from cnibench.model import context
from cnibench.model.cell import Sample
from cnibench.system import scratch
from cnibench.system.files import check_relative
from cnibench.system.text import printable

if TYPE_CHECKING:
    from cnibench.rundir.reader import RunReader


@click.command(
    "query",
    epilog=(
        "\b\nExamples:\n"
        '  cnibench query "select label, median(value) from samples\n'
        "    where metric = 'throughput' group by all\" last\n"
    ),
)
@click.argument("sql")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@folder_option
@json_option
def command(sql: str, runs: tuple[str, ...], folder: Path, as_json: bool) -> int:
    """Query the samples of runs with SQL.

    SQL is a DuckDB statement over the table 'samples', which has the fields of samples.jsonl and
    the column 'run'. Without RUN, the table contains all runs. A run and a copy of it are refused:
    its samples would be counted twice.
    """
    from cnibench.rundir.index import each_once, find
    from cnibench.rundir.index import runs as all_runs
    from cnibench.rundir.reader import RunReader

    unreadable: list[str] = []
    readers = [RunReader(find(name, folder)) for name in runs] or all_runs(folder, unreadable)
    if runs:
        each_once(readers, "name each run once: its samples would be counted twice")
    else:
        each_once(
            readers,
            f"move one of them out of {folder}, or name the runs: cnibench query SQL RUN...",
            words=f"{folder} contains one run twice",
        )
    problems = [printable(message) for message in unreadable] + check(readers)
    first_lines(problems, err=True)
    if not readers:
        raise UsageError(f"there are no runs in {folder}", "name one: cnibench query SQL RUN")
    heads, rows = ask(sql, readers)
    status = later(readers, problems, err=True)
    warn(readers)
    if as_json:
        print_json(
            {
                "schema": 1,
                "problems": problems,
                "columns": heads,
                "rows": [dict(zip(heads, row, strict=True)) for row in rows],
            }
        )
        return status
    from cnibench.reports._escape import plain

    print_table(
        [plain(head) for head in heads],
        [["" if value is None else plain(value) for value in row] for row in rows],
    )
    return status


# Of lines of any version; what a line lacks is NULL.
_COLUMNS = {name: context.sql(name) for name in Sample.__struct_fields__}


def ask(sql: str, readers: Sequence[RunReader]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """(column names, rows) of a statement over the table ``samples`` of the runs: the lines that
    their events vouch for.

    The statement may read and write no file and load no extension: it only sees the table. Raises
    UsageError with DuckDB's own words.
    """
    import duckdb

    check_relative(Path())  # DuckDB looks where it is
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in _COLUMNS.items())
    with duckdb.connect(config={"threads": "2"}) as database:
        _load(database, columns, readers)
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        try:
            answer = database.execute(sql)
            heads = [column[0] for column in answer.description or ()]
            return heads, answer.fetchall()
        except duckdb.OutOfMemoryException:
            raise  # the statement is not what is wrong
        except duckdb.Error as error:
            raise UsageError(
                f"DuckDB: {str(error).strip().splitlines()[0]}",
                "the table is 'samples'; DESCRIBE samples lists its columns",
            ) from None


def _load(database: Any, columns: str, readers: Sequence[RunReader]) -> None:
    """Fills the table by way of a copy, in which nothing stands that the events of the runs do not
    vouch for.
    """
    import duckdb

    from cnibench.rundir.schema import SAMPLES

    source = (
        "SELECT ?::VARCHAR AS run, * FROM read_json(?, format = 'newline_delimited', ignore_errors"
        f" = true, columns = {{{columns}}})"
    )
    with scratch.folder() as folder:
        copy = folder / SAMPLES
        copy.touch()
        database.execute(f"CREATE TABLE samples AS {source} LIMIT 0", ["", str(copy)])
        for reader in readers:
            whole = 0
            with copy.open("wb") as file:
                for _, data in reader.readable(SAMPLES, Sample):
                    whole += data.count(b"\n")
                    file.write(data)
            try:
                database.execute(
                    f"INSERT INTO samples {source} WHERE schema IS NOT NULL", [reader.id, str(copy)]
                )
                (loaded,) = database.execute(
                    "SELECT count(*) FROM samples WHERE run = ?", [reader.id]
                ).fetchone()
            except duckdb.Error as error:
                words = str(error).strip().splitlines()[0]
                raise InputError(
                    f"{reader.path / SAMPLES}: {words}", "is this a run directory of cnibench?"
                ) from None
            if loaded < whole:
                raise InputError(
                    f"{reader.path / SAMPLES}: {whole - loaded} lines do not fit the table",
                    "take the file from a complete copy",
                )
