"""The same for the older iptables (ip_tables), whose trace goes to nf_log: each line says table,
chain and number of a rule that matched.

``trace_packet`` in net/ipv4/netfilter/ip_tables.c traces whatever is marked, by ``meta nftrace``
too. nfnetlink_log carries the lines to group 0, which tcpdump writes as it comes (link type NFLOG,
https://www.tcpdump.org/linktypes/LINKTYPE_NFLOG.html).
"""

from __future__ import annotations

import re
import shlex
import struct
from collections.abc import Iterator, Mapping, Sequence

from cnibench.errors import MeasureError
from cnibench.rulepath.trace import Event, Key
from cnibench.rulepath.walk import ENDS, Changed, Hook, visits

Listing = Mapping[Key, tuple[tuple[str, str], ...]]  # each chain's rules as (verdict, target)

_FAMILIES = {2: "legacy-ip", 10: "legacy-ip6"}
_PREFIX = 10  # NFULA_PREFIX
_LINKTYPE = 239
_ORDER = (
    "raw",
    "mangle",
    "nat",
    "filter",
    "security",
)  # the tables at one hook, as a packet meets them
_LINE = re.compile(r"TRACE: ([^:]+):(.+):(rule|return|policy):([0-9]{1,10}) ?$")
_VERDICTS = {
    "ACCEPT": "accept",
    "DROP": "drop",
    "REJECT": "drop",
    "RETURN": "return",
    "NFQUEUE": "queue",
    "QUEUE": "queue",
    "MASQUERADE": "accept",
    "DNAT": "accept",
    "SNAT": "accept",
    "REDIRECT": "accept",
    "NETMAP": "accept",
    "TPROXY": "accept",
}


def parse_save(text: str, ip: int) -> dict[Key, tuple[tuple[str, str], ...]]:
    """``iptables-legacy-save``: what each rule of each chain does when it matches. Raises
    MeasureError.
    """
    found: dict[Key, list[tuple[str, str]]] = {}
    family, table = _FAMILIES[2 if ip == 4 else 10], ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith(":"):
            if not (words := line[1:].split()):
                raise MeasureError(f"a chain cannot be read: {line[:120]!r}")
            found[family, table, words[0]] = []
        elif line.startswith("-A "):
            try:
                words = shlex.split(line)
            except ValueError:
                raise MeasureError(f"a rule cannot be read: {line[:120]!r}") from None
            if len(words) < 2:
                raise MeasureError(f"a rule cannot be read: {line[:120]!r}")
            found.setdefault((family, table, words[1]), []).append(_effect(words))
    return {chain: tuple(rules) for chain, rules in found.items()}


def _effect(words: Sequence[str]) -> tuple[str, str]:
    for option, verdict in (("-j", "jump"), ("-g", "goto")):
        if option in words[2:-1]:
            target = words[words.index(option, 2) + 1]
            return (
                (_VERDICTS[target], "")
                if target in _VERDICTS and verdict == "jump"
                else (verdict, target)
            )
    return "continue", ""


def parse_capture(data: bytes, listing: Listing) -> list[list[Event]]:
    """tcpdump's file of the group: the traversals of base chains in their order, each one's events.
    Raises MeasureError.
    """
    found: list[list[Event]] = []
    open_one = False
    for family, line in _lines(data):
        match = _LINE.match(line)
        if not match:
            continue  # a rule of the node's own that logs
        chain = (family, match[1], match[2])
        # A rule of a verdict without any condition is called return or policy as the end of its
        # chain is (get_chainname_rulenum):
        # the number tells them apart.
        end = match[3] != "rule" and int(match[4]) > len(listing.get(chain, ()))
        if end and match[3] == "return":
            continue  # the walk comes to the end of a chain by itself
        if not open_one:
            found.append([Event("packet", chain)])
        event = Event("policy", chain) if end else _rule(chain, int(match[4]), listing)
        found[-1].append(event)
        open_one = event.kind != "policy" and event.verdict not in ENDS
    if open_one:
        raise Changed("the trace ends within a chain", "measure again")
    return found


def _rule(chain: Key, number: int, listing: Listing) -> Event:
    rules = listing.get(chain, ())
    if not 0 < number <= len(rules):
        raise Changed(f"rule {number} of {' '.join(chain)} is not among the rules", "measure again")
    verdict, target = rules[number - 1]
    if verdict == "jump" and (chain[0], chain[1], target) not in listing:
        verdict = "continue"  # no chain: a target that changes the packet and lets it go on
    return Event("rule", chain, number, verdict, target)


def add(passed: Sequence[Hook], groups: Sequence[Sequence[Event]], listing: Listing) -> None:
    """Puts the traversals to the hooks that they belong to: those of one pass come together, in the
    order of the tables. Raises Changed.
    """
    ruleset = {chain: tuple(range(1, len(rules) + 1)) for chain, rules in listing.items()}
    counts: dict[str, int] = {}
    last, order = "", -1
    for group in groups:
        _, table, name = group[0].chain
        hook, rank = name.lower(), _ORDER.index(table) if table in _ORDER else len(_ORDER)
        if hook != last or rank <= order:
            counts[hook] = counts.get(hook, 0) + 1
        last, order = hook, rank
        of_it = [one for one in passed if one.hook == hook]
        if counts[hook] > len(of_it):
            raise Changed(
                f"{' '.join(group[0].chain)} was met more often than its hook was passed",
                "measure again",
            )
        of_it[counts[hook] - 1].chains += visits(group, ruleset)


def _lines(data: bytes) -> Iterator[tuple[str, str]]:
    """(family, line) of each packet of a pcap file."""
    if len(data) < 24:
        return
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}.get(data[:4])
    if order is None or struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF != _LINKTYPE:
        raise MeasureError("tcpdump did not write the log's packets", "install another tcpdump")
    at = 24
    while at + 16 <= len(data):
        size = struct.unpack_from(f"{order}I", data, at + 8)[0]
        packet = data[at + 16 : at + 16 + size]
        at += 16 + size
        yield _FAMILIES.get(packet[0] if packet else 0, "legacy"), _prefix(packet, order)


def _prefix(packet: bytes, order: str) -> str:
    at = 4
    while at + 4 <= len(packet):
        size, kind = struct.unpack_from(f"{order}HH", packet, at)
        if size < 4:
            break
        if kind == _PREFIX:
            return packet[at + 4 : at + size].split(b"\0")[0].decode(errors="replace")
        at += (size + 3) & ~3
    return ""
