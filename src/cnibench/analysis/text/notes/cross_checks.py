"""Windows of one second that contradict what was measured in slices."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.records import usable
from cnibench.analysis.text.places import describe, of_cell
from cnibench.model.context import OF_RECORD
from cnibench.model.metrics import METRICS
from cnibench.model.units import human, is_number, plural
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import CROSS_CHECKS, Record

# standard deviation of the log of a window of a second, an assumption: several times that of the
# windows of ten seconds that are published
NOISE = 0.1
_Z = 1.96  # of the 95 % interval
_SHOWN = 3
_FEWEST = 3  # blocks that have a scatter


def contradictions(
    readers: Sequence[RunReader], numbers: Sequence[int], contexts: Sequence[Context]
) -> list[str]:
    """One note, if a window contradicts or none could be judged; ``numbers`` are the environments
    of ``readers``. ``contexts`` have the slices of all blocks: by as much as these scatter, the
    machine's speed changes from one moment to the next.

    Windows that were disturbed, that failed, or on a machine that other programs used, are not
    judged.
    """
    records = list(usable(readers, numbers, CROSS_CHECKS, _usable, "figures"))
    judged = [
        (record, environment, difference)
        for record, environment in records
        if (difference := _difference(record)) is not None
    ]
    if records and not judged:
        reason = next((record["reason"] for record, _ in records if record["reason"]), "no figure")
        return [f"cross-check: no window of 1 s could be compared with the slices: {reason}"]
    found = [
        f"{_place(record, environment)}: {_figure(record, record['found'][record['metric']])} in a"
        f" window, {_figure(record, record['value'])} in slices"
        for record, environment, difference in judged
        if abs(difference) > _allowed(record, _scatter(contexts, record, environment))
    ]
    if not found:
        return []
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    middle = math.exp(statistics.median(difference for *_, difference in judged))
    skipped = len(records) - len(judged)
    were = "was" if skipped == 1 else "were"
    unjudged = f"; {plural(skipped, 'window')} {were} not judged" if skipped else ""
    return [
        f"cross-check: {len(found)} of {len(judged)} windows of 1 s contradict the slices"
        f" (allowed: {_Z * NOISE:.0%}, which is assumed, and twice the scatter of the"
        f" cell's slices from block to block; the median window is {middle:.2f} times the"
        f" slices{unjudged}):"
        f" {'; '.join(found[:_SHOWN])}{more}"
    ]


def _difference(record: Record) -> float | None:
    """Log of the window's value over that in slices; None where there is no usable window."""
    window = record["found"].get(record["metric"])
    if record["reason"] or not window or not record["value"]:
        return None
    return math.log(window / record["value"])


def _scatter(contexts: Sequence[Context], record: Record, environment: int) -> float:
    """Standard deviation of the log of the cell's value from block to block; 0 where fewer than
    three blocks have one.
    """
    where = of_cell(**{name: record[name] for name in OF_RECORD}, environment=environment)
    for context in contexts:
        here = all(
            context.where[name] == getattr(where, name) for name in (*OF_RECORD, "environment")
        )
        if here and context.where["metric"] == record["metric"] and context.window == "speed":
            member = context.members.get(record["label"])
            values = member.values.values() if member else ()
            logs = [math.log(value) for value in values if value > 0]
            if len(logs) >= _FEWEST:
                return statistics.stdev(logs)
    return 0.0


def _allowed(record: Record, scatter: float) -> float:
    return math.hypot(float(record["half_width"]), _Z * NOISE, _Z * scatter)


def _usable(record: Mapping[str, Any]) -> bool:
    needed = (*OF_RECORD, "label", "metric", "found", "reason", "value", "half_width")
    if not all(name in record for name in needed):
        return False
    found = record["found"]
    return (
        isinstance(found, Mapping)
        and isinstance(record["params"], Mapping)
        and isinstance(record["reason"], str)
        and all(is_number(one) and one >= 0 for one in found.values())
        and all(is_number(record[name]) for name in ("value", "half_width"))
    )


def _place(record: Record, environment: int) -> str:
    where = of_cell(**{name: record[name] for name in OF_RECORD}, environment=environment)
    return f"{record['label']}, {describe(where)}"


def _figure(record: Record, value: float) -> str:
    metric = METRICS.get(record["metric"])
    return human(value, metric.unit if metric else "")
