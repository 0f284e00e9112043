"""Removing from a node what a CNI left there: what its profile names, unless it was there before
the CNI came.

What was there before is kept on the node's own disk from before anything is installed. What is left
in the end, ``remains`` finds.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.removal import node_snapshot
from cnibench.clusters.kubernetes.removal.node_snapshot import (
    BACKENDS,
    QUICK,
    SCRIPT,
    VOLATILE,
    leftovers,
    snapshot,
)
from cnibench.errors import ClusterError
from cnibench.model.installation import Installation

if TYPE_CHECKING:
    from cnibench.clusters.kubernetes.nodes.places import KubernetesNode

_PLUGINS = 20.0  # s that a plugin which the runtime has called is given to end
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
_BEFORE = "/var/lib/cnibench/before-cni.json"  # on the node
_LIBCNI = (
    "/var/lib/cni/networks",
    "/var/lib/cni/results",
    "/sys/fs/bpf/tc/globals",
    "/sys/fs/bpf/tc",
)  # go when nothing is in them
_FILES = Path(__file__).with_name("_node_files.py")

Items = Mapping[
    str, Collection[str]
]  # as in remains.Snapshot; and "path", "address", "mount", and "up": devices

__all__ = ["clean", "forget", "leftovers", "remember", "snapshot"]


def remember(node: KubernetesNode, about: Installation) -> None:
    """Writes down on the node what it has of all that could be removed from it. Raises
    ClusterError.
    """
    shown = node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout
    items = {kind: sorted(found) for kind, found in node_snapshot.parse(shown).items()}
    paths = _files(node, do="list", patterns=[*about.leaves.files, *_backups(about), *_LIBCNI])
    links = json.loads("".join(_section(shown, "links")) or "[]")
    items |= {
        "path": paths["found"],
        "up": [link["ifname"] for link in links if "UP" in link.get("flags", ())],
        "address": [address for link in links for address in node_snapshot.addresses(link)],
        "mount": _section(shown, "mounts"),
    }
    text = json.dumps({"items": items, "sysctls": node_snapshot.sysctls(node)})
    _files(node, do="save", path=_BEFORE, text=text)


def _backups(about: Installation) -> list[str]:
    return [f"/etc/cni/net.d/*{about.leaves.backups}"] if about.leaves.backups else []


def forget(node: KubernetesNode) -> None:
    """The end of ``remember``. Raises ClusterError."""
    _files(
        node,
        do="remove",
        patterns=[_BEFORE],
        kept=[],
        backups="",
        empty=[str(Path(_BEFORE).parent)],
    )


def before(node: KubernetesNode) -> tuple[Items, Mapping[str, str]]:
    """(what the node had, its sysctls) as ``remember`` wrote them. Raises ClusterError when that is
    lost.
    """
    text = _files(node, do="load", path=_BEFORE)["text"]
    try:
        found = json.loads(text)
        return {kind: frozenset(items) for kind, items in found["items"].items()}, found["sysctls"]
    except (TypeError, ValueError, KeyError):
        raise ClusterError(
            f"node {node.facts.name}: its state before the CNI was installed is no longer known"
            f" ({_BEFORE}): nothing is removed by its name alone",
            "reboot the node, and remove the CNI's files from it",
        ) from None


def clean(
    node: KubernetesNode,
    about: Installation,
    cidrs: Sequence[str],
    copied: Sequence[str] = (),
    had: Items | None = None,
    sysctls: Mapping[str, str] | None = None,
) -> None:
    """Removes what the profile says that the CNI leaves, routes to Pods of ``cidrs`` and the
    plugins ``copied``; nothing that the node
    ``had``. ``sysctls`` get the values that they had. Raises ClusterError.
    """
    if not node.host:
        raise ClusterError(
            f"node {node.name}: nothing can be removed from it without a privileged agent",
            "allow privileged Pods",
        )
    leaves, had = about.leaves, had or {}
    backends = {
        tool: node.run([f"{tool}-save"], timeout=QUICK, check=False).stdout for tool in BACKENDS
    }
    for tool, saved in backends.items():
        if restore := chain_removal(
            saved, leaves.chains, leaves.rules, tool, had.get("iptables", ())
        ):
            node.run([f"{tool}-restore", "--noflush"], timeout=QUICK, input=restore)
    shown = node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout
    lines = [
        *_base_chain_removal(shown, had.get("empty base chain", ())),
        *_device_removal(shown, leaves.devices, had),
        *_tc_removal(shown, leaves.programs, had.get("program at tc", ())),
        *_route_removal(shown, cidrs, leaves.route_tables, had),
    ]
    tables = [
        line
        for line in _section(shown, "nft")
        if _named(line.split()[-1], leaves.nft_tables) and line not in had.get("nft", ())
    ]
    lines += [f"nft delete {line}" for line in tables]
    sets = [
        name
        for name in _section(shown, "ipsets")
        if _named(name, leaves.ipsets) and name not in had.get("ipset", ())
    ]
    lines += [f"ipset destroy {shlex.quote(name)}" for name in sets]
    if leaves.xfrm:
        lines.append(_xfrm_removal(had.get("IPsec", ())))
    if leaves.route_tables:
        lines += _local_rule(shown, had.get("routing rule", ()))
    kept = had.get("path", ())
    lines += _unmounting(shown, leaves.files, kept, had.get("mount", ()))
    now = node_snapshot.sysctls(node) if sysctls else {}
    changed = {
        name: value for name, value in (sysctls or {}).items() if now.get(name, value) != value
    }
    lines += [
        f"echo {shlex.quote(value)} > {shlex.quote('/proc/sys/' + name)}"
        for name, value in changed.items()
    ]
    done = node.run(
        [
            "sh",
            "-c",
            "\n".join(
                ["failed=0", *(f"{{ {line}; }} || failed=1" for line in lines), "exit $failed"]
            ),
        ],
        timeout=120,
        check=False,
    )
    patterns = [
        *leaves.files,
        *(f"/opt/cni/bin/{name}" for name in copied if re.fullmatch(r"[\w-]+", name)),
    ]
    failed = _files(
        node,
        do="remove",
        patterns=patterns,
        kept=sorted(kept),
        backups=leaves.backups,
        empty=_LIBCNI,
    )["failed"]
    if done.returncode:
        failed += done.stderr.strip().splitlines()[-5:]
    if failed:
        raise ClusterError(f"something could not be removed: {' | '.join(failed[:5])}")


def _files(node: KubernetesNode, **asked: Any) -> dict[str, Any]:
    """The answer of the program that works on the node's files. Raises ClusterError."""
    argv = ["python3", "-I", "-S", "-c", _FILES.read_text(encoding="utf-8")]
    done = node.run(argv, timeout=QUICK, input=json.dumps({"root": HOST, **asked}), check=False)
    if done.returncode:
        raise ClusterError(
            f"node {node.facts.name}: its files:"
            f" {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
        )
    return dict(json.loads(done.stdout))


def end_plugins(node: KubernetesNode) -> None:
    """Waits until no deleted CNI plugin runs and kills what still does in the end: it would write
    its files again. Raises ClusterError.
    """
    script = f"""
    running() {{ ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n 's,.* /proc/\\([0-9]*\\)/exe -> /opt/cni/bin/.* (deleted)$,\\1,p'; }}
    for again in $(seq {int(_PLUGINS / 0.2)}); do test -n "$(running)" || exit 0; sleep 0.2; done
    kill -9 $(running) 2>/dev/null; true"""  # noqa: E501
    node.run(["sh", "-c", script], timeout=_PLUGINS + QUICK)


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
            if _named(name, chains) and f"{backend} {table}: chain {name}" not in had
        ]
        others = [line for line in lines if line.startswith("-A") and line.split()[1] not in own]
        doomed = [
            line
            for line in others
            if _target(line) in own
            or _named(line.split()[1], chains)
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


def _base_chain_removal(shown: str, had: Collection[str] = ()) -> Iterator[str]:
    """Packets walk a base chain although nothing is in it; iptables makes it again when it needs
    it.
    """
    for which in node_snapshot.empty_bases("\n".join(_section(shown, "ruleset"))):
        if which not in had:
            # somebody may have put a rule there meanwhile
            yield f"nft delete chain {which} 2>/dev/null || true"


def _target(rule: str) -> str:
    match = re.search(r" (?:-j|-g) (\S+)", rule)
    return match[1] if match else ""


def _named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _section(shown: str, name: str) -> list[str]:
    match = re.search(rf"^@@ {name}\n(.*?)(?=^@@ |\Z)", shown, re.MULTILINE | re.DOTALL)
    return [line for line in match[1].splitlines() if line.strip()] if match else []


def _device_removal(shown: str, patterns: Sequence[str], had: Items) -> Iterator[str]:
    """One that was there before stays, with the addresses that it had. A kernel's fallback device,
    which comes with its module and cannot be deleted, loses its new addresses and goes down if it
    was down.
    """
    for item in json.loads("".join(_section(shown, "links")) or "[]"):
        name = str(item["ifname"])
        if not _named(name, patterns) or (name in had.get("device", ()) and name not in _FALLBACK):
            continue
        quoted = shlex.quote(name)
        if name not in _FALLBACK:
            # its pair may have taken it along
            yield f"ip link delete {quoted} 2>/dev/null || ! ip link show {quoted} >/dev/null 2>&1"
            continue
        for address in node_snapshot.addresses(item):
            if address not in had.get("address", ()):
                yield f"ip address del {address.partition(' ')[2]} dev {quoted}"
        if name not in had.get("up", ()):
            yield f"ip link set {quoted} down"


def _xfrm_removal(had: Collection[str]) -> str:
    """States and policies cannot be told apart from those of others: they go only where there were
    none.
    """
    if any(re.search(r"count [1-9]|(IN|OUT|FWD)\s+[1-9]", line) for line in had):
        return (
            "echo 'IPsec states or policies of others were there before: none is removed' >&2;"
            " false"
        )
    return "ip xfrm state flush; ip xfrm policy flush"


def _tc_removal(shown: str, patterns: Sequence[str], had: Collection[str] = ()) -> Iterator[str]:
    for line in _section(shown, "tc"):
        device, way, _, pref, _, handle, name = line.split()[:7]
        if _named(name, patterns) and f"{device} {way} pref {pref} {name}" not in had:
            where = f"dev {shlex.quote(device)}"
            yield (
                f"! ip link show {where} >/dev/null 2>&1 || tc filter del {where} {way} pref {pref}"
                f" handle {handle} bpf"
            )
            ways = " || ".join(
                f"tc filter show {where} {one} 2>/dev/null | grep -q ."
                for one in ("ingress", "egress")
            )
            yield f"{ways} || tc qdisc del {where} clsact 2>/dev/null || true"


def _route_removal(
    shown: str, cidrs: Sequence[str], tables: Sequence[int], had: Items
) -> Iterator[str]:
    networks = [ipaddress.ip_network(cidr, strict=False) for cidr in cidrs]
    for line in _section(shown, "routes"):
        words = line.split()
        table = re.search(r" table (\S+)", line)
        named = bool(table and table[1] in map(str, tables))
        if node_snapshot.plain(line) in had.get("route", ()):
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
            plain = VOLATILE.sub(
                "",
                re.sub(
                    r" (proto|metric|pref|error) \S+",
                    lambda m: m[0] if m[1] == "metric" else "",
                    line,
                ),
            )
            yield (
                f"ip {family} route del {plain} 2>/dev/null || ! ip {family} route show table all |"
                f" grep -qF {shlex.quote(text + ' ')}"
            )
    for line in _section(shown, "rules"):
        match = re.match(r"(\d+):.* lookup (\S+)", line)
        if node_snapshot.plain(line) in had.get("routing rule", ()):
            continue
        if match and match[2] in map(str, tables):
            which = f"rule del pref {match[1]} lookup {match[2]} 2>/dev/null"
            yield f"ip -4 {which} || ip -6 {which} || true"


def _local_rule(shown: str, had: Collection[str] = ()) -> Iterator[str]:
    """Who moved the kernel's first rule (lookup local) away from preference 0, to have rules before
    it, left it there: it goes back.
    """
    lines = [re.sub(r"\s+", " ", line).strip() for line in _section(shown, "rules")]
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
            yield f"! {there} || {{ {back} && ip {family} rule del pref {pref} lookup local; }}"


def _unmounting(
    shown: str, files: Sequence[str], kept: Collection[str], had: Collection[str]
) -> Iterator[str]:
    """What the CNI mounted below its own files: nothing of another file system is ever deleted."""
    for at in sorted(_section(shown, "mounts"), reverse=True):
        above = [at[: end.start()] for end in re.finditer("/", at)][1:]
        if at not in had and any(
            fnmatchcase(one, path) and one not in kept for one in above for path in files
        ):
            yield f"nsenter -t 1 -m -- umount -l {shlex.quote(at)}"
