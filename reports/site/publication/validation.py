"""What a record must look like to be shown: runs are data, and may be anybody's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cnibench.model.units import is_number
from cnibench.rundir.schema import Record


def curve(x: Any, y: Any) -> bool:
    """Two lists of numbers, equally long and not empty?"""
    return (
        isinstance(x, list)
        and isinstance(y, list)
        and 0 < len(x) == len(y)
        and all(is_number(value) for value in (*x, *y))
    )


def steps(record: Record) -> dict[str, float]:
    """Step to seconds of one Pod; empty for another shape."""
    found = record.get("steps")
    times: dict[str, float] = {}
    for one in found if isinstance(found, list) else []:
        step, seconds = (
            (one.get("step"), one.get("seconds")) if isinstance(one, dict) else (None, None)
        )
        if isinstance(step, str) and seconds is not None and is_number(seconds):
            times[step] = float(seconds)
    return times


def _rule_path(record: Record) -> bool:
    names = ("hooks", "chains", "rules", "matched")
    chains = [
        chain
        for node in record["nodes"]
        for hook in node["path"]
        if isinstance(hook["hook"], str)
        for chain in hook["chains"]
    ]
    return (
        isinstance(record["packet"], str)
        and all(isinstance(record[name], int) for name in names)
        and all(isinstance(node["node"], str) for node in record["nodes"])
        and all(isinstance(chain[key], int) for chain in chains for key in ("evaluated", "matched"))
        and all(
            isinstance(chain[key], str) for chain in chains for key in ("family", "table", "chain")
        )
    )


_SHAPES: Mapping[str, Callable[[Record], bool]] = {
    "cdf": lambda record: curve(record["shares"], record["values"]),
    "series": lambda record: curve(record["times"], record["values"]),
    "pods": lambda record: bool(steps(record)),
    "rulepath": _rule_path,
}


def fits(name: str, record: Record) -> bool:
    """Has that record of NAME.jsonl the shape that its chart or table needs?"""
    try:
        return _SHAPES[name](record)
    except (KeyError, TypeError):
        return False
