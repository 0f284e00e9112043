"""What a CNI leaves on a node, found by comparing the node before and after.

A snapshot is one script in the agent: devices, routes, rules, chains and rules of iptables (both
back ends, both families), ipsets, nft tables, programs at tc, pinned eBPF objects, CNI files, IPsec
states, and the sysctls that CNIs set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode

QUICK = 30.0  # s
BACKENDS = tuple(
    f"{family}-{kind}" for family in ("iptables", "ip6tables") for kind in ("legacy", "nft")
)
_SYSCTLS = (
    "/proc/sys/net/ipv4/conf/all /proc/sys/net/ipv4/conf/default /proc/sys/net/ipv6/conf/all"
    " /proc/sys/net/ipv6/conf/default /proc/sys/net/ipv4/ip_forward"
    " /proc/sys/net/ipv4/fib_multipath_use_neigh /proc/sys/net/core/bpf_jit_enable"
    " /proc/sys/net/bridge"
)
SCRIPT = f"""
cd /
section() {{ echo "@@ $1"; }}
section links; ip -d -j address show
section routes; ip route show table all; ip -6 route show table all
section rules; ip rule show; ip -6 rule show
for tool in {" ".join(BACKENDS)}; do section $tool; $tool-save 2>/dev/null; done
section ipsets; ipset list -n 2>/dev/null
section nft; nft list tables 2>/dev/null
section ruleset; nft -s list ruleset 2>/dev/null
section tc
for device in $(ls /sys/class/net); do for way in ingress egress; do
  tc filter show dev $device $way 2>/dev/null | \\
    sed -n "s/.* \\(pref [0-9]*\\) bpf .*\\(handle 0x[0-9a-f]*\\) \\([^ ]*\\).*/$device $way \\1 \\2 \\3/p"
done; done
section pins; find {HOST}/sys/fs/bpf -mindepth 1 -maxdepth 4 ! -name "*.debug" 2>/dev/null
section files
for folder in etc/cni/net.d opt/cni/bin var/lib/cni var/lib/cni/networks etc/sysctl.d; do
  ls -1dA {HOST}/$folder/* {HOST}/$folder/.[a-z]* 2>/dev/null
done
for name in run/flannel run/cilium run/calico run/antrea var/lib/cilium var/lib/calico var/lib/weave var/lib/kube-router \\
  var/lib/cni-kindnet; do
  ls -1d {HOST}/$name 2>/dev/null
done
section mounts; cut -d" " -f2 /proc/1/mounts
section xfrm; ip xfrm state count 2>/dev/null; ip xfrm policy count 2>/dev/null
section sysctls; grep -rs . {_SYSCTLS}
true
"""  # noqa: E501
VOLATILE = re.compile(
    r" (expires|cache|age|users|used) \S+| (linkdown|dead|offload|trap|rt_offload|rt_trap)\b|\s+$"
)
_PROXY = re.compile(
    r"\bKUBE-(?!ROUTER-|POD-FW-|NWPLCY-)[A-Z-]+"
)  # kube-proxy's and the kubelet's own, which change with each Service
_TABLES = "filter|nat|mangle|raw|security"  # of iptables' nft back end
_FRAMEWORK = re.compile(f"table (ip6?|inet|arp|bridge) ({_TABLES}|kube-proxy)")


def parse(text: str) -> dict[str, frozenset[str]]:
    """The script's output, by kind."""
    found: dict[str, set[str]] = {}
    for part in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        kind = name.strip()
        if kind == "mounts":
            continue  # those of Pods come and go
        found.setdefault(_KINDS.get(kind, kind), set()).update(_lines(kind, body))
    return {kind: frozenset(items) for kind, items in found.items()}


def empty_bases(ruleset: str) -> list[str]:
    """FAMILY TABLE CHAIN of the base chains of iptables' nft back end that accept everything and
    hold no rule.

    Takes what ``nft list ruleset`` printed: ``iptables-nft-save`` prints a table's base chains
    whether they are there or not.
    """
    found = []
    for family, table, body in re.findall(
        rf"^table (ip6?) ({_TABLES}) {{\n(.*?)^}}", ruleset, re.MULTILINE | re.DOTALL
    ):
        for chain, hook, rules in re.findall(
            r"^\tchain (\S+) {\n\t\t(type [^\n]*)\n(.*?)^\t}", body, re.MULTILINE | re.DOTALL
        ):
            if hook.endswith("policy accept;") and not rules.strip():
                found.append(f"{family} {table} {chain}")
    return found


_KINDS = {
    "links": "device",
    "routes": "route",
    "rules": "routing rule",
    "ipsets": "ipset",
    "nft": "nft",
    "ruleset": "empty base chain",
    "tc": "program at tc",
    "pins": "pinned eBPF object",
    "files": "file",
    "xfrm": "IPsec",
    "sysctls": "sysctl",
    **dict.fromkeys(BACKENDS, "iptables"),
}


def _lines(kind: str, body: str) -> Iterator[str]:
    if kind == "links":
        yield from (str(item["ifname"]) for item in json.loads(body.strip() or "[]"))
        return
    if kind == "ruleset":
        yield from empty_bases(body)
        return
    table = ""
    for line in map(str.rstrip, body.splitlines()):
        if not line:
            continue
        if kind in BACKENDS:
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith(":") and line.split()[1] == "-" and not _PROXY.search(line):
                yield f"{kind} {table}: chain {line[1:].split()[0]}"
            elif line.startswith("-A") and not _PROXY.search(line):
                yield f"{kind} {table}: {line}"
        elif kind in ("routes", "rules"):
            yield plain(line)
        elif kind == "nft":
            if not _FRAMEWORK.fullmatch(line):
                yield line
        elif kind == "sysctls":
            name, _, value = line.removeprefix("/proc/sys/").partition(":")
            yield f"{name.replace('/', '.')}={' '.join(value.split())}"
        elif kind == "xfrm":
            yield " ".join(line.split())
        elif kind == "tc":
            yield re.sub(r" handle \S+", "", line)
        else:
            yield line.removeprefix(HOST)


def plain(line: str) -> str:
    """A route or routing rule without what changes by itself."""
    return re.sub(r"\s+", " ", VOLATILE.sub("", line)).strip()


def addresses(link: Mapping[str, Any]) -> list[str]:
    """DEVICE ADDRESS/PREFIX of a link as ``ip -j address`` shows it, those aside that the kernel
    gives by itself.
    """
    return [
        f"{link['ifname']} {one['local']}/{one['prefixlen']}"
        for one in link.get("addr_info", ())
        if one.get("local") and one.get("scope") != "link"
    ]


def sysctls(node: KubernetesNode) -> dict[str, str]:
    """Those that CNIs set, by their path below /proc/sys."""
    found = {}
    for line in node.run(
        ["sh", "-c", f"grep -rs . {_SYSCTLS}; true"], timeout=QUICK
    ).stdout.splitlines():
        name, _, value = line.removeprefix("/proc/sys/").partition(":")
        found[name] = value
    return found
