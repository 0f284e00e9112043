"""Services as every implementation of them gets them: one port each, with its endpoints."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

CLUSTER_CIDRS = {4: "10.244.0.0/16", 6: "fd00:10:244::/56"}
SERVICE_CIDRS = {4: "10.96.0.0/12", 6: "fd00:10:96::/112"}
NAMESPACE = "cnibench"
_PORT, _TARGET = 80, 8080
# Addresses that no Pod and no Service of ours has: Services from 10.100.0.0 on; endpoints in the
# half of the Pod network that belongs to no node.
_SERVICES = {4: "10.100.0.0", 6: "fd00:10:96::8000"}
_ENDPOINTS = {4: ("10.244.128.0", 1 << 15), 6: ("fd00:10:244:80::", 1 << 15)}


Protocol = Literal["tcp", "udp"]


@dataclass(frozen=True)
class Service:
    """One port of a Service. ``endpoints`` are (address, port) pairs of the same family as
    ``address``.
    """

    name: str  # namespace/name:port name, without the colon where the port has no name
    protocol: Protocol
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


def many(family: int, count: int, endpoints: int) -> tuple[Service, ...]:
    """``count`` Services with a port each before ``endpoints`` that no Pod is."""
    first = ipaddress.ip_address(_SERVICES[family])
    base, size = _ENDPOINTS[family]
    target = ipaddress.ip_address(base)
    return tuple(
        Service(
            f"{NAMESPACE}/service-{number:05d}",
            "tcp",
            str(first + number),
            _PORT,
            tuple(
                (str(target + each % size), _TARGET + each // size)
                for each in range(number * endpoints, (number + 1) * endpoints)
            ),
        )
        for number in range(count)
    )
