"""What an installation must know of a cluster that somebody else made: its address ranges and where
its API server answers.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

import yaml

from cnibench.clusters.kubernetes.api.access import Access, DeniedError, UnreachableError
from cnibench.clusters.kubernetes.nodes.nodes import Facts
from cnibench.errors import ClusterError, CnibenchError
from cnibench.testbed.cluster_options import ClusterOptions


def variables(access: Access, nodes: Sequence[Facts], options: ClusterOptions) -> dict[str, str]:
    """As far as the cluster tells; '' for what it does not. Raises DeniedError where this user may
    not ask, UnreachableError.
    """
    pods, services = _of_kubeadm(access)
    if not pods or not services:
        arguments = _arguments(access)
        pods, services = (
            pods or arguments.get("cluster-cidr", ""),
            services or arguments.get("service-cluster-ip-range", ""),
        )
    host, port = _endpoint(access)
    family = ipaddress.ip_address(host).version if host else 4
    return {
        "pod_cidr": _first(pods, family),
        "pod_cidr_ipv6": _first(pods, 6),
        "service_cidr": _first(services, family),
        "api_host": host,
        "api_port": port,
        "cluster_name": access.context,
        "node_addresses": ",".join(
            node.addresses[family] for node in nodes if family in node.addresses
        ),
        "registry": options.registry or "",
        "pull_secret": options.pull_secret or "",
        "kubernetes": access.server_version,
    }


def need(known: Mapping[str, str]) -> None:
    """Raises ClusterError when installations would lack what they cannot do without."""
    if absent := [name for name in ("pod_cidr", "service_cidr", "api_host") if not known[name]]:
        raise ClusterError(
            f"the cluster does not report its {', '.join(absent)}",
            "give them: --set pod_cidr=10.244.0.0/16",
        )


def _first(cidrs: str, family: int) -> str:
    for cidr in (part.strip() for part in cidrs.split(",")):
        if cidr and ipaddress.ip_network(cidr, strict=False).version == family:
            return cidr
    return ""


def _of_kubeadm(access: Access) -> tuple[str, str]:
    try:
        data = access.get("configmaps", "kubeadm-config", "kube-system")["data"][
            "ClusterConfiguration"
        ]
    except (DeniedError, UnreachableError):
        raise
    except (CnibenchError, KeyError):
        return "", ""
    networking = yaml.safe_load(data).get("networking", {})
    return str(networking.get("podSubnet", "")), str(networking.get("serviceSubnet", ""))


def _arguments(access: Access) -> dict[str, str]:
    """The options of the control plane's Pods, where it runs in Pods."""
    found: dict[str, str] = {}
    try:
        items = access.listed("pods", "kube-system", labels="tier=control-plane")
    except (DeniedError, UnreachableError):
        raise
    except CnibenchError:
        return {}
    for pod in items:
        for container in pod["spec"]["containers"]:
            for word in (*container.get("command", ()), *container.get("args", ())):
                if match := re.fullmatch(r"--([a-z-]+)=(.*)", word):
                    found.setdefault(match[1], match[2])
    return found


def _endpoint(access: Access) -> tuple[str, str]:
    """The API server's own address and port: a CNI that takes kube-proxy's place cannot reach it
    through a Service.
    """
    try:
        subset = access.listed(
            "endpointslices", "default", labels="kubernetes.io/service-name=kubernetes"
        )[0]
        return str(subset["endpoints"][0]["addresses"][0]), str(subset["ports"][0]["port"])
    except (DeniedError, UnreachableError):
        raise
    except (CnibenchError, KeyError, IndexError):
        return "", ""
