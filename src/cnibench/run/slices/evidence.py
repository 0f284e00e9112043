"""What is known of the disturbances of one sample in slices, as its heartbeat knows it of one in a
window (run/checks/stalls.py).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence, Set

from cnibench.run.checks.node_load import NodeLoad
from cnibench.run.checks.stalls import Evidence, Stall
from cnibench.run.slices.rounds import Value
from cnibench.run.slices.slice import Slice
from cnibench.system.usage import Share

_MOST = 0.5  # share of a sample's slices that may be left out


def evidence(
    slices: Sequence[Slice],
    wall: float,
    share: Share,
    *,
    cpus: int,
    nodes: Set[str] = frozenset(),
    loads: Sequence[NodeLoad] | None = None,
    where: str = "",
) -> Evidence:
    """``slices`` are those of one cell, in their order, of rounds that took ``wall`` s. Its load
    may use ``cpus`` CPUs. ``nodes`` are those of its Pods on a cluster, ``loads`` what other
    programs used on nodes that are other machines. ``where`` are the rounds driven, in words; '':
    on this machine.

    Steal, throttling and what other programs used are those of its own slices, and where these do
    not know them its part of ``share``, which is that of all rounds.
    """
    own = math.fsum(one.seconds for one in slices)
    steal = _sum([one.steal for one in slices])
    throttled = _sum([one.throttled for one in slices])
    others = _sum([one.others for one in slices])
    used = share.others if others is None else max(0.0, others / own)
    gaps = [Stall("gap", "cnibench", where, one.start, one.gap) for one in slices if one.gap > 0]
    seen = Evidence(
        wall,
        stalls=tuple(sorted([*_stops(slices), *gaps], key=lambda one: one.at)),
        steal=share.steal if steal is None else steal / own / cpus,
        throttled=share.throttled * own / wall if throttled is None else throttled,
        others=used,
        slices=own,
    )
    if loads is not None:
        return seen.on_nodes([one for one in loads if nodes & set(one.node.split("+"))])
    if nodes:
        here = NodeLoad("+".join(sorted(nodes)), used, os.cpu_count() or 1, estimate=True)
        return seen.on_nodes([here])
    return seen


def left_out(value: Value) -> str:
    """Why too many slices of a sample were left out, in words; '' when enough are left."""
    if value.left_out > _MOST * value.rounds or value.spoilt:
        return f"{value.left_out} of {value.rounds} slices were disturbed"
    return ""


def _sum(values: Sequence[float | None]) -> float | None:
    """None where one of them is not known."""
    known = [one for one in values if one is not None]
    return math.fsum(known) if len(known) == len(values) else None


def _stops(slices: Sequence[Slice]) -> list[Stall]:
    """One that lasts from one slice into the next is one; its seconds are those in the slices."""
    found: list[Stall] = []
    lasting: dict[tuple[str, str], Stall] = {}
    for one in slices:
        into = lasting
        lasting = {}
        for stop in one.stops:
            key = (stop.what, stop.kind)
            stall = Stall(
                "frozen" if stop.kind == "frozen" else "stopped",
                stop.what,
                "",
                one.start + stop.start,
                stop.end - stop.start,
            )
            if stop.start <= 0 and (before := into.get(key)):
                found.remove(before)
                stall = Stall(stall.kind, stall.what, "", before.at, before.seconds + stall.seconds)
            found.append(stall)
            if stop.end >= one.seconds:
                lasting[key] = stall
    return found
