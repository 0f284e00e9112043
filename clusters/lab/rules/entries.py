"""Policy entries beside a CNI's own rules: a chain of ours at the head of FORWARD, as bruijn2017
filled its bridge's filter.

No entry that a packet passes can match one: their peers are of 198.18.0.0/15 (RFC 2544) or
2001:db8::/32 (RFC 3849), and the ports of restrictions are below 1024, where no workload has any.
Where the CNI has a filter of its own, an entry that matches returns to it instead of accepting: the
CNI's rules are walked in any case.
"""

from __future__ import annotations

import ipaddress

from cnibench.clusters.lab.rules.ruleset import Line, Part, chain, end, head
from cnibench.model.conditions import Policies

CHAIN = "CNIBENCH-POLICY"
_FIRST = {4: ipaddress.ip_address("198.18.0.1"), 6: ipaddress.ip_address("2001:db8::1")}


def rules(family: int, asked: Policies | None, denied: int | None, verdict: str) -> Part:
    """The chain, its entries and the jump to it; nothing when nothing is asked for. ``denied`` is a
    UDP port that is dropped first.
    """
    if asked is None and denied is None:
        return ()
    lines: list[Line] = [chain("filter", CHAIN), head("filter", "FORWARD", f"-j {CHAIN}")]
    if denied is not None:
        lines.append(end("filter", CHAIN, f"-p udp -m udp --dport {denied} -j DROP"))
    if asked is None:
        return tuple(lines)
    if asked.conntrack == "used":
        lines.append(end("filter", CHAIN, "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"))
    lines += [
        end("filter", CHAIN, f"-p tcp -m tcp --dport {port} -j {verdict}")
        for port in range(1, asked.restrictions + 1)
    ]
    passed = asked.entries
    if asked.entries and asked.setting == "top-of-chain":
        lines.append(end("filter", CHAIN, f"-j {verdict}"))
        passed -= 1
    lines += [
        end("filter", CHAIN, f"-s {_FIRST[family] + number} -p tcp -m tcp --dport 80 -j {verdict}")
        for number in range(passed)
    ]
    return tuple(lines)


def expected(asked: Policies | None) -> int:
    """Rules that ``found`` counts when everything that was asked for is there, entries that the
    chain itself needs included.
    """
    return 0 if asked is None else asked.entries + asked.restrictions + (asked.conntrack == "used")


def found(text: str) -> int:
    """Rules of the chain in what iptables-save says."""
    return sum(line.startswith(f"-A {CHAIN} ") for line in text.splitlines())
