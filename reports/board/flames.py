"""The flame graphs of a bundle, packed: a board has those of hundreds of bundles in memory."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import msgspec

from cnibench.model.context import OF_RECORD
from cnibench.reports._page.flame import MODEL, FlamePage, flame_page
from cnibench.reports.bundle.verifying import Verified


def key(label: str, where: object) -> str:
    """What a row of cycles has in common with its call stacks."""
    place = where if isinstance(where, Mapping) else {n: getattr(where, n) for n in OF_RECORD}
    return msgspec.json.encode([label, *(place[n] for n in OF_RECORD)], order="sorted").decode()


def packed(found: Verified, fidelity: Mapping[str, str]) -> dict[str, bytes]:
    """Each row's flame graph, by its key."""
    graphs: dict[str, bytes] = {}
    if found.stacks is None:
        return graphs
    for one in found.stacks.groups:
        group = found.groups[one.number]
        if not any(cycles > 0 for _, cycles in one.stacks):
            continue
        page = flame_page(
            found.stacks.tree(one),
            None,
            label=group.label,
            where=group.title,
            source=group.source,
            rest=one.rest,
            loud=MODEL if fidelity.get(group.label) == "datapath-model" else "",
        )
        graphs[key(group.label, group.where)] = zlib.compress(msgspec.json.encode(page))
    return graphs


def unpacked(data: bytes) -> FlamePage:
    return msgspec.json.decode(zlib.decompress(data), type=FlamePage)
