"""Facts of a cluster and its nodes for env.json: nothing that identifies the owner (no
names, no addresses).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.nodes.places import UNSEEN, KubernetesNode, on_each
from cnibench.errors import CnibenchError
from cnibench.system.ethtool_output import parse_driver, states

# What changes a datapath's cost, where the node has it.
_SYSCTLS = (
    "net.bridge.bridge-nf-call-iptables",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "net.core.default_qdisc",
    "net.ipv4.conf.all.rp_filter",
)
_FEATURES = (
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-tcp-segmentation",
    "rx-gro",
    "tx-checksum-ip-generic",
)


def describe(access: Access, nodes: Sequence[KubernetesNode]) -> dict[str, Any]:
    """The cluster's version, and of each node what the API and its agent tell; all nodes at the
    same time.
    """
    answers = on_each(nodes, _node)
    facts: dict[str, Any] = {
        "kubernetes": access.server_version,
        "nodes": dict(zip((node.name for node in nodes), answers, strict=True)),
    }
    if not all(node.host for node in nodes):
        facts["lacks"] = (
            f"{UNSEEN}: no cycles per packet, no rules, no devices of the nodes; counters only"
        )
    return facts


def _node(node: KubernetesNode) -> dict[str, Any]:
    known = node.facts
    facts: dict[str, Any] = {
        **known.info,
        "architecture": known.architecture,
        "control_plane": known.control_plane,
    }
    facts["sysctls"] = {
        name: value
        for name in _SYSCTLS
        if (value := _file(node, f"/proc/sys/{name.replace('.', '/')}"))
    }
    facts["cpu_model"] = next(
        (
            line.partition(":")[2].strip()
            for line in _file(node, "/proc/cpuinfo").splitlines()
            if line.startswith(("model name", "Model"))
        ),
        "",
    )
    if node.device:
        facts["device"] = _device(node)
    return facts


def _device(node: KubernetesNode) -> dict[str, Any]:
    folder = f"/sys/class/net/{node.device}"
    found: dict[str, Any] = {
        "mtu": _file(node, f"{folder}/mtu"),
        "speed": _file(node, f"{folder}/speed"),
    }
    try:
        features = node.run(["ethtool", "-k", node.device], timeout=20).stdout
        found["features"] = {
            name: state for name, state in states(features).items() if name in _FEATURES
        }
        about = parse_driver(node.run(["ethtool", "-i", node.device], timeout=20).stdout)
        found["driver"] = about.get("driver", "")
    except CnibenchError as error:
        found["unread"] = error.message
    return found


def _file(node: KubernetesNode, path: str) -> str:
    try:
        return node.read_text(path).strip()
    except CnibenchError:
        return ""
