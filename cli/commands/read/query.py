"""Query runs with SQL: samples, results, pairs, cycles, failures and more."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.cli.options.runs import runs_argument
from cnibench.cli.options.shared import folder_option
from cnibench.cli.output.integrity import check, first_lines, later, warn
from cnibench.cli.output.printing import json_option, print_json, print_table
from cnibench.errors import UsageError
from cnibench.system.text import printable

# One for each table. A test runs them.
EXAMPLES = """
  cnibench query --tables
  cnibench query "select label, placement, median, ci_low, ci_high, unit
    from results where metric = 'throughput' order by median desc" last
  cnibench query "select a, b, placement, ratio, p_holm, verdict from pairs
    where metric = 'transaction_rate' order by p_holm" last
  cnibench query "select label, component, avg(cycles_per_packet) as cycles
    from cycles group by all order by cycles desc limit 10" last
  cnibench query "select label, block, value from samples
    where metric = 'throughput' and disturbed = ''" last
  cnibench query "select label, process, max(memory) / 1e6 as megabytes
    from footprint where memory > 0 group by all order by 3 desc" last
  cnibench query "select label, count(*) as checks,
    bool_and(passed) as passed from attestations group by label" last
  cnibench query "select label, params->>'policy.entries' as entries, found
    from conditions where condition = 'policy'" last
  cnibench query "select run, label, status, count(*) as samples,
    any_value(reason) from failures group by all"
"""


@click.command("query", epilog=f"\b\nExamples:{EXAMPLES}")
@click.argument("sql", required=False)
@runs_argument
@click.option("--tables", is_flag=True, help="List the tables and their columns.")
@folder_option
@json_option
def command(
    sql: str | None, runs: tuple[str, ...], tables: bool, folder: Path, as_json: bool
) -> int:
    """Query runs with SQL: samples, results, pairs, cycles, failures and more.

    SQL is a DuckDB statement over the tables samples, results, pairs, cycles, footprint,
    attestations, conditions and failures; --tables lists their columns. Each row names its run,
    and has the figures and verdicts that 'cnibench report' shows for that run alone. Without RUN,
    the tables contain all runs. A run and a copy of it are refused: its rows would be counted
    twice.
    """
    from cnibench.rundir.index import each_once, find
    from cnibench.rundir.index import runs as all_runs
    from cnibench.rundir.reader import RunReader

    if tables:
        if sql is not None:
            raise UsageError("--tables takes no SQL", "leave one of them out")
        _show_tables(as_json)
        return 0
    if sql is None:
        raise UsageError(
            "no SQL was given", "'cnibench query --help' has examples; --tables lists the tables"
        )
    unreadable: list[str] = []
    readers = [RunReader(find(name, folder)) for name in runs] or all_runs(folder, unreadable)
    if runs:
        each_once(readers, "name each run once: its rows would be counted twice")
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
    from cnibench.tables.database import ask

    heads, rows = ask(sql, readers)
    status = later(readers, problems, err=True)
    warn(readers)
    if as_json:
        if double := next((head for head in heads if heads.count(head) > 1), None):
            raise UsageError(
                f"two columns are called '{double}', and a row of JSON can have one of them",
                "rename one of them: select ... as NAME",
            )
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


def _show_tables(as_json: bool) -> None:
    from cnibench.tables.declaration import OF_ROW, TABLES

    if as_json:
        tables = [
            {
                "name": table.name,
                "row": table.row,
                "columns": [
                    {"name": one.name, "type": one.kind, "unit": one.unit, "about": one.about}
                    for one in table.columns
                ],
            }
            for table in TABLES.values()
        ]
        print_json({"schema": 1, "tables": tables})
        return
    for table in TABLES.values():
        click.echo(f"{table.name}: {table.row}")
        for one in table.columns:
            click.echo(f"  {one.shown:<18} {one.kind:<9} {one.unit:<6} {one.about}".rstrip())
        click.echo()
    click.echo(
        f"Units are SI units, 1 is a number without one; {OF_ROW}: in the column 'unit'.\n"
        "Names in double quotes are words of SQL: write them so.\n"
        "NULL: not recorded, or it does not apply."
    )
