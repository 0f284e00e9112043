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
LACKING = (
    "Not compared: profiles that were installed one after the other, where the host network was not"
    " measured beside all of them in the same rounds; --path pod,host measures it, too."
)
_HOST = "host"


def to_host(contexts: Sequence[Context]) -> tuple[list[Context], list[str]]:
    """The contexts to compare, and what is to be said of them. Values are scaled so that the host
    network has the same one in all blocks; a block without it has no value then. Where it was not
    measured for each label, the labels are not compared. The host network beside other paths is
    their baseline, and none of the contexts to compare.
    """
    hosts = {_place(one): one for one in contexts if one.where["path"] == _HOST}
    paths = {_place(one) for one in contexts if one.where["path"] != _HOST and _one_by_one(one)}
    found, said = list[Context](), dict[str, None]()
    for one in contexts:
        if not _one_by_one(one):
            found.append(one)
        elif one.where["path"] != _HOST and (members := _scaled(one, hosts.get(_place(one)))):
            found.append(replace(one, members=members))
            said[NOTE] = None
        elif one.where["path"] != _HOST or _place(one) not in paths:
            found.append(replace(one, compared=False))
            said[LACKING] = None
    return found, list(said)


def _one_by_one(one: Context) -> bool:
    """On an existing cluster one profile is installed at a time."""
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


def _scaled(one: Context, host: Context | None) -> dict[str, Member]:
    """Nothing where a label has no value of the host network, or one that is not positive."""
    if host is None:
        return {}
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
