"""Profiles that were installed one after the other are compared by their ratio to the host network,
which was measured in the same rounds: what changed between two deployments is in both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.model import context

NOTE = (
    "Compared are ratios to the host network in the same rounds, because the profiles were"
    " installed one after the other: each value is divided by that of the path host in its block."
    " The figures of a single profile are as measured, and the host network itself is not compared."
)
_HOST = "host"


def to_host(contexts: Sequence[Context]) -> tuple[list[Context], list[str]]:
    """The contexts to compare, and what is to be said of them. Values are scaled so that the host
    network has the same one in all blocks, and are left as they are where it was not measured. A
    block without it has no value then. The host network beside other paths is their baseline, and
    none of the contexts to compare.
    """
    hosts = {_place(one): one for one in contexts if one.where["path"] == _HOST}
    found, baselines, scaled = list[Context](), set[str](), False
    for one in contexts:
        host = hosts.get(place := _place(one))
        if one is host or host is None or not _one_by_one(one):
            found.append(one)
            continue
        baselines.add(place)
        members = _scaled(one, host)
        scaled |= bool(members)
        found.append(replace(one, members=members) if members else one)
    compared = [one for one in found if one.where["path"] != _HOST or _place(one) not in baselines]
    return compared, [NOTE] if scaled else []


def _one_by_one(one: Context) -> bool:
    """Profiles of a cluster that somebody else made stand one at a time."""
    first = next(iter(one.members.values())).first if one.members else None
    return (
        first is not None
        and len(one.members) > 1
        and (first.testbed, first.method) == ("cluster", "slices")
    )


def _place(one: Context) -> str:
    """All coordinates but the path."""
    where = one.where
    rest = {key: where[key] for key in ("metric", "environment", "reading")}
    return context.key({**where, "path": ""}) + str(sorted(rest.items(), key=str)) + one.window


def _scaled(one: Context, host: Context) -> dict[str, Member]:
    """Nothing where a label has no value of the host network, or one that is not positive."""
    known = {label: host.members[label].values for label in one.members if label in host.members}
    logs = [math.log(value) for values in known.values() for value in values.values() if value > 0]
    if len(known) < len(one.members) or len(logs) < sum(map(len, known.values())):
        return {}
    level = math.exp(math.fsum(logs) / len(logs))
    found = {}
    for label, member in one.members.items():
        there = known[label]
        values = {
            block: value * level / there[block]
            for block, value in member.values.items()
            if block in there
        }
        if not values:
            return {}
        found[label] = replace(member, values=values)
    return found
