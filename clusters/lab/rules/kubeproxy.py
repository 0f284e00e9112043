"""The rules of kube-proxy in iptables mode and of the kubelet, in the order in which they write
them.

Follows Kubernetes v1.34 pkg/proxy/iptables/proxier.go (iptablesJumpChains, syncProxyRules,
writeServiceToEndpointRules) and pkg/kubelet/kubelet_network_linux.go (syncIPTablesRules). Each jump
is put at the head of its chain, the kubelet's before kube-proxy starts, kube-proxy's in the order
of the list: so the last of the list is met first, and the kubelet's last. The nfacct counter of the
INVALID rule, written only where the kernel has nfacct objects, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cnibench.clusters.lab.rules.ruleset import Line, Part, Table, base32_hash, chain, end, head

MASQUERADE_MARK = "0x4000"  # masqueradeBit 14, also trafficmngr.KubeProxyMark of flannel
_NEW = "-m conntrack --ctstate NEW "

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


@dataclass(frozen=True)
class Service:
    """One port of a Service. ``endpoints`` are (address, port) pairs of the same family as
    ``address``.
    """

    name: str  # namespace/name:port name
    protocol: Literal["tcp", "udp"]
    address: str
    port: int
    endpoints: tuple[tuple[str, int], ...]
    node_port: int = 0


def default_services(family: int, api_server: str, dns: Iterable[str]) -> tuple[Service, ...]:
    """What every cluster made by kubeadm has: the API server's Service and the three ports of
    CoreDNS, in name order.

    ``api_server`` is the first node's address, ``dns`` the addresses of the CoreDNS Pods; the
    Service addresses are kubeadm's (10.96.0.0/12) or their IPv6 counterpart.
    """
    base = "10.96.0." if family == 4 else "fd00:10:96::"
    dns = tuple(dns)
    kube, resolver = f"{base}1", f"{base}10" if family == 4 else f"{base}a"
    return (
        Service("default/kubernetes:https", "tcp", kube, 443, ((api_server, 6443),)),
        Service("kube-system/kube-dns:dns", "udp", resolver, 53, tuple((ip, 53) for ip in dns)),
        Service("kube-system/kube-dns:dns-tcp", "tcp", resolver, 53, tuple((ip, 53) for ip in dns)),
        Service(
            "kube-system/kube-dns:metrics", "tcp", resolver, 9153, tuple((ip, 9153) for ip in dns)
        ),
    )


def rules(family: int, cluster_cidr: str, services: Iterable[Service]) -> Part:
    """All that kube-proxy and the kubelet write on one node for one family."""
    services = tuple(services)
    lines: list[Line] = []
    if family == 4:
        lines += [
            head("filter", kernel_chain, "-j KUBE-FIREWALL") for kernel_chain in ("INPUT", "OUTPUT")
        ]
        lines.append(
            end(
                "filter",
                "KUBE-FIREWALL",
                '-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m comment --comment "block incoming localnet'
                ' connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
            )
        )
    for table, name, kernel_chain, comment, only_new in _JUMPS:
        lines += [
            chain(table, name),
            head(
                table,
                kernel_chain,
                f'{_NEW if only_new else ""}-m comment --comment "{comment}" -j {name}',
            ),
        ]
    lines.append(chain("mangle", "KUBE-IPTABLES-HINT"))
    lines += [chain("nat", "KUBE-NODEPORTS"), chain("nat", "KUBE-MARK-MASQ")]
    lines += _masquerade()
    for service in services:
        lines += _service(family, cluster_cidr, service)
    loopback = " ! -d ::1/128" if family == 6 else ""
    lines.append(
        end(
            "nat",
            "KUBE-SERVICES",
            '-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule'
            f' in this chain" -m addrtype --dst-type LOCAL{loopback} -j KUBE-NODEPORTS',
        )
    )
    return (*lines, *_forward())


def _masquerade() -> Iterable[Line]:
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


def _forward() -> Iterable[Line]:
    mark = f"{MASQUERADE_MARK}/{MASQUERADE_MARK}"
    yield end("filter", "KUBE-FORWARD", "-m conntrack --ctstate INVALID -j DROP")
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


def _service(family: int, cluster_cidr: str, service: Service) -> Iterable[Line]:
    """KUBE-SVC-, KUBE-EXT- and KUBE-SEP- chains; the endpoint is drawn by the statistic match, as
    upstream does.
    """
    hashed = base32_hash(service.name + service.protocol)
    svc, ext = f"KUBE-SVC-{hashed}", f"KUBE-EXT-{hashed}"
    proto = f"-m {service.protocol} -p {service.protocol}"
    host = f"{service.address}/{32 if family == 4 else 128}"
    to_address = (
        f'-m comment --comment "{service.name} cluster IP" {proto} -d {host} --dport {service.port}'
    )
    yield end("nat", "KUBE-SERVICES", f"{to_address} -j {svc}")
    if service.node_port:
        yield end(
            "nat",
            "KUBE-NODEPORTS",
            f'-m comment --comment "{service.name}" {proto} --dport {service.node_port} -j {ext}',
        )
    yield end("nat", svc, f"{to_address} ! -s {cluster_cidr} -j KUBE-MARK-MASQ")
    if service.node_port:
        yield end(
            "nat",
            ext,
            f'-m comment --comment "masquerade traffic for {service.name} external destinations" -j'
            " KUBE-MARK-MASQ",
        )
        yield end("nat", ext, f"-j {svc}")
    for number, (address, port) in enumerate(service.endpoints):
        target = f"{address}:{port}" if family == 4 else f"[{address}]:{port}"
        sep = "KUBE-SEP-" + base32_hash(service.name + service.protocol + target)
        left = len(service.endpoints) - number
        draw = f" -m statistic --mode random --probability {1 / left:.10f}" if left > 1 else ""
        yield end("nat", svc, f'-m comment --comment "{service.name} -> {target}"{draw} -j {sep}')
        yield end(
            "nat", sep, f'-m comment --comment "{service.name}" -s {address} -j KUBE-MARK-MASQ'
        )
        yield end(
            "nat",
            sep,
            f'-m comment --comment "{service.name}" {proto} -j DNAT --to-destination {target}',
        )
