"""The plans that cnibench ships, how a plan is made shorter (``--scale``), and the JSON Schema of
the plan file format.

``python -m cnibench.planning.plans`` writes schema.json beside the plans.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnibench.errors import UsageError
from cnibench.model.units import duration, plural
from cnibench.planning.plan import Plan, Work, read_plan
from cnibench.planning.schedule import blocks_needed

if TYPE_CHECKING:
    from cnibench.run.workload import Workload

FOLDER = Path(__file__).parent
SHORTEST = 1.0  # s: netperf, iperf3 and ab take whole seconds
FEWEST = 100  # requests


def names() -> list[str]:
    """The plans that cnibench ships."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def named(name: str) -> Plan:
    """A plan by its name, or out of a file. Raises UsageError, InputError."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or "/" in name or path.is_file():
        return read_plan(path)
    if name in names():
        return read_plan(FOLDER / f"{name}.yaml")
    raise UsageError(
        f"there is no plan '{name}'", f"give a YAML file, or one of: {', '.join(names())}"
    )


def scaled(
    plan: Plan, factor: float, profiles: int, workloads: Mapping[str, Workload]
) -> tuple[Plan, list[str]]:
    """The plan with durations, blocks and request counts times ``factor`` (0 < factor <= 1), and
    in words what that changed.

    No window becomes shorter than 1 s, no number of blocks smaller than what ``profiles`` of them
    need to show a difference, no request count smaller than 100 or than what it has to be at least
    (``Workload.at_least``: the highest concurrency of that workload). Sweeps, sizes and numbers of
    Pods and connections stay. Raises UsageError.
    """
    if not 0 < factor <= 1:
        raise UsageError(
            f"--scale takes a number above 0 and up to 1, not {factor:g}",
            "--scale 0.1 makes windows a tenth as long",
        )
    enough = blocks_needed(profiles)
    adjustments: dict[str, None] = {}

    def window(seconds: float, what: str) -> float:
        fresh = min(seconds, max(SHORTEST, round(seconds * factor, 1)))
        if fresh != seconds:
            adjustments[f"{what} of {duration(fresh)} instead of {duration(seconds)}"] = None
        return fresh

    def number_of_blocks(blocks: Any) -> Any:
        if not isinstance(blocks, int):
            return blocks
        fresh = max(math.ceil(blocks * factor), min(blocks, enough))
        if fresh != blocks:
            adjustments[f"{plural(fresh, 'block')} instead of {blocks}"] = None
        return fresh

    def count(name: str, value: Any, least: int) -> Any:
        if not isinstance(value, int) or value <= least:
            return value
        fresh = max(least, round(value * factor))
        if fresh != value:
            adjustments[f"{fresh} {name} instead of {value}"] = None
        return fresh

    def shorter(work: Work) -> Work:
        least = _least(work, workloads[work.name]) if work.name in workloads else {}
        changes: dict[str, Any] = {
            "params": {
                key: count(key, value, least[key]) if key in least else value
                for key, value in work.params.items()
            },
            "sweep": {
                key: [count(key, value, least[key]) for value in values] if key in least else values
                for key, values in work.sweep.items()
            },
        }
        if work.duration is not None:
            changes["duration"] = window(work.duration, "windows")
        if work.blocks is not None:
            changes["blocks"] = number_of_blocks(work.blocks)
        return work.model_copy(update=changes)

    made = plan.model_copy(
        update={
            "duration": window(plan.duration, "windows"),
            "warmup": window(plan.warmup, "warm-ups"),
            "blocks": number_of_blocks(plan.blocks),
            "workload": tuple(shorter(work) for work in plan.workload),
        }
    )
    return made, [
        f"--scale {factor:g} changes the plan: {'; '.join(adjustments)}"
    ] if adjustments else []


def _least(work: Work, workload: Workload) -> dict[str, int]:
    """Each count of the workload and the smallest value that it may be scaled to, in whatever
    combination of the sweep.
    """

    def highest(name: str) -> int:
        return max(
            (
                value
                for value in (work.params.get(name), *work.sweep.get(name, ()))
                if isinstance(value, int)
            ),
            default=0,
        )

    return {
        key: max(FEWEST, highest(workload.at_least[key]) if key in workload.at_least else 0)
        for key in workload.counts
    }


def schema_text() -> str:
    """The JSON Schema of a plan file, as schema.json holds it."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**head, **_loosened(Plan.model_json_schema(by_alias=True))}, indent=2) + "\n"


def _loosened(schema: dict[str, Any]) -> dict[str, Any]:
    """What the reader takes beside the strict form: units in text, one value where a list is meant,
    a workload's bare name.
    """
    plan, work = schema["properties"], schema["$defs"]["Work"]["properties"]
    lists: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
        (plan, ("cni", "placement", "path", "windows", "ip")),
        (work, ("placement", "windows", "only", "ip")),
    )
    units = ("duration", "warmup", "wire_rate", "target_ci", "resolution", "budget")
    for place, key in (*((plan, key) for key in units), (work, "duration")):
        place[key] = {"anyOf": [place[key], {"type": "string"}]}
    for place, keys in lists:
        for key in keys:
            place[key] = {"anyOf": [place[key], {"type": ["string", "integer"]}]}
    items = plan["workload"]["items"]
    plan["workload"]["items"] = {"anyOf": [items, {"type": "string"}]}
    plan["workload"] = {"anyOf": [plan["workload"], items, {"type": "string"}]}
    return schema


def main() -> None:
    """Writes schema.json."""
    (FOLDER / "schema.json").write_text(schema_text(), encoding="utf-8")
