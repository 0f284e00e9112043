"""Whether a node was restarted. Its agent tells, which comes back with it."""

from __future__ import annotations

import time

from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.errors import CnibenchError
from cnibench.system import boot

_BACK = 20.0  # s that an agent may take to come back, after its node's kubelet has
_AGAIN = 0.5  # s


def start_of(node: KubernetesNode) -> str:
    """Which start of the node this is, '' where its agent does not say."""
    # Without the node's processes, process 1 is the agent's own.
    files = boot.FILES if node.host else boot.FILES[:1]
    try:
        return boot.start(*node.gateway.read_all(files))
    except CnibenchError:
        return ""


def restarted(node: KubernetesNode, start: str) -> bool:
    """Was it, since it had that start? To be asked when its Pods have ended."""
    if not start:
        return False
    end = time.monotonic() + _BACK
    while not (now := start_of(node)) and time.monotonic() < end:
        time.sleep(_AGAIN)
    return now not in ("", start)
