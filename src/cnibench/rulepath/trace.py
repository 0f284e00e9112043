"""What ``nft -a monitor`` prints of a traced packet, and ``nft -a -j list ruleset`` of the rules,
as data.

iptables of the nf_tables kind is in both: its tables and rules are nf_tables rules
(xtables-nft(8)). The trace has an event for each rule that matched and for each policy that was
reached (nft_trace_notify in net/netfilter/nf_tables_trace.c), none for a rule that did not match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cnibench.errors import MeasureError

Key = tuple[str, str, str]  # family, table, chain
Ruleset = Mapping[Key, tuple[int, ...]]  # the handles of each chain's rules, in their order

# A rule's own text may hold anything in quotes (a comment), so handle and verdict are read from the
# line's end.
_EVENT = re.compile(
    r"^trace id [0-9a-f]+ (\S+) (\S+) (\S+) (packet: |policy |rule |unknown rule handle )(.*)$"
)
_RULE = re.compile(r"(?:# handle |^)([0-9]{1,20}) \(verdict (\S+)(?: (\S+))?\)\s*$")


@dataclass(frozen=True)
class Event:
    """``packet``: a base chain is entered; ``rule``: this one matched, with its verdict;
    ``policy``: a base chain's end was reached.
    """

    kind: Literal["packet", "rule", "policy"]
    chain: Key
    handle: int = 0
    verdict: str = ""  # accept, drop, continue, return, jump, goto, queue, stolen
    target: str = ""  # of a jump or goto


def parse_trace(lines: Iterable[str]) -> list[Event]:
    """The events in their order; lines of other kinds (changes of rules, conntrack's) are passed
    over. Raises MeasureError.
    """
    found = []
    for line in lines:
        if not (match := _EVENT.match(line)):
            continue
        chain, kind, rest = (match[1], match[2], match[3]), match[4].strip(), match[5]
        if kind == "packet:":
            found.append(Event("packet", chain))
        elif kind == "policy":
            found.append(Event("policy", chain, verdict=rest.split(" ")[0]))
        else:
            said = _RULE.search(rest)
            if not said:
                raise MeasureError(
                    f"the trace of a packet cannot be read: {line[:200]!r}",
                    "it needs nft 1.0 or newer",
                )
            found.append(Event("rule", chain, int(said[1]), said[2], said[3] or ""))
    return found


def parse_ruleset(text: str) -> dict[Key, tuple[int, ...]]:
    """Every chain of ``nft -a -j list ruleset`` to the handles of its rules. Raises
    MeasureError.
    """
    found: dict[Key, list[int]] = {}
    try:
        for item in json.loads(text)["nftables"]:
            if chain := item.get("chain"):
                found.setdefault(_key(chain, "name"), [])
            elif rule := item.get("rule"):
                found.setdefault(_key(rule, "chain"), []).append(_handle(rule["handle"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MeasureError(
            f"the list of rules cannot be read: {type(error).__name__}: {error}",
            "it needs nft 1.0 with JSON",
        ) from None
    return {chain: tuple(handles) for chain, handles in found.items()}


def _key(item: Mapping[str, Any], name: str) -> Key:
    family, table, chain = item["family"], item["table"], item[name]
    if not (isinstance(family, str) and isinstance(table, str) and isinstance(chain, str)):
        raise TypeError("a chain whose name is no text")
    return family, table, chain


def _handle(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("a rule whose handle is no number")
    return value
