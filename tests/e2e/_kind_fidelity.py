"""What is looked at of real CNIs on kind, to be compared with their models in the lab and with the
same CNI installed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _fidelity import look
from _kind_cluster import Kept

from cnibench.clusters.kubernetes.cni import recognise
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.model.profile import builtin

PROFILES = ("flannel", "flannel-host-gw", "cilium")
REPEATS = 3
Found = Mapping[str, Any]  # by profile, what _fidelity.py says of it, and its ``rules``


@contextmanager
def installed(cluster: Kept, name: str) -> Iterator[KubernetesDeployment]:
    """Until the block ends; nothing of it is left on the nodes then."""
    profile = builtin()[name]
    cluster.install(profile)
    try:
        cluster.ready(profile, dns=True)
        assert recognise.current(cluster.access)[0] == name
        deployment = cluster.deployment(profile)
        try:
            yield deployment
        finally:
            deployment.remove()
    finally:
        cluster.remove()
    assert cluster.left(cluster.bare) == []


def of_kind(cluster: Kept, folder: Path, costs_alone: bool = False) -> Found:
    """The profiles are installed on one cluster, one after the other."""
    found: dict[str, Any] = {}
    for name in PROFILES:
        with installed(cluster, name) as deployment:
            found |= look([deployment], folder, REPEATS, costs_alone)
            found[name]["rules"] = rules(cluster)
    return found


def rules(cluster: Kept) -> Mapping[str, frozenset[str]]:
    """Node to its rules of iptables, without kube-proxy's."""
    return {name: seen.items["iptables"] for name, seen in cluster.state().items()}
