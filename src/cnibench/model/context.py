"""What follows from the coordinates of a figure (coordinates.py): keys, order, words, columns, and
whether two figures or two machines agree.

Sample lines, pooling, the gate's keys, the check of --resume, the preconditions of claims, the
columns of ``query`` and of the reports come from here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cnibench.model.coordinates import (
    FIGURE,
    FREE_FACTS,
    FREE_FIELDS,
    FREE_OPTIONS,
    LABEL,
    MACHINE,
    NOT_RECORDED,
    PLACE,
    UNREAD,
    Coordinate,
)

if TYPE_CHECKING:
    from cnibench.model.cell import Cell

OPTIONS = FREE_OPTIONS | {option for one in (*LABEL, *PLACE, *MACHINE) for option in one.options}
FACTS = (
    FREE_FACTS
    | {path.split(".")[0] for one in MACHINE for path in one.at or (one.name,)}
    | {path for one in LABEL for path in one.at}
)
FIELDS = FREE_FIELDS | {*FIGURE, *(one.name for one in (*LABEL, *PLACE))}

PLACE_NAMES = tuple(one.name for one in PLACE)
IDENTITY = tuple(one.name for one in PLACE if one.role == "identity")
MUST_AGREE = tuple(one for one in PLACE if one.role == "must agree")
READ_BACK = tuple(one.name for one in PLACE if one.read_back)
# What a cell has of them: what every record of a collector says about where it belongs.
OF_CELL = (
    "profile",
    "label",
    "placement",
    "path",
    "workload",
    "params",
    "ip",
    "mtu",
    "cpus",
    "pair",
    "window",
)
OF_RECORD = tuple(name for name in OF_CELL if name in PLACE_NAMES)

# The columns of a line of samples.jsonl in SQL, in the order of its fields.
_KEY = json.JSONEncoder(sort_keys=True, default=str)
_SQL = {
    "schema": "INTEGER",
    "block": "INTEGER",
    "value": "DOUBLE",
    "warmup": "BOOLEAN",
    "start": "TIMESTAMP",
    "end": "TIMESTAMP",
    "attempt": "INTEGER",
}


def coordinate(name: str) -> Coordinate:
    """The coordinate of a label or place of that name."""
    return next(one for one in (*LABEL, *PLACE) if one.name == name)


def sql(field: str) -> str:
    """The SQL type of a field of a line."""
    return next(
        (one.sql for one in (*LABEL, *PLACE) if one.name == field), _SQL.get(field, "VARCHAR")
    )


def of_cell(cell: Any) -> dict[str, Any]:
    """A cell's own coordinates."""
    return {name: getattr(cell, name) for name in OF_CELL}


def place(where: Any) -> dict[str, Any]:
    """All coordinates of the place of a line or a figure."""
    return {name: getattr(where, name) for name in PLACE_NAMES}


def order(where: Mapping[str, Any]) -> tuple[Any, ...]:
    """A place's sort key but for its parameters, which the caller sorts by their numbers."""
    return tuple(one.rank(where[one.name]) for one in PLACE if one.name != "params")


def key(where: Mapping[str, Any], names: tuple[str, ...] = PLACE_NAMES) -> str:
    """Those coordinates as one value that can be compared."""
    return _KEY.encode([where[name] for name in names])


def alike(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Those that differ by their label alone together, in the order of the first ones."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        own = {name: getattr(cell, name) for name in IDENTITY}
        found.setdefault(key(own, IDENTITY), []).append(cell)
    return list(found.values())


def unusual(where: Any) -> list[str]:
    """What of a place does not go without saying: ``path clusterip``, ``IPv6``."""
    return [
        one.phrase.format(value)
        for one in PLACE
        if one.phrase and (value := getattr(where, one.name)) not in one.usual
    ]


def circumstances(where: Any) -> list[str]:
    """The circumstances that must agree, each in words, but for what is usual, not recorded, or in
    the description of the place.
    """
    values = [(one, getattr(where, one.name)) for one in MUST_AGREE if not one.phrase]
    return [
        f"{one.title} {said}"
        for one, value in values
        if value not in one.usual and (said := one.words(value)) != NOT_RECORDED
    ]


def wire_offload(params: Mapping[str, Any], run: str) -> str:
    """The offload model of the wire that was in force: that of the cell's condition, else that of
    the run.
    """
    asked = params.get("offload.wire", "default")
    return run if asked == "default" else str(asked)


def congestion_control(environment: Mapping[str, Any]) -> str:
    """TCP's congestion control out of the settings that were read back; several joined by a comma,
    '' where none was recorded.
    """
    found: set[str] = set()

    def look(table: object, depth: int = 0) -> None:
        if isinstance(table, Mapping) and depth < 3:
            for name, value in table.items():
                if str(name).replace("/", ".") == "net.ipv4.tcp_congestion_control":
                    found.add(str(value))
                else:
                    look(value, depth + 1)

    for name in ("sysctls", "nodes"):
        look(environment.get(name))
    return ",".join(sorted(found))


def fact(environment: Mapping[str, Any], name: str) -> Any:
    """A coordinate of the machine out of env.json, None where it has none."""
    return next(one for one in MACHINE if one.name == name).of(environment)


@dataclass(frozen=True)
class Disagreement:
    """Two values of one circumstance that must agree, in words."""

    title: str
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.title}: {self.one} against {self.other}"


def differing(one: Coordinate, ours: Any, theirs: Any, title: str = "") -> list[Disagreement]:
    """None or one: do these values of a coordinate agree? One that was not read agrees with every
    other. Of two tables the items that both have are compared.
    """
    title = title or one.title
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return [
            found
            for key in ours
            if key in theirs
            for found in differing(one, ours[key], theirs[key], f"{title}, {key}")
        ]
    if ours == theirs or (one.read_back and UNREAD in (ours, theirs)):
        return []
    return [Disagreement(title, one.words(ours), one.words(theirs))]


def disagreements(
    recorded: Mapping[str, Any],
    present: Mapping[str, Any],
    *,
    partial: bool = True,
    machine: bool = True,
    versions: bool = True,
) -> list[Disagreement]:
    """What of the machine must agree and does not, out of two env.json, in the order of their
    declaration.

    ``partial``: what one of them does not have is no disagreement: an interrupted run had not
    recorded all of it yet, and a program may not tell its version. Without ``machine`` only the
    programs are compared, without ``versions`` only what may not change along a trend.
    """
    found = []
    for one in MACHINE if machine else [one for one in MACHINE if one.name == "tool_version"]:
        if one.version and not versions:
            continue
        ours, theirs = one.of(recorded), one.of(present)
        if not partial or (ours not in (None, "") and theirs not in (None, "")):
            found += differing(one, ours, theirs)
    return found
