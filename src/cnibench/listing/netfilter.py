"""Packet filters as the kernel has them: nf_tables, IP sets and the registered hooks.

They are compared in the kernel's own form, without counters; ``texts`` gives them as their programs
write them, to explain a difference.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from cnibench.listing.dumps import NETFILTER, answers, attributes, dump, number, word
from cnibench.listing.namespace import Namespace

_NFTABLES, _IPSET, _HOOKS = 10 << 8, 6 << 8, 12 << 8
_GETTABLE, _GETCHAIN, _GETRULE, _GETSET, _GETELEMENTS, _GETOBJECT, _GETFLOWTABLE = (
    1,
    4,
    7,
    10,
    13,
    19,
    23,
)
_FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
_IPSET_LIST = 7
_ANONYMOUS, _SET_ID = 1, 4  # NFT_SET_ANONYMOUS, NFTA_LOOKUP_SET_ID
_HOOK_FAMILIES = {2: 5, 10: 5, 3: 3, 7: 5}  # number of hooks of each family
# Values that count, age or are drawn: of a set's head its random seed, size in memory and elements;
# of a member its time, packets and bytes.
_SET_VARIES = (17, 21, 25, 26)
_MEMBER_VARIES = (6, 24, 25)
_LIMIT = 20.0  # s for one program
_OF_IPTABLES = ("filter", "nat", "mangle", "raw", "security")


def nftables() -> dict[str, list[str]]:
    """Each chain to its rules in order, each set to its elements, tables and hooks."""
    found: dict[str, list[str]] = {}
    for _, body in dump(NETFILTER, _NFTABLES | _GETTABLE, bytes(4)):
        given = dict(attributes(body[4:]))
        name = f"{_FAMILIES.get(body[0], body[0])} {word(given[1])}"
        found[f"table {name}"] = [f"flags {number(given.get(2, b''))}"]
    if not found:
        return found
    for _, body in dump(NETFILTER, _NFTABLES | _GETCHAIN, bytes(4)):
        given = dict(attributes(body[4:]))
        hook = given.get(4, b"").hex()
        policy = number(given[5][::-1]) if 5 in given else "-"
        options = f"type {word(given.get(7, b'')) or '-'} hook {hook or '-'} policy {policy}"
        found[_chain(body[0], given[1], given[3])] = [options]
    # Of sets that a rule has for itself, by family and table.
    names: dict[tuple[int, bytes], dict[bytes, str]] = {}
    for _, body in dump(NETFILTER, _NFTABLES | _GETSET, bytes(4)):
        given = dict(attributes(body[4:]))
        options = " ".join(
            f"{kind}={given[kind].hex()}" for kind in (3, 4, 5, 6, 7) if kind in given
        )
        lines = [options, *_elements(body[0], given[1], given[2])]
        name = word(given[2])
        if int.from_bytes(given.get(3, b""), "big") & _ANONYMOUS:
            name = "of a rule, " + sha256("\n".join(lines).encode()).hexdigest()[:16]
            names.setdefault((body[0], given[1]), {})[given[2]] = name
        found[f"set {_FAMILIES.get(body[0])} {word(given[1])} {name}"] = lines
    for _, body in dump(NETFILTER, _NFTABLES | _GETRULE, bytes(4)):
        given = dict(attributes(body[4:]))
        own = names.get((body[0], given[1]), {})
        # on a live node a chain may have come since the chains were listed
        found.setdefault(_chain(body[0], given[1], given[2]), []).append(_rule(given, own))
    for what, label in ((_GETFLOWTABLE, "flowtable"), (_GETOBJECT, "object")):
        for _, body in dump(NETFILTER, _NFTABLES | what, bytes(4)):
            given = dict(attributes(body[4:]))
            name = f"{label} {_FAMILIES.get(body[0])} {word(given[1])} {word(given[2])}"
            found[name] = [given.get(3, b"").hex()]
    return found


def _chain(family: int, table: bytes, name: bytes) -> str:
    return f"chain {_FAMILIES.get(family, family)} {word(table)} {word(name)}"


def _rule(given: Mapping[int, bytes], sets: Mapping[bytes, str]) -> str:
    """The expressions of a rule; its handle, position and counters are left out. ``sets`` names
    those of single rules, which the kernel numbers, by their content.
    """
    parts = []
    for _, expression in attributes(given.get(4, b"")):
        inner = dict(attributes(expression))
        name, data = word(inner[1]), inner.get(2, b"")
        if name in ("counter", "last"):
            parts.append(name)
        elif name == "lookup":
            kept = [(kind, value) for kind, value in attributes(data) if kind != _SET_ID]
            parts.append(" ".join([name, *(sets.get(value) or value.hex() for _, value in kept)]))
        elif name in ("quota", "connlimit", "limit"):  # the rate, and not what is used of it
            kept = attributes(data)[:5]
            parts.append(f"{name} {' '.join(value.hex() for _, value in kept)}")
        else:
            parts.append(f"{name} {data.hex()}")
    return "; ".join(parts)


def _elements(family: int, table: bytes, name: bytes) -> list[str]:
    body = struct.pack("=BBH", family, 0, 0)
    body += _attribute(1, table) + _attribute(2, name)
    found = []
    for _, message in dump(NETFILTER, _NFTABLES | _GETELEMENTS, body):
        for _, element in attributes(dict(attributes(message[4:])).get(3, b"")):
            inner = attributes(element)
            # not: remaining time, user data, the counter
            found.append(" ".join(f"{k}={v.hex()}" for k, v in inner if k in (1, 2, 3, 4, 10)))
    return sorted(found)


def _attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", len(payload) + 4, kind) + payload + bytes(-len(payload) % 4)


def ipsets() -> dict[str, list[str]]:
    """Each IP set to its kind, options and members."""
    found: dict[str, list[str]] = {}
    body = struct.pack("=BBH", 0, 0, 0) + struct.pack("=HHBxxx", 5, 1, 7)  # protocol 7
    for _, message in dump(NETFILTER, _IPSET | _IPSET_LIST, body):
        given = dict(attributes(message[4:]))
        label = f"ipset {word(given[2])}"
        if label not in found:
            options = [
                f"{kind}={value.hex()}"
                for kind, value in attributes(given.get(7, b""))
                if kind not in _SET_VARIES
            ]
            head = f"{word(given.get(3, b''))} family {number(given.get(5, b''))}"
            found[label] = [f"{head} {' '.join(options)}"]
        for _, member in attributes(given.get(8, b"")):
            found[label].append(
                " ".join(
                    f"{kind}={value.hex()}"
                    for kind, value in attributes(member)
                    if kind not in _MEMBER_VARIES
                )
            )
    return {label: [lines[0], *sorted(lines[1:])] for label, lines in found.items()}


def hooks() -> list[str]:
    """What is registered at each hook of netfilter, in the order in which packets meet it; [] of a
    kernel that does not list them (without CONFIG_NETFILTER_NETLINK_HOOK).
    """
    if not _lists_hooks(_modules()):
        return []
    found = []
    for family, count in _HOOK_FAMILIES.items():
        for hook in range(count):
            for _, message in dump(NETFILTER, _HOOKS, _hook(family, hook)):
                given = dict(attributes(message[4:]))
                priority = int.from_bytes(given.get(2, b""), "big", signed=True)
                name = f"{_FAMILIES[family]} {hook} {priority}"
                found.append(f"{name} {word(given.get(5, b''))} {word(given.get(4, b''))}")
    return found


def _hook(family: int, number_: int) -> bytes:
    """The request for one hook."""
    return struct.pack("=BBHHH", family, 0, 0, 8, 1) + struct.pack("!I", number_)


@cache
def _lists_hooks(modules: frozenset[str]) -> bool:
    """Does a kernel with these modules list them? IPv4's first hook is in every kernel."""
    del modules
    return answers(NETFILTER, _HOOKS, _hook(socket.AF_INET, 0))


def _modules() -> frozenset[str]:
    """The loaded modules; none of a kernel that cannot have any."""
    try:
        found = Path("/proc/modules").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return frozenset()
    return frozenset(line.partition(" ")[0] for line in found)


def texts(ns: Namespace, sections: Mapping[str, object]) -> dict[str, list[str]]:
    """What the programs of the packet filters write, for those that have something there. Raises
    ClusterError when one fails.
    """
    programs: dict[str, list[str]] = {}
    kinds = {tuple(section.split()[:2]) for section in sections}
    for family, name in (("ip", "iptables"), ("ip6", "ip6tables")):
        if ("table", family) in kinds:
            programs[f"{name}-nft-save"] = [f"{name}-nft-save"]
        if ("legacy", family) in kinds:
            programs[f"{name}-legacy-save"] = [f"{name}-legacy-save"]
    own = [section.split() for section in sections if section.startswith("table ")]
    if any(words[1] not in ("ip", "ip6") or words[2] not in _OF_IPTABLES for words in own):
        programs["nft"] = ["nft", "-s", "list", "ruleset"]
    if any(kind[0] == "ipset" for kind in kinds):
        programs["ipset"] = ["ipset", "save", "-sorted"]
    found = {}
    for name, argv in programs.items():
        done = ns.run(argv, timeout=_LIMIT)
        found[name] = [_plain(line) for line in done.stdout.splitlines() if line and line[0] != "#"]
    return found


def _plain(line: str) -> str:
    """Without the counters of a chain and the random seed of a set."""
    return line.partition(" [")[0] if line.startswith(":") else line.partition(" initval ")[0]
