"""Background load that fell short of what was asked: figures of a saturated machine are not those
under the load that its plan names.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.analysis.records import usable
from cnibench.analysis.text.certainty import percent
from cnibench.analysis.text.places import describe, of_cell
from cnibench.model.context import OF_RECORD
from cnibench.model.units import human, is_number
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Record

ENOUGH = 0.9  # of what was asked; headers are counted as sent, which adds some percent
_LOAD = ("connections", "pairs", "asked")
_SAID = ("connections", "pods", "rate")  # parameters that identify the load

_Load = tuple[
    float, float, float, str
]  # connections, pairs of Pods, asked (bit/s), the cell's other parameters


def shortfalls(readers: Sequence[RunReader], numbers: Sequence[int]) -> list[str]:
    """One note for each label and place where the load's median over the blocks is below
    ``ENOUGH``; ``numbers`` are the environments.

    A record that lacks a key, or whose rates are no finite numbers, is passed over, and reported
    by its reader.
    """
    places: dict[tuple[Any, ...], tuple[Record, dict[_Load, list[float]]]] = {}
    for record, environment in usable(readers, numbers, "background", _usable, "rates"):
        if record["achieved"] is None:  # Pods without a device of their own
            continue
        key = (
            environment,
            record["label"],
            record["window"],
            *(record[name] for name in OF_RECORD if name != "params"),
        )
        _, loads = places.setdefault(key, (record, {}))
        rest = {name: value for name, value in record["params"].items() if name not in _SAID}
        load = (
            float(record["connections"]),
            float(record["pairs"]),
            float(record["asked"]),
            json.dumps(rest, sort_keys=True),
        )
        loads.setdefault(load, []).append(float(record["achieved"]))
    return [
        note for key, (record, loads) in places.items() if (note := _note(record, loads, key[0]))
    ]


def _usable(record: Mapping[str, Any]) -> bool:
    if not all(
        name in record for name in (*OF_RECORD, *_LOAD, "label", "window", "achieved")
    ) or not isinstance(record["params"], Mapping):
        return False
    numbers = [
        record[name] for name in (*_LOAD, *(["achieved"] if record["achieved"] is not None else []))
    ]
    return all(is_number(value) for value in numbers)


def _note(record: Record, loads: Mapping[_Load, Sequence[float]], environment: int) -> str:
    several = {name for name, values in _values(loads).items() if len(values) > 1}
    short = []
    for (connections, pairs, asked, rest), achieved in sorted(loads.items()):
        median = statistics.median(achieved)
        if median < ENOUGH * asked:
            beside = "".join(
                f", {name} {value}" for name, value in json.loads(rest).items() if name in several
            )
            short.append(
                f"{_number(connections, 'connection')} over {_number(pairs, 'pair')} of"
                f" Pods{beside} sent {human(median, 'bit/s')} of the {human(asked, 'bit/s')} asked"
                f" ({percent(median / asked)}, median of {_number(len(achieved), 'block')})"
            )
    if not short:
        return ""
    where = of_cell(**{name: record[name] for name in OF_RECORD}, environment=environment)
    perf = " with perf" * (record["window"] == "cpp")
    return (
        f"{record['label']}, {describe(where)}{perf}: the background load fell short:"
        f" {'; '.join(short)}; its figures refer to the load that was sent: ask for fewer"
        " connections or a lower rate of each, or measure on more CPUs"
    )


def _values(loads: Mapping[_Load, Sequence[float]]) -> dict[str, set[str]]:
    """Each other parameter with the values that it has."""
    found: dict[str, set[str]] = {}
    for *_, rest in loads:
        for name, value in json.loads(rest).items():
            found.setdefault(name, set()).add(json.dumps(value))
    return found


def _number(count: float, what: str) -> str:
    return f"{count:.0f} {what}{'s' * (count != 1)}"
