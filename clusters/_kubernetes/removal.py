"""Removing from a node what a CNI leaves there, by what its profile says of that. What is left then, ``remains`` finds."""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cnibench.clusters._kubernetes import remains
from cnibench.clusters._kubernetes.manifests import installation
from cnibench.clusters._kubernetes.objects import HOST
from cnibench.clusters._kubernetes.remains import BACKENDS, QUICK, SCRIPT, VOLATILE, leftovers, snapshot
from cnibench.errors import ClusterError
from cnibench.installation import Installation
from cnibench.profile import Profile

if TYPE_CHECKING:
    from cnibench.clusters._kubernetes.places import KubernetesNode

_PLUGINS = 20.0  # s that a plugin which the runtime has called is given to end
_TYPES = ("local", "broadcast", "anycast", "multicast", "blackhole", "unreachable", "prohibit", "throw", "unicast")

__all__ = ["clean", "clean_node", "leftovers", "snapshot"]


def clean_node(node: KubernetesNode, profile: Profile, cidrs: Sequence[str] = ()) -> None:
    """Removes from a node what the profile says that its CNI leaves; routes to Pods of ``cidrs``. Raises ClusterError."""
    clean(node, installation(profile), cidrs)


def clean(
    node: KubernetesNode, about: Installation, cidrs: Sequence[str], copied: Sequence[str] = (), sysctls: Mapping[str, str] | None = None
) -> None:
    """The same by the installation alone, with the plugins that were copied to it and the sysctls that were set before."""
    if not node.host:
        raise ClusterError(f"node {node.name}: nothing can be removed from it without a privileged agent", "allow privileged Pods")
    leaves = about.leaves
    backends = {tool: node.run([f"{tool}-save"], timeout=QUICK, check=False).stdout for tool in BACKENDS}
    for tool, saved in backends.items():
        if restore := chain_removal(saved, leaves.chains, leaves.rules):
            node.run([f"{tool}-restore", "--noflush"], timeout=QUICK, input=restore)
    shown = node.run(["sh", "-c", SCRIPT], timeout=QUICK).stdout
    lines = [
        *_base_chain_removal(shown),
        *_device_removal(shown, leaves.devices),
        *_tc_removal(shown, leaves.programs),
        *_route_removal(shown, cidrs, leaves.route_tables),
    ]
    lines += [f"nft delete {line}" for line in _section(shown, "nft") if _named(line.split()[-1], leaves.nft_tables)]
    lines += [f"ipset destroy {shlex.quote(name)}" for name in _section(shown, "ipsets") if _named(name, leaves.ipsets)]
    if leaves.xfrm:
        lines.append("ip xfrm state flush; ip xfrm policy flush")
    if leaves.route_tables:
        lines += _local_rule(shown)
    lines += _file_removal(leaves.files, leaves.backups)
    lines += [f"rm -f {HOST}/opt/cni/bin/{shlex.quote(name)}" for name in copied]
    now = remains.sysctls(node) if sysctls else {}
    changed = {name: value for name, value in (sysctls or {}).items() if now.get(name, value) != value}
    lines += [f"echo {shlex.quote(value)} > {shlex.quote('/proc/sys/' + name)}" for name, value in changed.items()]
    done = node.run(
        ["sh", "-c", "\n".join(["failed=0", *(f"{{ {line}; }} || failed=1" for line in lines), "exit $failed"])], timeout=120, check=False
    )
    if done.returncode:
        raise ClusterError(f"something could not be removed: {' | '.join(done.stderr.strip().splitlines()[-5:])}")


def end_plugins(node: KubernetesNode) -> None:
    """Waits until no deleted CNI plugin runs and kills what still does in the end: it would write its files again. Raises ClusterError."""
    script = f"""
    running() {{ ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n 's,.* /proc/\\([0-9]*\\)/exe -> /opt/cni/bin/.* (deleted)$,\\1,p'; }}
    for again in $(seq {int(_PLUGINS / 0.2)}); do test -n "$(running)" || exit 0; sleep 0.2; done
    kill -9 $(running) 2>/dev/null; true"""
    node.run(["sh", "-c", script], timeout=_PLUGINS + QUICK)


def chain_removal(saved: str, chains: Sequence[str], rules: Sequence[str]) -> str:
    """Input of ``iptables-restore --noflush`` that takes a CNI's chains and rules out of what ``iptables-save`` printed, '' for none."""
    script: list[str] = []
    for part in re.split(r"^\*", saved, flags=re.MULTILINE)[1:]:
        table, *lines = part.splitlines()
        names = [line[1:].split()[0] for line in lines if line.startswith(":")]
        own = [name for name in names if _named(name, chains)]
        others = [line for line in lines if line.startswith("-A") and line.split()[1] not in own]
        doomed = [line for line in others if any(_target(line) == name for name in own) or any(text in line + " " for text in rules)]
        if own or doomed:
            script += [f"*{table}", *(f":{name} - [0:0]" for name in own), *(f"-D{line[2:]}" for line in doomed)]
            script += [*(f"-X {name}" for name in own), "COMMIT"]
    return "\n".join(script) + "\n" if script else ""


def _base_chain_removal(shown: str) -> Iterator[str]:
    """Packets walk a base chain although nothing is in it; iptables makes it again when it needs it."""
    for which in remains.empty_bases("\n".join(_section(shown, "ruleset"))):
        yield f"nft delete chain {which} 2>/dev/null || true"  # somebody may have put a rule there meanwhile


def _target(rule: str) -> str:
    match = re.search(r" (?:-j|-g) (\S+)", rule)
    return match[1] if match else ""


def _named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _section(shown: str, name: str) -> list[str]:
    match = re.search(rf"^@@ {name}\n(.*?)(?=^@@ |\Z)", shown, re.MULTILINE | re.DOTALL)
    return [line for line in match[1].splitlines() if line.strip()] if match else []


def _device_removal(shown: str, patterns: Sequence[str]) -> Iterator[str]:
    """A kernel's fallback device (tunl0) cannot be deleted: it loses its addresses and is set down."""
    for item in json.loads("".join(_section(shown, "links")) or "[]"):
        name = str(item["ifname"])
        if not _named(name, patterns):
            continue
        quoted = shlex.quote(name)
        if name in ("tunl0", "ip6tnl0", "gre0", "sit0"):
            yield f"ip addr flush dev {quoted} && ip link set {quoted} down"
        else:
            yield f"ip link delete {quoted} 2>/dev/null || ! ip link show {quoted} >/dev/null 2>&1"  # its pair may have taken it along


def _tc_removal(shown: str, patterns: Sequence[str]) -> Iterator[str]:
    for line in _section(shown, "tc"):
        device, way, _, pref, _, handle, name = line.split()[:7]
        if _named(name, patterns):
            where = f"dev {shlex.quote(device)}"
            yield f"! ip link show {where} >/dev/null 2>&1 || tc filter del {where} {way} pref {pref} handle {handle} bpf"
            ways = " || ".join(f"tc filter show {where} {one} 2>/dev/null | grep -q ." for one in ("ingress", "egress"))
            yield f"{ways} || tc qdisc del {where} clsact 2>/dev/null || true"


def _route_removal(shown: str, cidrs: Sequence[str], tables: Sequence[int]) -> Iterator[str]:
    networks = [ipaddress.ip_network(cidr, strict=False) for cidr in cidrs]
    for line in _section(shown, "routes"):
        words = line.split()
        table = re.search(r" table (\S+)", line)
        named = bool(table and table[1] in map(str, tables))
        if words[0] in ("local", "broadcast", "anycast", "multicast") and not named:
            continue
        text = words[1] if words[0] in _TYPES else words[0]
        try:
            target = ipaddress.ip_network(text)
        except ValueError:
            target = None
        inside = target is not None and any(one.version == target.version and target.subnet_of(one) for one in networks)  # type: ignore[arg-type]
        if inside or named:
            family = "-6" if ":" in line.split(" dev ")[0] else "-4"
            plain = VOLATILE.sub("", re.sub(r" (proto|metric|pref|error) \S+", lambda m: m[0] if m[1] == "metric" else "", line))
            yield f"ip {family} route del {plain} 2>/dev/null || ! ip {family} route show table all | grep -qF {shlex.quote(text + ' ')}"
    for line in _section(shown, "rules"):
        match = re.match(r"(\d+):.* lookup (\S+)", line)
        if match and match[2] in map(str, tables):
            which = f"rule del pref {match[1]} lookup {match[2]} 2>/dev/null"
            yield f"ip -4 {which} || ip -6 {which} || true"


def _local_rule(shown: str) -> Iterator[str]:
    """Who moved the kernel's first rule (lookup local) away from preference 0, to have rules before it, left it there: it goes back."""
    lines = [re.sub(r"\s+", " ", line).strip() for line in _section(shown, "rules")]
    moved = sorted({match[1] for line in lines if (match := re.fullmatch(r"([1-9]\d*): from all lookup local", line))})
    for family in ("-4", "-6"):
        for pref in moved:
            there = f"ip {family} rule show pref {pref} | grep -q 'lookup local'"
            back = f"{{ ip {family} rule show pref 0 | grep -q . || ip {family} rule add pref 0 lookup local; }}"
            yield f"! {there} || {{ {back} && ip {family} rule del pref {pref} lookup local; }}"


def _file_removal(files: Sequence[str], backups: str) -> Iterator[str]:
    """What is mounted below a path is unmounted on the node first, and nothing of another file system is ever deleted."""
    for path in files:
        inside = f"{HOST}{path}"  # a pattern that the shell expands: the profile's model lets only harmless letters through
        below = f"cut -d' ' -f2 /proc/1/mounts | grep \"^${{path#{HOST}}}/\" | sort -r"
        unmount = f"for at in $({below}); do nsenter -t 1 -m -- umount -l $at; done"
        yield f"for path in {inside}; do test -e $path || continue; {unmount}; rm -rf --one-file-system $path; done"
    yield f"rmdir {HOST}/var/lib/cni/networks {HOST}/var/lib/cni/results 2>/dev/null || true"  # libcni's own, when nothing is in them
    yield f"rmdir {HOST}/sys/fs/bpf/tc/globals {HOST}/sys/fs/bpf/tc 2>/dev/null || true"
    if backups:
        yield f"for path in {HOST}/etc/cni/net.d/*{backups}; do test -e $path || continue; mv $path ${{path%{backups}}}; done"
