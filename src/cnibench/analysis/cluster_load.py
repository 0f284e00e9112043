"""What other programs used of the CPUs of a cluster's nodes, as records and env.json say."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from cnibench.analysis.model import NodeLoad
from cnibench.model.units import is_number
from cnibench.rundir.reader import STALLS, RunReader


def said(where: Any, environment: int = 0) -> list[NodeLoad]:
    """``node_load`` of a record of stalls.jsonl or of env.json; nothing in the lab, and in runs of
    earlier versions.
    """
    return [
        NodeLoad(
            node=str(one.get("node")),
            others=float(one["others"]),
            cpus=int(one["cpus"]),
            least=not one.get("estimate"),
            environment=environment,
        )
        for one in (where if isinstance(where, list) else ())
        if isinstance(one, dict)
        and is_number(one.get("others"))
        and is_number(one.get("cpus"))
        and one["cpus"] >= 1
    ]


def medians(readers: Sequence[RunReader], numbers: Sequence[int]) -> list[NodeLoad]:
    """Over the samples of each machine; ``numbers`` are the runs' environments."""
    every = [
        one
        for reader, environment in zip(readers, numbers, strict=True)
        for record in reader.records(STALLS)
        for one in said(record.get("node_load"), environment)
    ]
    found: dict[tuple[int, str, int], list[NodeLoad]] = {}
    for one in every:
        found.setdefault((one.environment, _machine(one, every), one.cpus), []).append(one)
    return [
        NodeLoad(
            node=node,
            others=statistics.median(one.others for one in each),
            cpus=cpus,
            least=any(one.least for one in each),
            environment=environment,
        )
        for (environment, node, cpus), each in sorted(found.items())
    ]


def _machine(load: NodeLoad, every: Sequence[NodeLoad]) -> str:
    """All nodes on its machine: a cell on one node does not name the others there."""
    names = {one.node for one in every if one.environment == load.environment}
    mine = set(load.node.split("+"))
    return max((one for one in names if mine <= set(one.split("+"))), key=len)
