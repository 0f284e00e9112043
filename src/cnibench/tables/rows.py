"""The rows of the tables of one run, but for those of samples, which are its lines as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from cnibench.analysis import Analysis, analyse
from cnibench.analysis.model import Where
from cnibench.analysis.records import usable
from cnibench.model import context
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Record
from cnibench.tables.declaration import TABLES

Row = dict[str, Any]
_OF_SAMPLE = ("label", "profile", *context.OF_RECORD, "cell", "window", "block")
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


def rows(reader: RunReader, tables: Sequence[str]) -> dict[str, list[Row]]:
    """Of each of the ``tables`` but samples, without the column ``run``; a column that a row lacks
    is NULL. Figures and verdicts are those of the run alone, as ``cnibench report RUN`` has them.
    Records that are not as they should be are in the reader's warnings.
    """
    found = {name: list(_STORED[name](reader)) for name in tables if name in _STORED}
    if analysed := [name for name in tables if name in _ANALYSED]:
        analysis = analyse([reader])
        found |= {name: list(_ANALYSED[name](analysis, reader)) for name in analysed}
    return found


def _taken(table: str, source: Any) -> Row:
    """The columns of the table that are attributes of ``source``."""
    names = (column.name for column in TABLES[table].columns)
    return {name: getattr(source, name) for name in names if hasattr(source, name)}


def _results(analysis: Analysis, _: RunReader) -> Iterator[Row]:
    """Those of the report, and where a label failed in every block, a row without a figure."""

    def place(where: Where, label: str) -> tuple[str, str, str]:
        return where.metric, context.key(context.place(where)), label

    have = set()
    profiles = {one.label: one.profile for one in analysis.failures}
    for result in analysis.results:
        have.add(place(result, result.label))
        profiles[result.label] = result.profile
        yield _taken("results", result)
    for group in analysis.groups:
        for label, (failed, tried) in group.failed.items():
            if place(group, label) not in have:
                yield {
                    **context.place(group),
                    **{name: getattr(group, name) for name in ("metric", "unit", "better")},
                    "label": label,
                    "profile": profiles.get(label),
                    "n": 0,
                    "failed": failed,
                    "tried": tried,
                }


def _pairs(analysis: Analysis, _: RunReader) -> Iterator[Row]:
    yield from (_taken("pairs", pair) for pair in analysis.pairs)


def _cycles(analysis: Analysis, _: RunReader) -> Iterator[Row]:
    for one in analysis.cpp:
        common = _taken("cycles", one)
        for component, cycles in {**one.components, "unclassified": one.unclassified}.items():
            yield {**common, "component": component, "cycles_per_packet": cycles}


def _attestations(analysis: Analysis, _: RunReader) -> Iterator[Row]:
    yield from (_taken("attestations", check) for check in analysis.attestations)


def _failures(analysis: Analysis, reader: RunReader) -> Iterator[Row]:
    for one in analysis.failures:
        if one.block < 0:  # of a profile, not of a sample
            yield {name: getattr(one, name) for name in ("label", "profile", "status", "reason")}
            continue
        cell = reader.plan.cell(one.cell)
        yield {**(context.of_cell(cell) if cell else {}), **_taken("failures", one)}


class _Footprint(msgspec.Struct):
    """A record of a process over time: ``times`` in s, ``values`` in B, CPU time in s."""

    process: str
    node: str | None = None
    pods: _Count | None = None
    said: str | None = None
    times: list[float] = []
    values: list[float] = []
    cpu_user: list[float] | None = None
    cpu_system: list[float] | None = None


def _footprint(reader: RunReader) -> Iterator[Row]:
    for where, one in _records(reader, "footprint", _Footprint):
        common = {**where, **_taken("footprint", one)}
        series: Mapping[str, Sequence[float] | None] = {
            "elapsed": one.times,
            "memory": one.values,
            "cpu_user": one.cpu_user,
            "cpu_system": one.cpu_system,
        }
        there = {name: values for name, values in series.items() if values}
        none = dict.fromkeys(series)
        for at_once in zip(*there.values(), strict=False) if there else ((),):
            yield {**common, **none, **dict(zip(there, at_once, strict=False))}


class _Condition(msgspec.Struct):
    """``found`` of a policy, ``now`` and ``before`` of an offload; ``seconds`` to apply a
    policy.
    """

    condition: str
    place: str | None = None
    device: str | None = None
    found: dict[str, Any] | None = None
    now: dict[str, Any] | None = None
    before: dict[str, Any] | None = None
    seconds: float | None = None


def _conditions(reader: RunReader) -> Iterator[Row]:
    for where, one in _records(reader, "conditions", _Condition):
        asked = {
            name: value
            for name, value in where["params"].items()
            if name.startswith(f"{one.condition}.")
        }
        found = one.found if one.now is None else one.now
        yield {**where, **_taken("conditions", one), "asked": asked, "found": found}


def _records(reader: RunReader, name: str, kind: type[Any]) -> Iterator[tuple[Row, Any]]:
    """(where it belongs, the record) of the records that are as they should be."""

    def check(record: Record) -> bool:
        try:
            msgspec.convert(record, kind)
        except msgspec.ValidationError:
            return False
        return all(column in record for column in _OF_SAMPLE)

    for record, _ in usable([reader], [0], name, check, "figures or coordinates"):
        where = {column: record[column] for column in _OF_SAMPLE}
        yield where, msgspec.convert(record, kind)


_ANALYSED: Mapping[str, Callable[[Analysis, RunReader], Iterator[Row]]] = {
    "results": _results,
    "pairs": _pairs,
    "cycles": _cycles,
    "attestations": _attestations,
    "failures": _failures,
}
_STORED: Mapping[str, Callable[[RunReader], Iterator[Row]]] = {
    "footprint": _footprint,
    "conditions": _conditions,
}
