"""What can never be measured on a cluster, and why.

Told before anything is made where it is known by then, and as ``unsupported`` where it is seen
later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cnibench.clusters.kubernetes.nodes import proxy_mode
from cnibench.clusters.kubernetes.pods import paths
from cnibench.clusters.lab.proxies.base import bytes_on_node
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.conditions import Policies
from cnibench.model.profile import CURRENT, Profile

ON_NODE = "policies are for Pods, and on this path the server is on its node's network"
_OWN = ("cilium", "calico")  # whose own objects are known


def refusal(profile: Profile, cell: Cell) -> str:
    """As Cluster.refuses."""
    asked = conditions.of(cell.params)
    if asked is not None and asked.policy is not None:
        if asked.policy.layer == "L7" and cell.workload != "http":
            return (
                "an HTTP rule lets HTTP through and nothing else: it is for the workload http, not"
                f" {cell.workload}"
            )
        if reason := policy(profile, asked.policy):
            return reason
        if paths.on_host(cell.path)[1]:
            return ON_NODE
    needs_services = (
        (asked is not None and asked.services is not None)
        or cell.workload == "service-change"
        or paths.through_service(cell.path)
    )
    if needs_services and profile.proxy == "none":
        return "nothing implements Services with --proxy none"
    if cell.workload == "policy-effect":
        if paths.through_service(cell.path):
            return (
                "its datagrams go to the Pod itself, no Service has their port: use the path pod,"
                f" not {cell.path}"
            )
        return enforcing(profile) or (ON_NODE if paths.on_host(cell.path)[1] else "")
    if cell.workload == "pods" and profile.features.network_model == "host":
        return "its Pods use the node's network, so nothing is created for a Pod"
    return ""


def too_many_services(profile: Profile, cell: Cell, memories: Callable[[], Iterable[int]]) -> str:
    """Why the smallest of nodes with so much memory (bytes; 0: not known) has no room for the
    Services of the cell's condition; '' when it has.
    """
    asked = conditions.of(cell.params)
    if asked is None or asked.services is None:
        return ""
    mode = proxy_mode.expected(profile)
    needed = bytes_on_node(mode, asked.services, 1)
    smallest = min(filter(None, memories()), default=needed)
    if needed <= smallest:
        return ""
    return (
        f"{asked.services.count} Services with {asked.services.endpoints} endpoints each take"
        f" about {needed >> 20} MiB on each node by {mode}; the smallest has {smallest >> 20} MiB:"
        " ask for fewer"
    )


def enforcing(profile: Profile) -> str:
    """Why policies mean nothing here, '' when they do or it is not known."""
    if profile.name == CURRENT.name or profile.features.policy.kubernetes:
        return ""
    return f"{profile.title} does not enforce NetworkPolicy objects"


def policy(profile: Profile, asked: Policies) -> str:
    """Why such policies cannot be had with this CNI."""
    if asked.conntrack == "bypassed":
        return (
            "a real CNI lets packets of established connections by before its policies, or has each"
            " packet meet them: that is its own, and bypassing conntrack on the nodes would take"
            " its address translation away, too; policy.conntrack=bypassed is for the lab"
        )
    if asked.layer == "L7":
        if asked.restrictions:
            return (
                "policy.restrictions are ports of L4, and an HTTP rule has one: leave them out with"
                " policy.layer=L7"
            )
        if "L7" not in profile.features.policy.layers:
            return f"{profile.title} has no HTTP rules"
        if profile.cni != "cilium":
            return (
                f"HTTP rules of {profile.title} take a proxy that its installation here does not"
                " have"
            )
    if (asked.api == "cni" or asked.layer == "L7") and profile.cni not in _OWN:
        return (
            f"{profile.title} has no policy objects of its own that are known here (policy.api=cni)"
        )
    return enforcing(profile)
