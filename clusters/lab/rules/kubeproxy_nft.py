"""What kube-proxy writes in nftables mode, as text for ``nft -f``.

Follows Kubernetes v1.34 pkg/proxy/nftables/proxier.go (nftablesBaseChains, nftablesJumpChains,
setupNFTables, syncProxyRules, hashAndTruncate). It has a table of its own; a Service is an element
of the verdict map ``service-ips`` that leads to the Service's chain, which draws an endpoint's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cnibench.clusters.lab.rules.kubeproxy import MASQUERADE_MARK
from cnibench.clusters.lab.rules.ruleset import base32_hash
from cnibench.clusters.lab.rules.services import Service

TABLE = "kube-proxy"
_FAMILY = {4: "ip", 6: "ip6"}
_LONGEST = 240  # characters of a chain's name after its prefix (chainNameBaseLengthMax)
# (chain, type, hook, priority)
_BASE = (
    ("filter-prerouting-pre-dnat", "filter", "prerouting", "-110"),
    ("filter-output-pre-dnat", "filter", "output", "-110"),
    ("filter-input", "filter", "input", "0"),
    ("filter-forward", "filter", "forward", "0"),
    ("filter-output", "filter", "output", "0"),
    ("nat-prerouting", "nat", "prerouting", "-100"),
    ("nat-output", "nat", "output", "-100"),
    ("nat-postrouting", "nat", "postrouting", "100"),
)
# (chain, the base chain that leads to it, match)
_JUMPS = (
    ("nodeport-endpoints-check", "filter-input", "ct state new"),
    ("service-endpoints-check", "filter-input", "ct state new"),
    ("service-endpoints-check", "filter-forward", "ct state new"),
    ("service-endpoints-check", "filter-output", "ct state new"),
    ("firewall-check", "filter-prerouting-pre-dnat", "ct state new"),
    ("firewall-check", "filter-output-pre-dnat", "ct state new"),
    ("services", "nat-output", ""),
    ("services", "nat-prerouting", ""),
    ("masquerading", "nat-postrouting", ""),
    ("cluster-ips-check", "filter-forward", "ct state new"),
    ("cluster-ips-check", "filter-output", "ct state new"),
)


def setup(
    family: int, cluster_cidr: str, service_cidr: str, node: str, services: Sequence[Service]
) -> str:
    """The whole table, in place of what was there. ``node`` has the address of node ports."""
    ip, head = _FAMILY[family], f"{_FAMILY[family]} {TABLE}"
    kind = "ipv4_addr" if family == 4 else "ipv6_addr"
    to_service = f"{kind} . inet_proto . inet_service : verdict"
    to_node_port = "inet_proto . inet_service : verdict"
    out = [
        f"table {head}",
        f"delete table {head}",
        f'add table {head} {{ comment "rules for kube-proxy" ; }}',
    ]
    for name, what, hook, priority in _BASE:
        out.append(f"add chain {head} {name} {{ type {what} hook {hook} priority {priority} ; }}")
    plain = dict.fromkeys((*(name for name, _, _ in _JUMPS), "mark-for-masquerade"))
    out += [f"add chain {head} {name}" for name in plain]
    out.append(
        f'add chain {head} reject-chain {{ comment "helper for @no-endpoint-services /'
        ' @no-endpoint-nodeports" ; }'
    )
    for name, what, said in (
        ("cluster-ips", kind, "Active ClusterIPs"),
        ("nodeport-ips", kind, "IPs that accept NodePort traffic"),
    ):
        out.append(f'add set {head} {name} {{ type {what} ; comment "{said}" ; }}')
    for name, what, said in (
        (
            "no-endpoint-services",
            to_service,
            "vmap to drop or reject packets to services with no endpoints",
        ),
        (
            "no-endpoint-nodeports",
            to_node_port,
            "vmap to drop or reject packets to service nodeports with no endpoints",
        ),
        ("firewall-ips", to_service, "destinations that are subject to LoadBalancerSourceRanges"),
        ("service-ips", to_service, "ClusterIP, ExternalIP and LoadBalancer IP traffic"),
        ("service-nodeports", to_node_port, "NodePort traffic"),
    ):
        out.append(f'add map {head} {name} {{ type {what} ; comment "{said}" ; }}')
    out += [
        f"add rule {head} {base} {f'{match} ' if match else ''}jump {name}"
        for name, base, match in _JUMPS
    ]
    target = f"{ip} daddr . meta l4proto . th dport vmap"
    node_port = f"{ip} daddr @nodeport-ips meta l4proto . th dport vmap"
    for name, rule in (
        ("mark-for-masquerade", f"mark set mark or {MASQUERADE_MARK}"),
        ("masquerading", f"mark and {MASQUERADE_MARK} == 0 return"),
        ("masquerading", f"mark set mark xor {MASQUERADE_MARK}"),
        ("masquerading", "masquerade fully-random"),
        (
            "cluster-ips-check",
            f'{ip} daddr @cluster-ips reject comment "Reject traffic to invalid ports of'
            ' ClusterIPs"',
        ),
        (
            "cluster-ips-check",
            f'{ip} daddr {{ {service_cidr} }} drop comment "Drop traffic to unallocated'
            ' ClusterIPs"',
        ),
        ("reject-chain", "reject"),
        ("service-endpoints-check", f"{target} @no-endpoint-services"),
        ("nodeport-endpoints-check", f"{node_port} @no-endpoint-nodeports"),
        ("firewall-check", f"{target} @firewall-ips"),
        ("services", f"{target} @service-ips"),
        ("services", f"{node_port} @service-nodeports"),
    ):
        out.append(f"add rule {head} {name} {rule}")
    out.append(f"add element {head} nodeport-ips {{ {node} }}")
    return "\n".join(out) + "\n" + added(family, cluster_cidr, services)


def added(family: int, cluster_cidr: str, services: Iterable[Service]) -> str:
    """One transaction's part for Services that are new or have other endpoints: their chains, made
    and emptied, their rules, and the elements that lead to them.
    """
    ip, head = _FAMILY[family], f"{_FAMILY[family]} {TABLE}"
    out: list[str] = []
    for service in services:
        chain = chain_of(service)
        targets = [_endpoint_chain(service, *each) for each in service.endpoints]
        for name in (*targets, chain):
            out += [f"add chain {head} {name}", f"flush chain {head} {name}"]
        out += [
            f"add element {head} cluster-ips {{ {service.address} }}",
            f"add element {head} service-ips {{ {service.address} . {service.protocol} ."
            f" {service.port} : goto {chain} }}",
            f"add rule {head} {chain} {ip} daddr {service.address} {ip} saddr != {cluster_cidr}"
            " jump mark-for-masquerade",
        ]
        drawn = ", ".join(f"{number} : goto {name}" for number, name in enumerate(targets))
        out.append(f"add rule {head} {chain} numgen random mod {len(targets)} vmap {{ {drawn} }}")
        for name, (address, port) in zip(targets, service.endpoints, strict=True):
            target = f"[{address}]:{port}" if family == 6 else f"{address}:{port}"
            out += [
                f"add rule {head} {name} {ip} saddr {address} jump mark-for-masquerade",
                f"add rule {head} {name} meta l4proto {service.protocol} dnat to {target}",
            ]
    return "\n".join(out) + "\n" if out else ""


def removed(family: int, services: Iterable[Service], kept: Iterable[Service] = ()) -> str:
    """One transaction's part for Services that are gone: their elements, and their chains emptied.

    kube-proxy deletes the chains a second later, in a transaction of its own (``dropped``).
    """
    head = f"{_FAMILY[family]} {TABLE}"
    addresses = {service.address for service in kept}
    out: list[str] = []
    for service in services:
        out += [f"flush chain {head} {name}" for name in chains_of(service)]
        out.append(
            f"delete element {head} service-ips {{ {service.address} . {service.protocol} ."
            f" {service.port} }}"
        )
        if service.address not in addresses:
            addresses.add(service.address)
            out.append(f"delete element {head} cluster-ips {{ {service.address} }}")
    return "\n".join(out) + "\n" if out else ""


def dropped(family: int, chains: Iterable[str]) -> str:
    """Deletes chains that nothing leads to any more."""
    head = f"{_FAMILY[family]} {TABLE}"
    return "".join(f"delete chain {head} {name}\n" for name in chains)


def chain_of(service: Service) -> str:
    """The chain that draws an endpoint of this Service."""
    return "service-" + _hashed(_path(service))


def chains_of(service: Service) -> tuple[str, ...]:
    """The chains that are this Service's alone, its own before those of its endpoints."""
    return (chain_of(service), *(_endpoint_chain(service, *each) for each in service.endpoints))


def _endpoint_chain(service: Service, address: str, port: int) -> str:
    return "endpoint-" + _hashed(f"{_path(service)}__{address.replace(':', '.')}/{port}")


def _path(service: Service) -> str:
    name, _, port = service.name.partition(":")
    return f"{name}/{service.protocol}/{port}"


def _hashed(name: str) -> str:
    whole = f"{base32_hash(name, 8)}-{name}"
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 3]}..."
