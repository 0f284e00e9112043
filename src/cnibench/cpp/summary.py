"""The records of cpp.jsonl by group: one profile, placement, workload and parameters, the mean over
its blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cnibench.cpp import stacks
from cnibench.cpp.taxonomy import IDLE, Taxonomy
from cnibench.errors import InputError
from cnibench.model.context import OF_RECORD, coordinate
from cnibench.model.units import is_number
from cnibench.rundir.reader import RunReader

_LEAST = 1e-100  # cycles

_LARGEST = 64 << 20  # bytes of one sample's folded stacks

_PLACEMENT = coordinate("placement")


@dataclass(frozen=True)
class Group:
    """Cycles per packet, means over ``n`` blocks; ``packets`` and ``samples`` are sums.
    ``functions`` are (self, inclusive).

    A function that a block's record does not keep among its first counts as zero there, so means of
    rare ones are lower bounds.
    """

    label: str
    profile: str
    where: Mapping[str, Any]
    cell: str
    blocks: tuple[int, ...]
    total: float
    unclassified: float
    components: dict[str, float]
    functions: dict[str, tuple[float, float]]
    source: str
    packets: float
    samples: int
    idle: float  # share of the window's cycles
    foreign: float
    taxonomy: int
    per_block: dict[int, float] = field(default_factory=dict)  # block to its packets

    @property
    def title(self) -> str:
        """Where it was measured, in words."""
        w = self.where
        given = ", ".join(f"{key} {value}" for key, value in w["params"].items())
        rest = [
            f"IPv{w['ip']}",
            f"MTU {w['mtu']}",
            f"CPUs {w['cpus']}",
            *([] if w["path"] == "pod" else [f"path {w['path']}"]),
        ]
        placement = _PLACEMENT.words(w["placement"])
        return f"{w['workload']} {placement} ({', '.join([*([given] if given else []), *rest])})"

    def document(self) -> dict[str, Any]:
        """As ``report --format json`` writes it, and more."""
        return {
            "profile": self.profile,
            "label": self.label,
            **self.where,
            "n": len(self.blocks),
            "total": self.total,
            "cycles_source": self.source,
            "packets": self.packets,
            "components": self.components,
            "unclassified": self.unclassified,
            "functions": {name: list(values) for name, values in self.functions.items()},
            "samples": self.samples,
            "idle_share": self.idle,
            "foreign_share": self.foreign,
            "taxonomy": self.taxonomy,
        }


def groups(records: Iterable[Mapping[str, Any]]) -> list[Group]:
    """In the order in which they first appear. Raises InputError when a record lacks a key."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    try:
        for record in records:
            _check(record)
            key = json.dumps(
                [record["label"], *(record[name] for name in OF_RECORD)], sort_keys=True
            )
            found.setdefault(key, []).append(record)
        return [_group(lines) for lines in found.values()]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"cpp.jsonl: a record lacks or garbles {error}",
            "restore the file from a complete copy of the run",
        ) from None


def _check(record: Mapping[str, Any]) -> None:
    """Raises ValueError for what is no number, or one that cannot be divided by."""
    for name in ("total", "unclassified", "cycles", "packets", "samples", "idle_cycles"):
        if not is_number(record[name]):
            raise ValueError(f"'{name}'")
    if 0 < abs(record["total"]) < _LEAST:
        raise ValueError("'total'")
    for name in ("cycles", "packets"):
        if record[name] <= 0:
            raise ValueError(f"'{name}'")


def _group(lines: list[Mapping[str, Any]]) -> Group:
    first, n = lines[0], len(lines)
    names = sorted({name for line in lines for name in line["components"]})
    functions = {name for line in lines for name in line["functions"]}
    means = {
        name: tuple(
            sum(line["functions"].get(name, (0.0, 0.0))[k] for line in lines) / n for k in (0, 1)
        )
        for name in functions
    }
    window = sum(line["cycles"] for line in lines)
    return Group(
        label=first["label"],
        profile=first["profile"],
        where={name: first[name] for name in OF_RECORD},
        cell=first["cell"],
        blocks=tuple(line["block"] for line in lines),
        total=sum(line["total"] for line in lines) / n,
        unclassified=sum(line["unclassified"] for line in lines) / n,
        components={
            name: sum(line["components"].get(name, 0.0) for line in lines) / n for name in names
        },
        functions={
            name: (own, inclusive)
            for name, (own, inclusive) in sorted(
                means.items(), key=lambda item: (-item[1][1], item[0])
            )
        },
        source="pmu" if all(line["cycles_source"] == "pmu" for line in lines) else "estimated",
        packets=sum(line["packets"] for line in lines),
        samples=sum(line["samples"] for line in lines),
        idle=sum(line["idle_cycles"] for line in lines) / window,
        foreign=sum(line.get("foreign_cycles", 0.0) for line in lines) / window,
        taxonomy=first["taxonomy"],
        per_block={line["block"]: line["packets"] for line in lines},
    )


def trees(reader: RunReader, group: Group, taxonomy: Taxonomy) -> dict[tuple[str, ...], float]:
    """The group's stacks, root first, with their cycles per packet, from raw; idle and foreign ones
    left out.

    Raises InputError when the raw stacks of a block are not there (a copy of the run without its
    raw folder).
    """
    found: dict[tuple[str, ...], float] = {}
    for block in group.blocks:
        text = reader.raw_bytes(group.cell, block, "stacks.folded").decode(errors="replace")
        for stack in stacks.unfold(text, f"stacks.folded of {group.cell}, block {block}"):
            if stack.whose != "foreign" and taxonomy.nearest(stack.frames) != IDLE:
                key = tuple(reversed(stack.frames))
                found[key] = found.get(key, 0.0) + stack.cycles / group.per_block[block] / len(
                    group.blocks
                )
    return found
