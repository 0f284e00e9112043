"""What Felix on one node knows, the IP sets that it writes, and the names that it gives."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from cnibench.clusters.lab.rules.ruleset import IpSet, Pod

VXLAN_PORT = 4789
# The selector of a policy in the namespace cnibench for Pods with the label cnibench=bench, as
# libcalico-go writes it (lib/selector, getEndpointSelector).
_PEERS = (
    '(projectcalico.org/namespace == "cnibench" && '
    '(projectcalico.org/orchestrator == "k8s" && cnibench == "bench"))'
)


@dataclass(frozen=True)
class Policy:
    """A Kubernetes NetworkPolicy over the benchmark's Pods: peers are those Pods, ``ports`` as
    multiport takes them.
    """

    name: str
    ports: tuple[str, ...]
    protocols: tuple[str, ...] = ("tcp", "udp")


@dataclass(frozen=True)
class Node:
    """What Felix on one node knows. ``encapsulation`` is none, vxlan or ipip; ``selected`` names
    the Pods that ``policy`` selects.
    """

    family: int
    encapsulation: str
    hosts: tuple[str, ...]
    pool: str
    this_host: tuple[str, ...]
    pods: tuple[Pod, ...] = ()
    policy: Policy | None = None
    selected: frozenset[str] = frozenset()
    peers: tuple[str, ...] = ()

    def tunnels(self, kind: str) -> bool:
        return self.encapsulation == kind and (kind == "vxlan" or self.family == 4)


def set_name(family: int, identity: str) -> str:
    """``cali40...`` or ``cali60...``, at most 31 characters (felix/ipsets NameForMainIPSet)."""
    return f"cali{family}0{identity}"[:31]


def peers_set(family: int) -> str:
    """The set that stands for the policy's pod selector; Felix names it by a hash of the
    selector (libcalico-go/lib/hash MakeUniqueID).
    """
    digest = hashlib.sha224(f"s:{_PEERS}".encode()).digest()
    return set_name(family, "s:" + base64.urlsafe_b64encode(digest).decode())


def ipsets(node: Node) -> tuple[IpSet, ...]:
    """All sets that the rules of ``rules`` name."""

    def net(identity: str, members: Iterable[str]) -> IpSet:
        return IpSet(
            set_name(node.family, identity),
            "hash:net",
            node.family,
            tuple(members),
            "maxelem 1048576",
        )

    sets = [
        net("network-ip-pools", [node.pool]),
        net("masq-ipam-pools", [node.pool]),
        net("dscp-src-net", []),
        IpSet(
            set_name(node.family, "this-host"),
            "hash:ip",
            node.family,
            node.this_host,
            "maxelem 1048576",
        ),
    ]
    if node.tunnels("ipip"):
        sets.append(net("all-hosts-net", node.hosts))
    if node.tunnels("vxlan"):
        sets.append(
            net("all-vxlan-net", [host for host in node.hosts if host not in node.this_host])
        )
    if node.policy:
        sets.append(
            IpSet(peers_set(node.family), "hash:net", node.family, node.peers, "maxelem 1048576")
        )
    return tuple(sets)


def interface_name(namespace: str, pod: str) -> str:
    """``cali`` and eleven letters of SHA-1 of ``namespace.pod`` (libcalico-go
    VethNameForWorkload).
    """
    return "cali" + hashlib.sha1(f"{namespace}.{pod}".encode()).hexdigest()[:11]
