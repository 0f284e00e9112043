"""The nodes of a cluster as the API tells of them, and which two of them are measured."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnibench.errors import UsageError

_CONTROL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
# Set by the node controller while a node has no CNI or is under pressure; DaemonSets tolerate them
# as well (daemonset controller).
PASSING = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/network-unavailable",
)


@dataclass(frozen=True)
class Taint:
    """One taint; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


@dataclass(frozen=True)
class Facts:
    """One node. ``addresses`` maps 4 and 6 to its internal address, ``pod_cidrs`` are those of its
    spec (a CNI may use others).
    """

    name: str
    ready: bool
    reason: str  # why it is not ready
    schedulable: bool
    addresses: Mapping[int, str]
    pod_cidrs: tuple[str, ...]
    taints: tuple[Taint, ...]
    labels: Mapping[str, str]
    system: str
    architecture: str
    info: Mapping[str, str]
    memory: int = 0  # bytes that Pods can have; 0: not known

    @property
    def lacks_only_cni(self) -> bool:
        """Is it NotReady because it has no CNI, which Pods on its own network do without?"""
        return self.reason.startswith("container runtime network not ready")

    @property
    def control_plane(self) -> bool:
        return any(label in self.labels for label in _CONTROL)


def facts(node: Mapping[str, Any]) -> Facts:
    """Out of a Node object of the API."""
    status, spec, meta = node.get("status", {}), node.get("spec", {}), node["metadata"]
    ready: Mapping[str, Any] = next(
        (item for item in status.get("conditions", ()) if item["type"] == "Ready"), {}
    )
    addresses: dict[int, str] = {}
    for item in status.get("addresses", ()):
        if item["type"] == "InternalIP":
            addresses.setdefault(ipaddress.ip_address(item["address"]).version, item["address"])
    info = status.get("nodeInfo", {})
    cidrs = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    return Facts(
        name=meta["name"],
        ready=ready.get("status") == "True",
        reason=str(ready.get("message", "its kubelet gives no reason")),
        schedulable=not spec.get("unschedulable", False),
        addresses=addresses,
        pod_cidrs=tuple(cidrs),
        taints=tuple(
            Taint(item["key"], item.get("value", ""), item["effect"])
            for item in spec.get("taints", ())
        ),
        labels=meta.get("labels", {}),
        system=info.get("operatingSystem", "linux"),
        architecture=info.get("architecture", ""),
        info={
            key: info[key]
            for key in ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
            if key in info
        },
        memory=_bytes(status.get("allocatable", {}).get("memory", "")),
    )


def _bytes(quantity: str) -> int:
    """A quantity as the API writes it (``16384Ki``); 0 for what is none."""
    from kubernetes.utils.quantity import parse_quantity

    try:
        return int(parse_quantity(quantity))
    except ValueError:
        return 0


def toleration(text: str) -> dict[str, str]:
    """``KEY[=VALUE][:EFFECT]`` as kubectl taint writes it, or ``all``. Raises UsageError."""
    if text == "all":
        return {"operator": "Exists"}
    name, _, effect = text.partition(":")
    key, equals, value = name.partition("=")
    if not key or effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise UsageError(
            f"--toleration takes KEY[=VALUE][:EFFECT] or all, not '{text}'",
            "write dedicated=net:NoSchedule",
        )
    found = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        found["value"] = value
    if effect:
        found["effect"] = effect
    return found


def tolerated(taint: Taint, tolerations: Sequence[Mapping[str, str]]) -> bool:
    """As the scheduler decides (k8s.io/api/core/v1, Toleration.ToleratesTaint)."""
    for one in tolerations:
        if one.get("effect") and one["effect"] != taint.effect:
            continue
        if one.get("key") and one["key"] != taint.key:
            continue
        if one.get("operator", "Equal") == "Exists" or one.get("value", "") == taint.value:
            return True
    return False


def matches(labels: Mapping[str, str], selector: str) -> bool:
    """A label selector of equalities: ``a=b,c!=d,e,!f``. Raises UsageError for others."""
    for part in (item.strip() for item in selector.split(",") if item.strip()):
        if any(word in part for word in (" in ", " notin ", "(")):
            raise UsageError(
                f"the selector '{part}' is set-based", "write equalities: zone=a,disk!=hdd"
            )
        if "!=" in part:
            key, _, value = part.partition("!=")
            if labels.get(key) == value:
                return False
        elif "=" in part:
            key, _, value = part.replace("==", "=").partition("=")
            if labels.get(key) != value:
                return False
        elif part.startswith("!"):
            if part[1:] in labels:
                return False
        elif part not in labels:
            return False
    return True


@dataclass(frozen=True)
class Wanted:
    """What was said of the nodes: names and selectors, '' for none."""

    client: str = ""
    server: str = ""
    client_selector: str = ""
    server_selector: str = ""
    tolerations: tuple[Mapping[str, str], ...] = ()


def choose(
    nodes: Sequence[Facts], wanted: Wanted, families: Sequence[int] = (4,)
) -> tuple[Facts, Facts]:
    """(the client's node, the server's), of one architecture. A node that was named is taken
    although it is cordoned or of the control plane.

    Raises UsageError saying why each node is not taken.
    """
    named = next((node for node in nodes if node.name == wanted.server), None)
    client = _pick(
        nodes, wanted.client, wanted.client_selector, wanted, families, "client", like=named
    )
    server = _pick(
        nodes,
        wanted.server,
        wanted.server_selector,
        wanted,
        families,
        "server",
        without=client.name,
        like=client,
    )
    if client.name == server.name:
        raise UsageError(
            "the client's and the server's node are the same",
            "name two: --client-node A --server-node B",
        )
    return client, server


def more(
    nodes: Sequence[Facts],
    chosen: tuple[Facts, Facts],
    wanted: Wanted,
    families: Sequence[int],
    pairs: int,
) -> list[Facts]:
    """The nodes of ``pairs`` pairs, the two that were chosen first: two more for each further pair
    as long as there are, none where they were named. An odd one, which then has the client of one
    pair and the server of another, only where no selector says which it is for.
    """
    found = list(chosen)
    if wanted.client or wanted.server:
        return found
    for pair in range(1, pairs):
        for selector in (wanted.client_selector, wanted.server_selector):
            for node in sorted(nodes, key=lambda one: (one.control_plane, one.name)):
                if (
                    node not in found
                    and not _unfit(node, wanted.tolerations, families, bool(selector))
                    and not _unlike(node, chosen[0])
                    and matches(node.labels, selector)
                ):
                    found.append(node)
                    break
            else:
                odd = len(found) > 2 * pair and not (
                    wanted.client_selector or wanted.server_selector
                )
                return found if odd else found[: 2 * pair]
    return found


def _pick(
    nodes: Sequence[Facts],
    name: str,
    selector: str,
    wanted: Wanted,
    families: Sequence[int],
    role: str,
    without: str = "",
    like: Facts | None = None,
) -> Facts:
    other = wanted.server if role == "client" else wanted.client
    reasons = []
    for node in sorted(nodes, key=lambda one: (one.control_plane, one.name)):
        if name and node.name != name:
            continue
        if not name and node.name in (without, other):
            continue
        why = _unfit(node, wanted.tolerations, families, bool(name or selector))
        why = why or (_unlike(node, like) if like else "")
        if not why and not matches(node.labels, selector):
            why = f"does not have the labels {selector}"
        if not why:
            return node
        reasons.append(f"{node.name} {why}")
    if name and not reasons:
        raise UsageError(
            f"there is no node '{name}'",
            f"there are: {', '.join(sorted(node.name for node in nodes))}",
        )
    details = "; ".join(reasons) or "there is no other node"
    raise UsageError(
        f"no node for the {role}: {details}",
        f"name one with --{role}-node or --{role}-selector"
        + (", and tolerate its taint with --toleration" if " is tainted " in details else ""),
    )


def _unlike(node: Facts, first: Facts) -> str:
    """Why two nodes cannot have the ends of a pair, '' when they can."""
    if "" in (node.architecture, first.architecture) or node.architecture == first.architecture:
        return ""
    return f"is {node.architecture}, and {first.name} is {first.architecture}"


def _unfit(
    node: Facts, tolerations: Sequence[Mapping[str, str]], families: Sequence[int], asked: bool
) -> str:
    """Why a node cannot be taken, '' when it can. One whose only fault is that it has no CNI yet
    can.
    """
    if node.system != "linux":
        return f"runs {node.system}"
    if not node.ready and not any(taint.key in PASSING for taint in node.taints):
        return f"is not Ready ({node.reason})"
    if not node.schedulable and not asked:
        return "is cordoned"
    if absent := [family for family in families if family not in node.addresses]:
        return f"has no IPv{absent[0]} address"
    blocking = [
        taint
        for taint in node.taints
        if taint.effect != "PreferNoSchedule"
        and taint.key not in PASSING
        and not (asked and taint.key == "node.kubernetes.io/unschedulable")
    ]
    if left := [str(taint) for taint in blocking if not tolerated(taint, tolerations)]:
        return f"is tainted {', '.join(left)}"
    return ""
