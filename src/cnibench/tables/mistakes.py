"""What DuckDB says of a statement, with the nearest table or column that there is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from cnibench.errors import UsageError
from cnibench.tables.declaration import RESERVED, TABLES

_HELP = "'cnibench query --tables' lists the tables and their columns"
# The words of DuckDB 1.0 to 2.0. What none of them fits is passed on as it is.
_TABLE = re.compile(r"Table with name (.+?) does not exist")
_ALIAS = re.compile(r"Referenced table \"(.+?)\" not found")
_COLUMN = re.compile(
    r"(?:Referenced column|does not have a column named) \"(.+?)\""
    r"|Column \"(.+?)\" (?:in EXCLUDE list|in REPLACE list|does not exist)"
)
_BARE = re.compile(rf'(?<!["\w])({"|".join(RESERVED)})(?!["\w])', re.IGNORECASE)


def explained(error: Exception, sql: str) -> UsageError:
    """The error for the user. ``error`` is DuckDB's."""
    words = str(error).strip().splitlines()[0]
    if found := _TABLE.search(words) or _ALIAS.search(words):
        name = found[1]
        return UsageError(f"there is no table '{name}'", f"{_nearest(name, TABLES)}{_HELP}")
    if found := _COLUMN.search(words):
        name = found[1] or found[2]
        near = _nearest(name, _columns(sql))
        text = "" if near else f"if it is a text, write it in single quotes: '{name}'; "
        return UsageError(f"there is no column '{name}'", f"{near}{text}{_HELP}")
    quotes = ""
    if words.startswith("Parser Error") and _BARE.search(sql):
        named = ", ".join(f'"{name}"' for name in RESERVED)
        quotes = f"the columns {named} need double quotes; "
    return UsageError(f"DuckDB: {words}", f"{quotes}{_HELP}")


def _nearest(name: str, there: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), list(there), n=3, cutoff=0.6)
    return f"nearest: {', '.join(near)}; " if near else ""


def _columns(sql: str) -> list[str]:
    """Of the tables whose names are in the statement, of all where none is."""
    words = set(re.findall(r"\w+", sql.lower()))
    tables = [table for name, table in TABLES.items() if name in words] or list(TABLES.values())
    return list(dict.fromkeys(column.name for table in tables for column in table.columns))
