"""A database in memory with the tables of some runs, for one statement of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from cnibench.errors import InputError, UsageError
from cnibench.model.cell import Sample
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import SAMPLES
from cnibench.system import scratch
from cnibench.system.files import check_relative
from cnibench.tables.declaration import TABLES
from cnibench.tables.mistakes import explained
from cnibench.tables.rows import rows


def ask(sql: str, readers: Sequence[RunReader]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """(column names, rows) of a statement over the tables of the runs: of lines that their events
    vouch for.

    The statement may read and write no file and load no extension: it only sees the tables. Raises
    UsageError for what is wrong with it, InputError for what does not fit a table.
    """
    import duckdb

    check_relative(Path())  # DuckDB looks where it is
    with duckdb.connect(config={"threads": "2"}) as database:
        for table in TABLES.values():
            columns = ", ".join(f'"{column.name}" {column.kind}' for column in table.columns)
            database.execute(f"CREATE TABLE {table.name} ({columns})")
        _fill(database, readers, named(database, sql))
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        try:
            answer = database.execute(sql)
            if answer is None:  # spaces, comments or semicolons only
                raise UsageError("the statement is empty", "'cnibench query --help' has examples")
            heads = [column[0] for column in answer.description or ()]
            return heads, answer.fetchall()
        except duckdb.OutOfMemoryException:
            raise  # the statement is not what is wrong
        except duckdb.Error as error:
            raise explained(error, sql) from None


def named(database: Any, sql: str) -> list[str]:
    """The tables that a statement reads; all of them where DuckDB cannot tell (several statements,
    say). The analysis behind some takes a while in a large run.
    """
    import duckdb

    try:
        found = {name.lower() for name in database.get_table_names(sql)}
    except duckdb.Error:
        return list(TABLES)
    return [name for name in TABLES if name in found]


def _fill(database: Any, readers: Sequence[RunReader], tables: Sequence[str]) -> None:
    """By way of files that contain only what the events of the runs commit."""
    with scratch.folder() as folder:
        copy = folder / "rows.jsonl"
        for reader in readers:
            if "samples" in tables:
                with copy.open("wb") as file:
                    for _, lines in reader.readable(SAMPLES, Sample):
                        file.write(lines)
                _load(database, "samples", copy, reader)
            for table, found in rows(reader, tables).items():
                copy.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in found))
                _load(database, table, copy, reader)


def _load(database: Any, table: str, file: Path, reader: RunReader) -> None:
    """Appends the lines of the file to the table. Raises InputError for what does not fit it."""
    import duckdb

    _, *rest = TABLES[table].columns  # the first one is the run
    kinds = ", ".join(f"'{column.name}': '{column.kind}'" for column in rest)
    try:
        database.execute(
            f"INSERT INTO {table} BY NAME SELECT ?::VARCHAR AS run, * FROM"
            f" read_json(?, format = 'newline_delimited', columns = {{{kinds}}})",
            [reader.id, str(file)],
        )
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        words = str(error).strip().splitlines()[0].replace(str(file), table)
        raise InputError(
            f"{reader.path}: a row does not fit the table {table}: {words}",
            "take the run from a complete copy",
        ) from None
