"""The reference plugins of containernetworking/plugins: what CNIs take for granted on each node,
and the profiles made of them.

A plugin that a node lacks is copied there from the agent's image and removed with the CNI.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.nodes.nodes import Facts, facts
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, on_each
from cnibench.errors import ClusterError, MissingError, UsageError
from cnibench.model.installation import Reference

BRIDGE = "cnibench0"
_BIN, _CONF = f"{HOST}/opt/cni/bin", f"{HOST}/etc/cni/net.d"
_SOURCES = (  # where images keep them: upstream's archive, Debian's package
    "/opt/cni/bin /usr/lib/cni"
)
_QUICK = 20.0  # s


def missing(nodes: Sequence[KubernetesNode], names: Sequence[str]) -> dict[str, list[str]]:
    """Node's name to the plugins that it lacks. Raises ClusterError."""
    if not names:
        return {}
    script = f"for name in {' '.join(names)}; do test -x {_BIN}/$name || echo $name; done"
    found = on_each(
        nodes, lambda node: node.run(["sh", "-c", script], timeout=_QUICK).stdout.split()
    )
    return {node.facts.name: lacking for node, lacking in zip(nodes, found, strict=True) if lacking}


def copy(nodes: Sequence[KubernetesNode], wanted: Mapping[str, Sequence[str]]) -> None:
    """Copies plugins from the agent's image. Raises MissingError where that has none."""
    on_each(nodes, lambda node: _copy(node, wanted.get(node.facts.name, ())))


def _copy(node: KubernetesNode, names: Sequence[str]) -> None:
    for name in names:
        script = (
            f"mkdir -p {_BIN}; for folder in {_SOURCES}; do test -x $folder/{name} || continue; cp"
            f" --remove-destination $folder/{name} {_BIN}/.{name} && mv -T {_BIN}/.{name}"
            f" {_BIN}/{name}; exit; done; exit 3"
        )
        done = node.run(["sh", "-c", script], timeout=_QUICK, check=False)
        if done.returncode == 3:
            raise MissingError(
                f"node {node.facts.name} lacks the CNI plugin {name}",
                "install containernetworking-plugins on it (into /opt/cni/bin)",
            )
        if done.returncode:
            raise ClusterError(f"node {node.facts.name}: {done.words()}")


def configure(
    access: Access,
    nodes: Sequence[KubernetesNode],
    reference: Reference,
    settings: Mapping[str, str],
) -> None:
    """Routes to the other nodes' Pods, then the configuration, which makes the kubelet say that the
    node is Ready. Raises ClusterError.
    """
    if unknown := sorted(set(settings) - {"mtu", "image-archive"}):
        raise UsageError(
            f"--set {unknown[0]} is not an option of the reference plugins", "they take: mtu"
        )
    everywhere = [facts(item) for item in access.listed("nodes")]
    if without := [node.name for node in everywhere if not node.pod_cidrs]:
        raise ClusterError(
            f"the nodes {', '.join(without)} have no Pod subnet (spec.podCIDR)",
            "kubeadm init --pod-network-cidr gives every node one",
        )

    def put(node: KubernetesNode) -> None:
        own = next((item for item in everywhere if item.name == node.facts.name), node.facts)
        mtu = (
            int(settings.get("mtu", 0))
            or reference.mtu
            or int(node.read_text(f"/sys/class/net/{node.device}/mtu"))
        )
        lines = [f"ip route replace {cidr} via {via}" for cidr, via in routes(own, everywhere)]
        lines.append(
            f"mkdir -p {_CONF} && cat > {_CONF}/.cnibench && mv {_CONF}/.cnibench"
            f" {_CONF}/10-cnibench.conflist"
        )
        text = json.dumps(conflist(reference.plugin, own.pod_cidrs, mtu), indent=2)
        node.run(["sh", "-ec", "\n".join(lines)], timeout=_QUICK, input=text)

    on_each(nodes, put)


def routes(own: Facts, everywhere: Sequence[Facts]) -> list[tuple[str, str]]:
    """(Pod subnet, address of its node) of all other nodes."""
    found = []
    for other in everywhere:
        for cidr in other.pod_cidrs if other.name != own.name else ():
            via = other.addresses.get(ipaddress.ip_network(cidr).version)
            if via:
                found.append((cidr, via))
    return found


def conflist(plugin: str, cidrs: Sequence[str], mtu: int) -> dict[str, Any]:
    """The CNI configuration of a node, its Pods' addresses by host-local
    (https://www.cni.dev/plugins/current/).
    """
    defaults = [
        {"dst": "0.0.0.0/0" if ipaddress.ip_network(cidr).version == 4 else "::/0"}
        for cidr in cidrs
    ]
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": cidr}] for cidr in cidrs],
        "routes": defaults,
    }
    device: dict[str, Any] = {"type": plugin, "ipMasq": False, "mtu": mtu, "ipam": ipam}
    if plugin == "bridge":
        device |= {"bridge": BRIDGE, "isGateway": True, "hairpinMode": True}
    return {"cniVersion": "0.4.0", "name": "cnibench", "plugins": [device]}
