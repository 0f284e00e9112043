"""Which Services a node's kernel leads to their endpoints, read from what kube-proxy, or a CNI in
its place, has written there.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Collection, Mapping, Sequence

from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.nodes.conversation import NodeConversation
from cnibench.clusters.kubernetes.nodes.places import ADMIT, UNSEEN, KubernetesNode
from cnibench.errors import LimitError, UnsupportedError
from cnibench.listing import virtual_servers
from cnibench.system import carried
from cnibench.system.guest import patience

_LOOK = 60.0  # s: the rules of 10,000 Services are tens of megabytes
_PAUSE = 0.2  # s between two looks, at least
# Rules of Services without endpoints name them as well: in another table, or in another map. From
# 1000 endpoints on, kube-proxy leaves the chains of Services that are gone for a while
# (pkg/proxy/iptables, largeClusterMode); the rules that lead to these chains go at once.
_SCRIPTS = {
    "iptables": """
for tool in iptables-nft ip6tables-nft iptables-legacy ip6tables-legacy; do
  $tool-save 2>/dev/null | sed -n '/^\\*nat/,/^COMMIT/p' | grep '^-A KUBE-SERVICES '
done |
  grep -o "\\"$1/[a-z0-9.-]*" | sort -u""",
    "nftables": """
for family in ip ip6; do nft list table $family kube-proxy 2>/dev/null; done |
  grep -o "goto service-[A-Z0-9]*-$1/[a-z0-9.-]*" | sed 's/^goto service-[A-Z0-9]*-//' | sort -u""",
    "ebpf": f"""
for map in {HOST}/sys/fs/bpf/tc/globals/cilium_lb[46]_services*; do
  test -e "$map" && bpftool -j map dump pinned "$map" && echo
done; true""",
}


def require_readable(node: KubernetesNode, proxy: str) -> None:
    """Raises UnsupportedError where nobody can see which Services the node knows."""
    if not node.host:
        raise UnsupportedError(
            f"node {node.name}: the rules of Services cannot be read, for {UNSEEN}", ADMIT
        )
    if proxy not in (*_SCRIPTS, "ipvs"):
        raise UnsupportedError(
            "the rules of Services cannot be read: what implements them is not known here"
        )


def known(
    node: KubernetesNode, proxy: str, namespace: str, addresses: Mapping[str, str]
) -> set[str]:
    """The names among ``addresses`` (name to the Service's address) that the node knows with an
    endpoint; with ipvs and eBPF those without one, too. Raises ClusterError.
    """
    if proxy == "ipvs":
        there: Collection[str] = _of_ipvs(node)
    else:
        argv = ["sh", "-c", _SCRIPTS[proxy], "sh", namespace]
        said = node.run(argv, timeout=_LOOK, check=False).stdout
        if proxy != "ebpf":
            return {line.rpartition("/")[2] for line in said.splitlines()} & addresses.keys()
        there = of_cilium(said)
    return {name for name, address in addresses.items() if address in there}


def wait_known(
    nodes: Sequence[KubernetesNode],
    proxy: str,
    namespace: str,
    addresses: Mapping[str, str],
    limit: float,
    *,
    gone: bool = False,
) -> None:
    """Until all nodes know all of them, or none. Raises LimitError after ``limit`` s,
    ClusterError.
    """
    end = time.monotonic() + limit * patience()
    for node in nodes:
        while True:
            began = time.monotonic()
            found = known(node, proxy, namespace, addresses)
            if not found if gone else len(found) == len(addresses):
                break
            if time.monotonic() > end:
                which = "deleted Services still" if gone else "Services"
                raise LimitError(
                    f"node {node.name}: {len(found)} of {len(addresses)} {which} have rules"
                    f" ({proxy}) after {limit:.0f} s",
                    "does kube-proxy, or what takes its place, run on that node?",
                )
            # A look at many rules takes the CPU time that writing them needs.
            time.sleep(max(_PAUSE, time.monotonic() - began))


def _of_ipvs(node: KubernetesNode) -> set[str]:
    """The addresses of the node's virtual servers. Raises ClusterError."""
    archive = carried.archive(virtual_servers.MODULES)
    conversation = NodeConversation(node, "cnibench.listing.virtual_servers", archive)
    try:
        return set(conversation.ask({}, _LOOK)["addresses"])
    finally:
        conversation.close()


def of_cilium(text: str) -> Collection[str]:
    """The addresses in Cilium's service maps as bpftool prints them, one map a line; a key begins
    with the address (bpf/lib/common.h, lb4_key and lb6_key).
    """
    found = set()
    for line in text.splitlines():
        for entry in json.loads(line or "[]"):
            key = bytes(int(byte, 16) for byte in entry["key"])
            found.add(str(ipaddress.ip_address(key[:4] if len(key) < 16 else key[:16])))
    return found
