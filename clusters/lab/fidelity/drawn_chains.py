"""Chains of packet filters that an agent names differently at each start, under the model's names.

Such an agent has its Pods in no order, either: the rules that lead to these chains are compared in
the order of what the chains are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from cnibench.listing.listing import Listing


def as_expected(chains: str, expected: Listing, found: Listing) -> tuple[Listing, Listing]:
    """Both listings, with the names of ``expected``, in whose order its chains are. ``chains`` is
    the pattern of Adapter.chains, '' for none.
    """
    if not chains:
        return expected, found
    ours, theirs = dict(expected), dict(found)
    known = names(chains, expected, found)
    for key in expected.keys() & found.keys():
        if key.endswith("-save"):
            for side, given in ((ours, expected[key]), (theirs, renamed(found[key], known))):
                side[key] = _in_order(list(_by_chain(given)), chains)
    return ours, theirs


def names(chains: str, expected: Listing, found: Listing) -> dict[str, str]:
    """The names that the agent drew, and the model's."""
    known, drawn = (
        {
            (key, match[1]): match[2]
            for key, lines in side.items()
            if chains and key.endswith("-save")
            for line in lines
            if (match := re.search(chains, line))
        }
        for side in (expected, found)
    )
    return {drawn[whose]: known[whose] for whose in drawn.keys() & known.keys()}


def renamed(lines: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """The lines with the names that ``known`` has for those in them."""
    if not known:
        return list(lines)
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in known))
    return [pattern.sub(lambda match: known[match[0]], line) for line in lines]


def _in_order(lines: Sequence[str], chains: str) -> list[str]:
    """The rules of one chain that lead to drawn chains, in the order of what these are for: each in
    the place of one of them.
    """
    ordered = list(lines)
    places: dict[str, dict[int, str]] = {}
    for at, line in enumerate(lines):
        if match := re.search(chains, line):
            places.setdefault(line.split()[1], {})[at] = match[1]
    for one in places.values():
        for at, source in zip(one, sorted(one, key=one.__getitem__), strict=True):
            ordered[at] = lines[source]
    return ordered


def _by_chain(lines: Sequence[str]) -> Iterator[str]:
    """What iptables-save writes of each table, its chains in the order of their names. The rules of
    a chain keep theirs.
    """
    table: list[str] = []
    for line in (*lines, "*"):
        if line.startswith("*"):
            yield from sorted(table, key=_place)
            table = []
        if line != "*":
            table.append(line)


def _place(line: str) -> tuple[int, str]:
    """``*filter``, ``:CHAIN -``, ``-A CHAIN rule``, ``COMMIT``"""
    kind = {"*": 0, ":": 1, "-": 2}.get(line[0], 3)
    return kind, line.split()[kind == 2] if kind in (1, 2) else ""
