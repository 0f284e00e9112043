"""The kernels of the nodes are listed after the installation and after the measurement.

The listing (cnibench.listing) is made on each node, of its own namespace and of those of the
measured Pods.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.clusters.kubernetes.kernel_state.difference import State, compare
from cnibench.clusters.kubernetes.nodes.conversation import NodeConversation
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod, on_each
from cnibench.clusters.kubernetes.pods import background
from cnibench.clusters.kubernetes.pods.background import EnteredPod
from cnibench.listing import on_node
from cnibench.listing.listing import Listing
from cnibench.system import carried

_LIMIT = 60.0  # s for the listing of a node
_LOOKS = 3
_LASTS = 2.0  # s between two of them


def first_look(
    access: Access, namespace: str, nodes: Sequence[KubernetesNode], pods: Sequence[KubernetesPod]
) -> State:
    """As it is now; of the Pods those that have a network of their own. Raises ClusterError,
    LimitError.
    """
    own = [pod for pod in pods if pod.interface]
    entered = [
        pod for pod in background.enter(access, namespace, own) if isinstance(pod, EnteredPod)
    ]
    return replace(_look(nodes, entered), others=_others(access, nodes, entered))


def _look(nodes: Sequence[KubernetesNode], entered: Sequence[EnteredPod]) -> State:
    """At all nodes at the same time, without a request to the API: over the connections that the
    agents keep.
    """
    archive = carried.archive(on_node.MODULES)

    def one(node: KubernetesNode) -> dict[str, Any]:
        places = {node.name: 1} | {pod.pod: pod.pid for pod in entered if pod.node is node}
        request = {"places": places, "node": node.name, "device": node.device}
        conversation = NodeConversation(node, "cnibench.listing.on_node", archive)
        try:
            return conversation.ask(request, _LIMIT)
        finally:
            conversation.close()

    listing: Listing = {}
    texts: dict[str, Mapping[str, Sequence[str]]] = {}
    left_out: dict[str, frozenset[str]] = {}
    for node, found in zip(nodes, on_each(nodes, one), strict=True):
        listing |= found["listing"]
        texts |= found["texts"]
        left_out[node.name] = frozenset(found["left_out"])
    return State(listing, texts, frozenset(), left_out, tuple(entered))


def changes(
    access: Access, namespace: str, nodes: Sequence[KubernetesNode], before: State
) -> list[tuple[str, str, str, bool]]:
    """What changed since, as ``compare`` has it. A difference counts if it lasts: agents write in
    several steps. The API is asked for the Pods and Services of others only where there is one.
    Raises ClusterError, LimitError.
    """
    places = [*(node.name for node in nodes), *(pod.pod for pod in before.pods)]
    own = [f"{namespace}/", *(a for pod in before.pods for a in pod.addresses.values())]
    others: frozenset[str] = frozenset()
    for left in range(_LOOKS - 1, -1, -1):
        after = _look(nodes, before.pods)
        found = compare(before, replace(after, others=others), places, own)
        if not _alike(found):
            others |= _others(access, nodes, before.pods)
            found = compare(before, replace(after, others=others), places, own)
        if _alike(found):
            break
        if left:
            time.sleep(_LASTS)
    return found


def _alike(found: Sequence[tuple[str, str, str, bool]]) -> bool:
    return all(passed for *_, passed in found)


def _others(
    access: Access, nodes: Sequence[KubernetesNode], pods: Sequence[KubernetesPod]
) -> frozenset[str]:
    """Addresses of all Pods but those on their node's network, and of all Services; not those of
    these Pods and nodes.
    """
    found: set[str] = set()
    for pod in access.listed("pods"):
        if not pod["spec"].get("hostNetwork"):
            status: Mapping[str, Any] = pod.get("status", {})
            found |= {item["ip"] for item in status.get("podIPs") or () if item.get("ip")}
    try:
        services = access.listed("services")
    except DeniedError:  # said before the run
        services = []
    for service in services:
        spec = service["spec"]
        found |= set(spec.get("clusterIPs") or ()) | set(spec.get("externalIPs") or ())
    measured = {address for pod in pods for address in pod.addresses.values()}
    measured |= {address for node in nodes for address in node.addresses.values()}
    return frozenset(found - measured - {"None", ""})
