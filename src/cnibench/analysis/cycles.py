"""Cycles per packet by component, the mean over the blocks, so that the components still add up to
the total.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cnibench.analysis.model import Cpp
from cnibench.analysis.records import usable
from cnibench.model.context import OF_RECORD
from cnibench.model.units import is_number
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Record

_WHERE = ("label", "profile", *(name for name in OF_RECORD if name != "params"))


def cycles(
    readers: Sequence[RunReader],
    numbers: Sequence[int],
    labels: Sequence[str],
    fidelity: Mapping[str, str],
) -> tuple[dict[str, str], list[Cpp]]:
    """(label to the source of its cycles, the table). A record that lacks a key or has no finite
    total is passed over, and reported.
    """
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record, environment in usable(readers, numbers, "cpp", _usable, "total"):
        key = (
            *(record[name] for name in _WHERE),
            json.dumps(record["params"], sort_keys=True),
            str(record["cycles_source"]),
            environment,
        )
        found.setdefault(key, []).append(record)
    place = {label: i for i, label in enumerate(labels)}
    rows = [_row(records, key[-1], fidelity) for key, records in found.items()]
    rows.sort(
        key=lambda row: (
            row.workload,
            row.placement != "intra",
            json.dumps(row.params),
            row.path,
            place.get(row.label, len(place)),
        )
    )
    return {row.label: row.cycles_source for row in rows}, rows


def _usable(record: Record) -> bool:
    numbers = [record.get("total"), record.get("unclassified"), record.get("packets")]
    numbers += [record.get("counted", 0), record.get("seconds", 0.0)]
    components = record.get("components")
    if (
        not isinstance(components, Mapping)
        or "params" not in record
        or "cycles_source" not in record
    ):
        return False
    numbers += list(components.values())
    return all(name in record for name in _WHERE) and all(is_number(value) for value in numbers)


def _share(records: Sequence[Record], part: str, whole: Callable[[Record], Any]) -> float | None:
    """Of all blocks together; None where one of them does not tell."""
    parts: list[Any] = [one.get(part) for one in records]
    wholes: list[Any] = [whole(one) for one in records]
    if not all(map(is_number, [*parts, *wholes])) or sum(wholes) <= 0:
        return None
    return float(sum(parts) / sum(wholes))


def _row(records: Sequence[Record], environment: int, fidelity: Mapping[str, str]) -> Cpp:
    first, n = records[0], len(records)
    names = dict.fromkeys(name for record in records for name in record["components"])
    return Cpp(
        **{name: first[name] for name in _WHERE},
        params=first["params"],
        cycles_source=str(first["cycles_source"]),
        total=math.fsum(record["total"] for record in records) / n,
        packets=math.fsum(record["packets"] for record in records) / n,
        components={
            name: math.fsum(record["components"].get(name, 0.0) for record in records) / n
            for name in names
        },
        unclassified=math.fsum(record["unclassified"] for record in records) / n,
        n=n,
        environment=environment,
        fidelity=fidelity.get(first["label"], ""),
        blocks=[int(record["block"]) for record in records if "block" in record],
        by_block={
            name: [float(record["components"].get(name, 0.0)) for record in records]
            for name in names
        }
        | {"total": [float(record["total"]) for record in records]},
        counted=sum(int(record.get("counted", 0)) for record in records),
        seconds=math.fsum(float(record.get("seconds", 0.0)) for record in records),
        outside=_share(records, "outside_cycles", lambda one: one["total"] * one["packets"]),
        idle=_share(records, "idle_cycles", lambda one: one.get("cycles")),
    )
