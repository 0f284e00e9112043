"""The shell commands that remove from a node what a CNI left there, made from what the node shows.

``shown`` is the output of the snapshot's script, ``had`` what the node had before: that stays.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from cnibench.clusters.kubernetes.removal.node_snapshot import (
    VOLATILE,
    addresses,
    empty_bases,
    plain,
)

_TYPES = (
    "local",
    "broadcast",
    "anycast",
    "multicast",
    "blackhole",
    "unreachable",
    "prohibit",
    "throw",
    "unicast",
)
_FALLBACK = (
    "tunl0",
    "ip6tnl0",
    "gre0",
    "sit0",
)  # devices that the kernel makes with a module, and nobody can delete
_TUNNELS = frozenset({"vxlan", "geneve", "ipip", "sit", "ip6tnl", "wireguard"})  # kinds

Items = Mapping[
    str, Collection[str]
]  # as in remains.Snapshot; and "path", "address", "mount", and "up": devices
_BPF = "/sys/fs/bpf"


class Command(NamedTuple):
    """``what`` it removes or changes, for the user; '' for what only follows from another one."""

    line: str
    what: str = ""


def chain_removal(
    saved: str,
    chains: Sequence[str],
    rules: Sequence[str],
    backend: str = "",
    had: Collection[str] = (),
) -> str:
    """Input of ``iptables-restore --noflush`` that takes a CNI's chains and rules out of what
    ``iptables-save`` printed, '' for none.

    What the node ``had`` (as ``remains.parse`` names it) stays.
    """
    script: list[str] = []
    for part in re.split(r"^\*", saved, flags=re.MULTILINE)[1:]:
        table, *lines = part.splitlines()
        names = [line[1:].split()[0] for line in lines if line.startswith(":")]
        own = [
            name
            for name in names
            if named(name, chains) and f"{backend} {table}: chain {name}" not in had
        ]
        others = [line for line in lines if line.startswith("-A") and line.split()[1] not in own]
        doomed = [
            line
            for line in others
            if _target(line) in own
            or named(line.split()[1], chains)
            or any(text in line + " " for text in rules)
        ]
        doomed = [line for line in doomed if f"{backend} {table}: {line}" not in had]
        if own or doomed:
            script += [
                f"*{table}",
                *(f":{name} - [0:0]" for name in own),
                *(f"-D{line[2:]}" for line in doomed),
            ]
            script += [*(f"-X {name}" for name in own), "COMMIT"]
    return "\n".join(script) + "\n" if script else ""


def chains(script: str, backend: str) -> Iterator[str]:
    """What such input removes, named as ``remains.parse`` does."""
    table = ""
    for line in script.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-X"):
            yield f"{backend} {table}: chain {line[3:]}"
        elif line.startswith("-D"):
            yield f"{backend} {table}: -A{line[2:]}"


def base_chain_removal(shown: str, had: Collection[str] = ()) -> Iterator[Command]:
    """Packets walk a base chain although nothing is in it; iptables makes it again when it needs
    it.
    """
    for which in empty_bases("\n".join(section(shown, "ruleset"))):
        if which not in had:
            # somebody may have put a rule there meanwhile
            yield Command(
                f"nft delete chain {which} 2>/dev/null || true", f"empty base chain {which}"
            )


def _target(rule: str) -> str:
    match = re.search(r" (?:-j|-g) (\S+)", rule)
    return match[1] if match else ""


def named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def section(shown: str, name: str) -> list[str]:
    match = re.search(rf"^@@ {name}\n(.*?)(?=^@@ |\Z)", shown, re.MULTILINE | re.DOTALL)
    return [line for line in match[1].splitlines() if line.strip()] if match else []


def device_removal(shown: str, patterns: Sequence[str], had: Items) -> Iterator[Command]:
    """One that was there before stays, with the addresses that it had, and a bridge that somebody
    has attached a device of his own to. A kernel's fallback device, which comes with its module and
    cannot be deleted, loses its new addresses and goes down if it was down.
    """
    links = json.loads("".join(section(shown, "links")) or "[]")
    for item in links:
        name = str(item["ifname"])
        if not _claimed(item, patterns) or (
            name in had.get("device", ()) and name not in _FALLBACK
        ):
            continue
        quoted = shlex.quote(name)
        if others := _ports_of_others(item, links, patterns):
            yield Command("true", f"{name}, which stays: {', '.join(others)} is attached to it")
            continue
        if name not in _FALLBACK:
            # its pair may have taken it along
            yield Command(
                f"ip link delete {quoted} 2>/dev/null || ! ip link show {quoted} >/dev/null 2>&1",
                f"device {name}",
            )
            continue
        for address in addresses(item):
            if address not in had.get("address", ()):
                plain_address = address.partition(" ")[2]
                yield Command(
                    f"ip address del {plain_address} dev {quoted}",
                    f"address {plain_address} of {name}",
                )
        if name not in had.get("up", ()):
            up = "UP" in item.get("flags", ())
            yield Command(f"ip link set {quoted} down", f"{name} is set down" if up else "")


def _claimed(link: Mapping[str, Any], patterns: Sequence[str]) -> bool:
    """Is it named exactly; or like a pattern, and a device whose name varies: the node's end of a
    Pod's, or a tunnel? A bridge, a pair within the node or the like is somebody else's.
    """
    kind = link.get("linkinfo", {}).get("info_kind", "")
    varies = "link_netnsid" in link or kind in _TUNNELS
    return link["ifname"] in patterns or (varies and named(str(link["ifname"]), patterns))


def _ports_of_others(
    bridge: Mapping[str, Any], links: Sequence[Mapping[str, Any]], patterns: Sequence[str]
) -> list[str]:
    """The ports of a bridge that are neither ends of Pods nor devices of the CNI."""
    return [
        str(one["ifname"])
        for one in links
        if one.get("master") == bridge["ifname"]
        and "link_netnsid" not in one
        and not _claimed(one, patterns)
    ]


def xfrm_removal(shown: str, had: Collection[str]) -> Command:
    """States and policies cannot be distinguished from those of others: they go only where
    there were none. ``had`` is empty where nobody knows.
    """
    if _counted(had):
        return Command(
            "echo 'IPsec states or policies of others were there before: none is removed' >&2;"
            " false"
        )
    counts = [" ".join(line.split()) for line in section(shown, "xfrm")]
    if not had and _counted(counts):
        return Command(
            "echo 'there are IPsec states or policies, and whether they were there before is"
            " unknown: none is removed' >&2; false"
        )
    return Command(
        "ip xfrm state flush; ip xfrm policy flush",
        f"all IPsec states and policies ({', '.join(counts)})" if _counted(counts) else "",
    )


def _counted(lines: Collection[str]) -> bool:
    return any(re.search(r"count [1-9]|(IN|OUT|FWD)\s+[1-9]", line) for line in lines)


def tc_removal(shown: str, patterns: Sequence[str], had: Collection[str] = ()) -> Iterator[Command]:
    for line in section(shown, "tc"):
        device, way, _, pref, _, handle, name = line.split()[:7]
        if named(name, patterns) and f"{device} {way} pref {pref} {name}" not in had:
            where = f"dev {shlex.quote(device)}"
            yield Command(
                f"! ip link show {where} >/dev/null 2>&1 || tc filter del {where} {way} pref {pref}"
                f" handle {handle} bpf",
                f"program at tc {device} {way} pref {pref} {name}",
            )
            ways = " || ".join(
                f"tc filter show {where} {one} 2>/dev/null | grep -q ."
                for one in ("ingress", "egress")
            )
            yield Command(f"{ways} || tc qdisc del {where} clsact 2>/dev/null || true")


def route_removal(
    shown: str, cidrs: Sequence[str], tables: Sequence[int], had: Items
) -> Iterator[Command]:
    networks = [ipaddress.ip_network(cidr, strict=False) for cidr in cidrs]
    for line in section(shown, "routes"):
        words = line.split()
        table = re.search(r" table (\S+)", line)
        named = bool(table and table[1] in map(str, tables))
        if plain(line) in had.get("route", ()):
            continue
        if words[0] in ("local", "broadcast", "anycast", "multicast") and not named:
            continue
        text = words[1] if words[0] in _TYPES else words[0]
        try:
            target = ipaddress.ip_network(text)
        except ValueError:
            target = None
        inside = target is not None and any(
            one.version == target.version and target.subnet_of(one)  # type: ignore[arg-type]
            for one in networks
        )
        if inside or named:
            family = "-6" if ":" in line.split(" dev ")[0] else "-4"
            route = VOLATILE.sub(
                "",
                re.sub(
                    r" (proto|metric|pref|error) \S+",
                    lambda m: m[0] if m[1] == "metric" else "",
                    line,
                ),
            )
            yield Command(
                f"ip {family} route del {route} 2>/dev/null || ! ip {family} route show table all |"
                f" grep -qF {shlex.quote(text + ' ')}",
                f"route {plain(line)}",
            )
    for line in section(shown, "rules"):
        match = re.match(r"(\d+):.* lookup (\S+)", line)
        if plain(line) in had.get("routing rule", ()):
            continue
        if match and match[2] in map(str, tables):
            which = f"rule del pref {match[1]} lookup {match[2]} 2>/dev/null"
            yield Command(f"ip -4 {which} || ip -6 {which} || true", f"routing rule {plain(line)}")


def local_rule(shown: str, had: Collection[str] = ()) -> Iterator[Command]:
    """Who moved the kernel's first rule (lookup local) away from preference 0, to have rules before
    it, left it there: it goes back.
    """
    lines = [re.sub(r"\s+", " ", line).strip() for line in section(shown, "rules")]
    moved = sorted(
        {
            match[1]
            for line in lines
            if (match := re.fullmatch(r"([1-9]\d*): from all lookup local", line))
            and line not in had
        }
    )
    for family in ("-4", "-6"):
        for pref in moved:
            there = f"ip {family} rule show pref {pref} | grep -q 'lookup local'"
            back = (
                f"{{ ip {family} rule show pref 0 | grep -q . || ip {family} rule add pref 0 lookup"
                " local; }"
            )
            yield Command(
                f"! {there} || {{ {back} && ip {family} rule del pref {pref} lookup local; }}",
                f"routing rule {pref}: from all lookup local, which gets preference 0 again"
                * (family == "-4"),
            )


def unmounting(
    shown: str, files: Sequence[str], kept: Collection[str], had: Collection[str]
) -> Iterator[Command]:
    """What the CNI mounted below its own files: nothing of another file system is ever deleted."""
    for at in sorted(section(shown, "mounts"), reverse=True):
        above = [at[: end.start()] for end in re.finditer("/", at)][1:]
        if at not in had and any(
            fnmatchcase(one, path) and one not in kept for one in above for path in files
        ):
            yield Command(f"nsenter -t 1 -m -- umount -l {shlex.quote(at)}", f"mount {at}")


def unmounting_bpf(shown: str, files: Sequence[str], had: Collection[str]) -> Iterator[Command]:
    """The file system of pinned eBPF objects, which a CNI mounts where a node has none. It stays
    while somebody's objects are in it.
    """
    pins = any(path.startswith(f"{_BPF}/") for path in files)
    if pins and _BPF in section(shown, "mounts") and _BPF not in had:
        # what cannot be listed is not empty
        theirs = "printf %s \"$all\" | grep -v '[.]debug$' | grep -q ."
        line = f"all=$(ls -A {_BPF}) && {{ {theirs} || umount {_BPF}; }}"
        yield Command(f"nsenter -t 1 -m -- sh -c {shlex.quote(line)}", f"mount {_BPF}")
