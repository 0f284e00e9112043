"""What kube-proxy writes in ipvs mode beside its virtual servers: IP sets, and a fixed number of
iptables rules that match them.

Follows Kubernetes v1.34 pkg/proxy/ipvs (proxier.go: ipsetInfo, iptablesChains, iptablesJumpChain,
syncProxyRules, writeIptablesRules; ipset.go) for Services with a ClusterIP only: node ports, load
balancers and external addresses have their sets, which stay empty.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from cnibench.clusters.lab.rules.kubeproxy import forward, masquerade
from cnibench.clusters.lab.rules.ruleset import IpSet, Line, Part, Table, chain, end, head
from cnibench.clusters.lab.rules.services import Service

DEVICE = "kube-ipvs0"
SYSCTLS = {
    "net/ipv4/vs/conntrack": 1,
    "net/ipv4/vs/expire_nodest_conn": 1,
    "net/ipv4/vs/expire_quiescent_template": 1,
}
_LOOP_BACK, _CLUSTER_IP, _ADDRESSES = "KUBE-LOOP-BACK", "KUBE-CLUSTER-IP", "KUBE-IPVS-IPS"
_HEALTH_CHECK = "KUBE-HEALTH-CHECK-NODE-PORT"
_SETS = {
    _LOOP_BACK: "hash:ip,port,ip",
    _CLUSTER_IP: "hash:ip,port",
    "KUBE-EXTERNAL-IP": "hash:ip,port",
    "KUBE-EXTERNAL-IP-LOCAL": "hash:ip,port",
    "KUBE-LOAD-BALANCER": "hash:ip,port",
    "KUBE-LOAD-BALANCER-FW": "hash:ip,port",
    "KUBE-LOAD-BALANCER-LOCAL": "hash:ip,port",
    "KUBE-LOAD-BALANCER-SOURCE-IP": "hash:ip,port,ip",
    "KUBE-LOAD-BALANCER-SOURCE-CIDR": "hash:ip,port,net",
    "KUBE-NODE-PORT-TCP": "bitmap:port",
    "KUBE-NODE-PORT-LOCAL-TCP": "bitmap:port",
    "KUBE-NODE-PORT-UDP": "bitmap:port",
    "KUBE-NODE-PORT-LOCAL-UDP": "bitmap:port",
    "KUBE-NODE-PORT-SCTP-HASH": "hash:ip,port",
    "KUBE-NODE-PORT-LOCAL-SCTP-HASH": "hash:ip,port",
    _HEALTH_CHECK: "bitmap:port",
    _ADDRESSES: "hash:ip",
}
_LONGEST = 31  # characters of a set's name
_CHAINS: tuple[tuple[Table, tuple[str, ...]], ...] = (
    (
        "nat",
        (
            "KUBE-SERVICES",
            "KUBE-POSTROUTING",
            "KUBE-NODE-PORT",
            "KUBE-LOAD-BALANCER",
            "KUBE-MARK-MASQ",
        ),
    ),
    (
        "filter",
        (
            "KUBE-FORWARD",
            "KUBE-NODE-PORT",
            "KUBE-PROXY-FIREWALL",
            "KUBE-SOURCE-RANGES-FIREWALL",
            "KUBE-IPVS-FILTER",
            "KUBE-IPVS-OUT-FILTER",
        ),
    ),
)
# (table, kernel's chain, chain, comment); each is put at the head
_JUMPS: tuple[tuple[Table, str, str, str], ...] = (
    ("nat", "OUTPUT", "KUBE-SERVICES", "kubernetes service portals"),
    ("nat", "PREROUTING", "KUBE-SERVICES", "kubernetes service portals"),
    ("nat", "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules"),
    ("filter", "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"),
    ("filter", "INPUT", "KUBE-NODE-PORT", "kubernetes health check rules"),
    ("filter", "INPUT", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"),
    ("filter", "FORWARD", "KUBE-PROXY-FIREWALL", "kube-proxy firewall rules"),
    ("filter", "INPUT", "KUBE-IPVS-FILTER", "kubernetes ipvs access filter"),
    ("filter", "OUTPUT", "KUBE-IPVS-OUT-FILTER", "kubernetes ipvs access filter"),
)


def sets(family: int, services: Iterable[Service], subnet: str) -> tuple[IpSet, ...]:
    """All sets of one family on the node whose Pods have addresses of ``subnet``."""
    here = ipaddress.ip_network(subnet)
    members: dict[str, dict[str, None]] = {name: {} for name in _SETS}
    for service in services:
        members[_CLUSTER_IP][f"{service.address},{service.protocol}:{service.port}"] = None
        members[_ADDRESSES][service.address] = None
        for address, port in service.endpoints:
            if ipaddress.ip_address(address) in here:
                members[_LOOP_BACK][f"{address},{service.protocol}:{port},{address}"] = None
    return tuple(
        IpSet(
            _name(name, family),
            kind,
            family,
            tuple(members[name]),
            "range 0-65535" if kind.startswith("bitmap") else "hashsize 1024 maxelem 65536",
        )
        for name, kind in _SETS.items()
    )


def rules(family: int, cluster_cidr: str, hairpin: bool) -> Part:
    """All iptables rules of one family on one node, whatever the number of Services. ``hairpin``:
    has an endpoint on this node.
    """
    lines: list[Line] = [chain(table, name) for table, names in _CHAINS for name in names]
    lines += [
        head(table, kernel_chain, f'-m comment --comment "{comment}" -j {name}')
        for table, kernel_chain, name, comment in _JUMPS
    ]
    return (*lines, *_own_rules(family, cluster_cidr, hairpin))


def sync(family: int, cluster_cidr: str, hairpin: bool) -> str:
    """What kube-proxy gives to ``iptables-restore --noflush`` at each sync: its own chains."""
    lines = list(_own_rules(family, cluster_cidr, hairpin))
    out: list[str] = []
    for table, names in _CHAINS:
        out.append(f"*{table}")
        out += [f":{name} - [0:0]" for name in names]
        out += [f"-A {line.chain} {line.rule}" for line in lines if line.table == table]
        out.append("COMMIT")
    return "\n".join(out) + "\n"


def looked_up(family: int, program: str) -> Sequence[tuple[str, ...]]:
    """The programs that kube-proxy runs at the beginning of each sync to have its chains, jumps
    and sets, one for each of them; ``program`` is iptables or ip6tables.
    """
    found: list[tuple[str, ...]] = []
    for table, names in _CHAINS:
        found += [(program, "-w", "-N", name, "-t", table) for name in names]
    for table, kernel_chain, name, comment in _JUMPS:
        words = (program, "-w", "-C", kernel_chain, "-t", table)
        found.append((*words, "-m", "comment", "--comment", comment, "-j", name))
    for one in sets(family, (), "0.0.0.0/0" if family == 4 else "::/0"):
        found.append(("ipset", "create", one.name, *one.parameters(), "-exist"))
    return found


def _name(name: str, family: int) -> str:
    return name if family == 4 else name.replace("KUBE-", "KUBE-6-", 1)[:_LONGEST]


def _own_rules(family: int, cluster_cidr: str, hairpin: bool) -> Iterable[Line]:
    """In the order in which it writes them."""

    def match(name: str, directions: str) -> str:
        return f"-m set --match-set {_name(name, family)} {directions}"

    yield end("nat", "KUBE-SERVICES", f"-s {'127.0.0.0/8' if family == 4 else '::1/128'} -j RETURN")
    if hairpin:
        yield end(
            "nat",
            "KUBE-POSTROUTING",
            '-m comment --comment "Kubernetes endpoints dst ip:port, source ip for solving hairpin'
            f' purpose" {match(_LOOP_BACK, "dst,dst,src")} -j MASQUERADE',
        )
    yield end(
        "nat",
        "KUBE-SERVICES",
        '-m comment --comment "Kubernetes service cluster ip + port for masquerade purpose"'
        f" {match(_CLUSTER_IP, 'dst,dst')} ! -s {cluster_cidr} -j KUBE-MARK-MASQ",
    )
    yield end("nat", "KUBE-SERVICES", "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT")
    yield end("nat", "KUBE-LOAD-BALANCER", "-j KUBE-MARK-MASQ")
    yield end("filter", "KUBE-SOURCE-RANGES-FIREWALL", "-j DROP")
    yield end("nat", "KUBE-SERVICES", f"{match(_CLUSTER_IP, 'dst,dst')} -j ACCEPT")
    yield from forward()
    yield end(
        "filter",
        "KUBE-NODE-PORT",
        '-m comment --comment "Kubernetes health check node port"'
        f" {match(_HEALTH_CHECK, 'dst')} -j ACCEPT",
    )
    for name, directions in (
        ("KUBE-LOAD-BALANCER", "dst,dst"),
        (_CLUSTER_IP, "dst,dst"),
        ("KUBE-EXTERNAL-IP", "dst,dst"),
        ("KUBE-EXTERNAL-IP-LOCAL", "dst,dst"),
        (_HEALTH_CHECK, "dst"),
    ):
        yield end("filter", "KUBE-IPVS-FILTER", f"{match(name, directions)} -j RETURN")
    yield end(
        "filter",
        "KUBE-IPVS-FILTER",
        f"-m conntrack --ctstate NEW {match(_ADDRESSES, 'dst')} -j REJECT",
    )
    yield from masquerade()
