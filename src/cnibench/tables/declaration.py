"""The tables, their columns, and what a row of each is.

Columns that are coordinates of a figure come from model/context.py, with type and unit, and are the
same in all tables. The others have the names that samples.jsonl and ``report --format json`` give
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cnibench.model import context
from cnibench.model.cell import Sample

OF_ROW = "(unit)"  # the unit is in the row's column ``unit``
RESERVED = ("check", "end", "window")  # columns whose names are words of SQL: "end"


@dataclass(frozen=True)
class Column:
    """``kind`` is a type of DuckDB, ``unit`` an SI unit, OF_ROW, or '' for what is no quantity."""

    name: str
    kind: str
    about: str
    unit: str = ""

    @property
    def shown(self) -> str:
        """As a statement names it."""
        return f'"{self.name}"' if self.name in RESERVED else self.name


@dataclass(frozen=True)
class Table:
    """``row`` says what one row is."""

    name: str
    row: str
    columns: tuple[Column, ...]


def _count(name: str, about: str) -> Column:
    return Column(name, "INTEGER", about, "1")


def _number(name: str, about: str, unit: str = "1") -> Column:
    return Column(name, "DOUBLE", about, unit)


def _text(name: str, about: str) -> Column:
    return Column(name, "VARCHAR", about)


def _coordinates(*names: str) -> tuple[Column, ...]:
    found = map(context.coordinate, names)
    return tuple(Column(one.name, one.sql, one.about or one.title, one.unit) for one in found)


# Fields of samples.jsonl that are no coordinates: (unit, what they are).
_FIELDS = {
    "schema": ("", "version of the line's format"),
    "cell": ("", "id of the cell"),
    "block": ("", "number of the block, from 0"),
    "window": ("", "speed, or cpp: with perf"),
    "metric": ("", "what was measured"),
    "value": (OF_ROW, "the value; NULL: the sample failed"),
    "unit": ("", "SI unit of the metric"),
    "better": ("", "higher or lower"),
    "status": ("", "ok, failed, timeout or unsupported"),
    "reason": ("", "why it failed"),
    "warmup": ("", "a warm-up: it does not count"),
    "disturbed": ("", "why it is not used; '': it is used"),
    "start": ("", "begin of the measurement, UTC"),
    "end": ("", "end of the measurement, UTC"),
    "attempt": ("1", "number of the attempt, from 1"),
}


def _fields(*names: str) -> tuple[Column, ...]:
    """Of lines of samples.jsonl."""
    return tuple(
        Column(name, context.sql(name), _FIELDS[name][1], _FIELDS[name][0])
        if name in _FIELDS
        else _coordinates(name)[0]
        for name in names
    )


_RUN = _text("run", "id of the run")
_WHO = (_RUN, *_coordinates("label", "profile"))
_PLACE = _coordinates(*context.PLACE_NAMES)
_METRIC = _fields("metric", "unit", "better")
# Where a sample belongs, and with it the records of collectors.
_SAMPLE = (*_coordinates(*context.OF_RECORD), *_fields("cell", "window", "block"))

_TABLES = (
    Table(
        "samples",
        "a metric of a sample: a line of samples.jsonl",
        (_RUN, *_fields(*Sample.__struct_fields__)),
    ),
    Table(
        "results",
        "a metric of a cell over all blocks, as the report has it",
        (
            *_WHO,
            *_PLACE,
            *_coordinates("fidelity", "proxy"),
            *_METRIC,
            _count("n", "blocks in the figure; 0: all failed"),
            _number("median", "median of the blocks", OF_ROW),
            _number("ci_low", "lower end of the median's interval", OF_ROW),
            _number("ci_high", "upper end of the median's interval", OF_ROW),
            _number("confidence", "coverage of the interval"),
            _number("mean", "mean of the blocks", OF_ROW),
            _number("spread", "standard deviation / mean"),
            _count("failed", "blocks that gave no figure"),
            _count("tried", "blocks that were measured"),
            _count("disturbed", "blocks that are not used"),
            _text("cycles_source", "of cycles: pmu or estimated"),
        ),
    ),
    Table(
        "pairs",
        "two labels compared in one metric, as the report has it",
        (
            _RUN,
            _text("a", "the one label"),
            _text("b", "the other label"),
            *_PLACE,
            *_METRIC,
            _count("n", "blocks that have both"),
            _number("ratio", "a / b"),
            _number("ci_low", "lower end of the ratio's interval"),
            _number("ci_high", "upper end of the ratio's interval"),
            _number("confidence", "of it alone; NULL: all hold together"),
            _number("p", "p value of this pair alone"),
            _number("p_holm", "p value adjusted for its family"),
            _count("family", "pairs that are tested together"),
            _text("verdict", "a-better, b-better, inconclusive..."),
            _text("basis", "the test, additive model, counts; '': none"),
            _text("evidence", "proven, suggestive or none"),
            _text("reason", "why it is inconclusive, or needs no test"),
            _number("effect", "rank-biserial correlation"),
            _number("detectable", "smallest difference that n blocks find"),
            _number("within", "proven: they differ by less than this"),
            _count("blocks_needed", "blocks that can decide at all"),
            Column("exact", "BOOLEAN", "counted, alike in each block: no p"),
        ),
    ),
    Table(
        "cycles",
        "CPU cycles per packet of a component, the mean of the blocks",
        (
            *_WHO,
            *_coordinates(*context.OF_RECORD, "fidelity"),
            _text("component", "of the packet path, or unclassified"),
            _number("cycles_per_packet", "of the component"),
            _number("total", "of all components"),
            _text("cycles_source", "pmu or estimated"),
            _number("packets", "packets in a block, the mean"),
            _count("n", "blocks in the figure"),
            _count("counted", "samples of perf; 0: not recorded"),
        ),
    ),
    Table(
        "footprint",
        "a process of the CNI at one moment of a sample",
        (
            *_WHO,
            *_SAMPLE,
            _text("process", "its name; all: all of the node"),
            _text("node", "node on which it runs"),
            _count("pods", "our Pods on that node"),
            _number("elapsed", "time since the first reading", "s"),
            _number("memory", "resident, without pages of files", "B"),
            _number("cpu_user", "CPU time since the first reading", "s"),
            _number("cpu_system", "CPU time since the first reading", "s"),
            _text("said", "why figures are missing"),
        ),
    ),
    Table(
        "attestations",
        "a check of a deployed profile, the last one of its kind",
        (
            *_WHO,
            *_coordinates("ip"),
            _count("block", "the block that it was made after"),
            _text("check", "what was checked"),
            _text("expected", "what the profile's claim implies"),
            _text("observed", "what was there"),
            Column("passed", "BOOLEAN", "does it agree?"),
        ),
    ),
    Table(
        "conditions",
        "a condition of a sample, as it was read back",
        (
            *_WHO,
            *_SAMPLE,
            _text("condition", "policy, offload, services"),
            _text("place", "of an offload: node or Pod"),
            _text("device", "of an offload: network device"),
            Column("asked", "JSON", "the cell's parameters of the condition"),
            Column("found", "JSON", "what was read back"),
            Column("before", "JSON", "of an offload: features before"),
            _number("seconds", "time that applying it took", "s"),
        ),
    ),
    Table(
        "failures",
        "a sample or metric without a value, or a profile that cannot run",
        (*_WHO, *_SAMPLE, *_fields("metric", "status", "reason")),
    ),
)
TABLES = {one.name: one for one in _TABLES}
