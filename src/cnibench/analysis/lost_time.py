"""What samples lost to other programs, the machine's host, CPU quotas and left-out slices, as their
records say.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Literal

from cnibench.analysis import cluster_load
from cnibench.analysis.model import LEFT_OUT, TAKEN, Taken
from cnibench.model import context
from cnibench.model.units import is_number
from cnibench.rundir.reader import STALLS, RunReader
from cnibench.rundir.schema import Record


def others(readers: Sequence[RunReader]) -> float | None:
    """The median over the samples of the CPUs that other programs used."""
    found = [
        float(record["others"])
        for reader in readers
        for record in reader.records(STALLS)
        if is_number(record.get("others"))
    ]
    return statistics.median(found) if found else None


def left_out(readers: Sequence[RunReader]) -> list[float]:
    """The shares of their slices that undisturbed samples left out, those that are said."""
    shares = [
        float(record["left_out"]) / float(record["rounds"])
        for reader in readers
        for record in reader.records("slices")
        if is_number(record.get("left_out"))
        and is_number(record.get("rounds"))
        and record["rounds"] > 0
    ]
    return [share for share in shares if share > LEFT_OUT]


def taken(readers: Sequence[RunReader], numbers: Sequence[int]) -> list[Taken]:
    """Of all samples, disturbed ones included."""
    found: dict[tuple[object, ...], Taken] = {}
    for reader, environment in zip(readers, numbers, strict=True):
        cpus: Any = reader.environment.get("cpus_online")
        for record in reader.records(STALLS):
            where = {name: record.get(name) for name in context.OF_RECORD}
            label = str(record.get("label"))
            for cause, share in _shares(record, cpus).items():
                key = (cause, label, environment, context.key(where, context.OF_RECORD))
                new = Taken(
                    label=label,
                    cause=cause,
                    where=where,
                    environment=environment,
                    shares=[],
                    least=cause == "others"
                    and any(one.least for one in cluster_load.said(record.get("node_load"))),
                )
                found.setdefault(key, new).shares.append(share)
    return list(found.values())


def _shares(record: Record, cpus: Any) -> dict[Literal["steal", "quota", "others"], float]:
    """Steal of the CPU time, throttling of the time, other programs of all CPUs; without what the
    record does not tell, and what is not worth a word.
    """
    found: dict[Literal["steal", "quota", "others"], float] = {}
    steal: Any = record.get("steal")
    held: Any = record.get("throttled")
    own: Any = record.get("slices" if is_number(record.get("slices")) else "taken")
    others: Any = record.get("others")
    if is_number(steal) and steal >= TAKEN:
        found["steal"] = float(steal)
    if is_number(held) and is_number(own) and own > 0 and held >= TAKEN * own:
        found["quota"] = float(held) / float(own)
    if there := cluster_load.said(record.get("node_load")):
        found["others"] = max(one.others / one.cpus for one in there)
    elif is_number(others) and is_number(cpus) and cpus > 0:
        found["others"] = float(others) / float(cpus)
    return found
