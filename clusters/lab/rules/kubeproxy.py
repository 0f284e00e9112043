"""The rules of kube-proxy in iptables mode and of the kubelet, in the order in which they write
them.

Follows Kubernetes v1.34 pkg/proxy/iptables/proxier.go (iptablesJumpChains, syncProxyRules,
writeServiceToEndpointRules) and pkg/kubelet/kubelet_network_linux.go (syncIPTablesRules). Each jump
is put at the head of its chain, the kubelet's before kube-proxy starts, kube-proxy's in the order
of the list: so the last of the list is met first, and the kubelet's last. The nfacct counter of the
INVALID rule, written only where the kernel has nfacct objects, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cnibench.clusters.lab.rules.ruleset import Line, Part, Table, base32_hash, chain, end, head
from cnibench.clusters.lab.rules.services import Service

MASQUERADE_MARK = "0x4000"  # masqueradeBit 14, also trafficmngr.KubeProxyMark of flannel
_NEW = "-m conntrack --ctstate NEW "
_LARGE = (
    1000  # endpoints from which on it writes no comments for them (largeClusterEndpointsThreshold)
)
# The chains that it writes whole at each sync, whatever has changed.
_OWN: tuple[tuple[Table, tuple[str, ...]], ...] = (
    (
        "filter",
        (
            "KUBE-SERVICES",
            "KUBE-EXTERNAL-SERVICES",
            "KUBE-FORWARD",
            "KUBE-NODEPORTS",
            "KUBE-PROXY-FIREWALL",
        ),
    ),
    ("nat", ("KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ")),
)

# (table, chain, kernel's chain, comment, only new connections)
_JUMPS: tuple[tuple[Table, str, str, str, bool], ...] = (
    (
        "filter",
        "KUBE-EXTERNAL-SERVICES",
        "INPUT",
        "kubernetes externally-visible service portals",
        True,
    ),
    (
        "filter",
        "KUBE-EXTERNAL-SERVICES",
        "FORWARD",
        "kubernetes externally-visible service portals",
        True,
    ),
    ("filter", "KUBE-NODEPORTS", "INPUT", "kubernetes health check service ports", False),
    ("filter", "KUBE-SERVICES", "FORWARD", "kubernetes service portals", True),
    ("filter", "KUBE-SERVICES", "OUTPUT", "kubernetes service portals", True),
    ("filter", "KUBE-FORWARD", "FORWARD", "kubernetes forwarding rules", False),
    ("filter", "KUBE-PROXY-FIREWALL", "INPUT", "kubernetes load balancer firewall", True),
    ("filter", "KUBE-PROXY-FIREWALL", "OUTPUT", "kubernetes load balancer firewall", True),
    ("filter", "KUBE-PROXY-FIREWALL", "FORWARD", "kubernetes load balancer firewall", True),
    ("nat", "KUBE-SERVICES", "OUTPUT", "kubernetes service portals", False),
    ("nat", "KUBE-SERVICES", "PREROUTING", "kubernetes service portals", False),
    ("nat", "KUBE-POSTROUTING", "POSTROUTING", "kubernetes postrouting rules", False),
)


def kubelet(family: int) -> Part:
    """What the kubelet writes on every node, whatever implements the Services."""
    lines: list[Line] = [chain("mangle", "KUBE-IPTABLES-HINT")]
    if family == 4:
        lines += [head("filter", name, "-j KUBE-FIREWALL") for name in ("INPUT", "OUTPUT")]
        lines.append(
            end(
                "filter",
                "KUBE-FIREWALL",
                '-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m comment --comment "block incoming localnet'
                ' connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
            )
        )
    return tuple(lines)


def rules(family: int, cluster_cidr: str, services: Sequence[Service]) -> Part:
    """All that kube-proxy writes on one node for one family."""
    lines: list[Line] = []
    for table, name, kernel_chain, comment, only_new in _JUMPS:
        lines += [
            chain(table, name),
            head(
                table,
                kernel_chain,
                f'{_NEW if only_new else ""}-m comment --comment "{comment}" -j {name}',
            ),
        ]
    return (*lines, *_own_chains(family, cluster_cidr, services, services))


def sync(
    family: int,
    cluster_cidr: str,
    services: Sequence[Service],
    changed: Sequence[Service],
    gone: Iterable[str] = (),
) -> str:
    """What kube-proxy gives to ``iptables-restore --noflush``: its own chains with the rules that
    lead to all ``services``, the chains of those that have ``changed``, and the chains that are
    ``gone``.
    """
    lines = _own_chains(family, cluster_cidr, services, changed)
    out: list[str] = []
    for table, names in _OWN:
        here = [line for line in lines if line.table == table]
        chains = dict.fromkeys((*names, *(line.chain for line in here)))
        stale = list(gone) if table == "nat" else []
        out.append(f"*{table}")
        out += [f":{name} - [0:0]" for name in (*chains, *stale)]
        out += [f"-A {line.chain} {line.rule}" for line in here if line.where == "end"]
        out += [f"-X {name}" for name in stale]
        out.append("COMMIT")
    return "\n".join(out) + "\n"


def chains_of(service: Service) -> tuple[str, ...]:
    """The chains that are this Service's alone, those of its endpoints included."""
    hashed = base32_hash(service.name + service.protocol)
    own = (f"KUBE-SVC-{hashed}", *((f"KUBE-EXT-{hashed}",) if service.node_port else ()))
    return (*own, *(_endpoint_chain(service, *each) for each in service.endpoints))


def rules_of(service: Service) -> int:
    """Rules that are there for one Service, those that lead to it included."""
    external = 3 if service.node_port else 0
    return 2 + external + 3 * len(service.endpoints)


def _own_chains(
    family: int, cluster_cidr: str, services: Sequence[Service], changed: Sequence[Service]
) -> Part:
    large = sum(len(service.endpoints) for service in services) > _LARGE
    lines: list[Line] = [chain("nat", "KUBE-NODEPORTS"), chain("nat", "KUBE-MARK-MASQ")]
    lines += masquerade()
    for service in services:
        lines += _dispatch(family, service)
    for service in changed:
        lines += _service(family, cluster_cidr, service, large)
    loopback = " ! -d ::1/128" if family == 6 else ""
    lines.append(
        end(
            "nat",
            "KUBE-SERVICES",
            '-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule'
            f' in this chain" -m addrtype --dst-type LOCAL{loopback} -j KUBE-NODEPORTS',
        )
    )
    lines.append(end("filter", "KUBE-FORWARD", "-m conntrack --ctstate INVALID -j DROP"))
    return (*lines, *forward())


def masquerade() -> Iterable[Line]:
    """KUBE-POSTROUTING and KUBE-MARK-MASQ, in every mode that uses iptables."""
    mark = f"{MASQUERADE_MARK}/{MASQUERADE_MARK}"
    yield end("nat", "KUBE-POSTROUTING", f"-m mark ! --mark {mark} -j RETURN")
    yield end("nat", "KUBE-POSTROUTING", f"-j MARK --xor-mark {MASQUERADE_MARK}")
    yield end(
        "nat",
        "KUBE-POSTROUTING",
        '-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE'
        " --random-fully",
    )
    yield end("nat", "KUBE-MARK-MASQ", f"-j MARK --or-mark {MASQUERADE_MARK}")


def forward() -> Iterable[Line]:
    """KUBE-FORWARD, in every mode that uses iptables."""
    mark = f"{MASQUERADE_MARK}/{MASQUERADE_MARK}"
    yield end(
        "filter",
        "KUBE-FORWARD",
        f'-m comment --comment "kubernetes forwarding rules" -m mark --mark {mark} -j ACCEPT',
    )
    yield end(
        "filter",
        "KUBE-FORWARD",
        '-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate'
        " RELATED,ESTABLISHED -j ACCEPT",
    )


def _names(service: Service) -> tuple[str, str, str]:
    """The chains of a Service and of what reaches it from outside; what its packets match."""
    hashed = base32_hash(service.name + service.protocol)
    return (
        f"KUBE-SVC-{hashed}",
        f"KUBE-EXT-{hashed}",
        f"-m {service.protocol} -p {service.protocol}",
    )


def _to_address(family: int, service: Service) -> str:
    host = f"{service.address}/{32 if family == 4 else 128}"
    protocol = f"-m {service.protocol} -p {service.protocol}"
    return (
        f'-m comment --comment "{service.name} cluster IP" {protocol} -d {host}'
        f" --dport {service.port}"
    )


def _endpoint_chain(service: Service, address: str, port: int) -> str:
    return "KUBE-SEP-" + base32_hash(service.name + service.protocol + _target(address, port))


def _target(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _dispatch(family: int, service: Service) -> Iterable[Line]:
    """The rules that lead to a Service."""
    svc, ext, proto = _names(service)
    yield end("nat", "KUBE-SERVICES", f"{_to_address(family, service)} -j {svc}")
    if service.node_port:
        yield end(
            "nat",
            "KUBE-NODEPORTS",
            f'-m comment --comment "{service.name}" {proto} --dport {service.node_port} -j {ext}',
        )


def _service(family: int, cluster_cidr: str, service: Service, large: bool) -> Iterable[Line]:
    """KUBE-SVC-, KUBE-EXT- and KUBE-SEP- chains; the endpoint is drawn by the statistic match, as
    upstream does. A ``large`` cluster's endpoints have no comments.
    """
    svc, ext, proto = _names(service)
    to_address = _to_address(family, service)
    yield end("nat", svc, f"{to_address} ! -s {cluster_cidr} -j KUBE-MARK-MASQ")
    if service.node_port:
        yield end(
            "nat",
            ext,
            f'-m comment --comment "masquerade traffic for {service.name} external destinations" -j'
            " KUBE-MARK-MASQ",
        )
        yield end("nat", ext, f"-j {svc}")
    own = "" if large else f'-m comment --comment "{service.name}" '
    for number, (address, port) in enumerate(service.endpoints):
        target = _target(address, port)
        sep = _endpoint_chain(service, address, port)
        left = len(service.endpoints) - number
        draw = f"-m statistic --mode random --probability {1 / left:.10f} " if left > 1 else ""
        said = "" if large else f'-m comment --comment "{service.name} -> {target}" '
        yield end("nat", svc, f"{said}{draw}-j {sep}")
        yield end("nat", sep, f"{own}-s {address} -j KUBE-MARK-MASQ")
        yield end("nat", sep, f"{own}{proto} -j DNAT --to-destination {target}")
