"""How Services are implemented on the nodes of a cluster: what kube-proxy says of itself."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.profile import PROXIES, Profile

# kube-proxy's own address for metrics, which is its default, in the node's network.
_ASK = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:10249/proxyMode", timeout=5).read().decode())
"""
_EBPF = ("cilium", "calico")  # what takes kube-proxy's place in its eBPF mode


def of(profile: Profile, nodes: Sequence[KubernetesNode]) -> str:
    """The mode of kube-proxy on these nodes, ``ebpf`` where the CNI takes its place, '' where
    neither is known. Raises ClusterError when it is not the one that was asked for, or that the CNI
    needs.
    """
    found = _observed(nodes[:1])
    takes_place = profile.kubernetes is not None and not profile.kubernetes.kube_proxy
    if not found and takes_place and profile.cni in _EBPF:
        found = "ebpf"
    if not found and profile.proxy == "none":
        found = "none"
    if profile.proxy and found != profile.proxy:
        raise ClusterError(
            f"Services are implemented by {found or 'something that is not known'} on this cluster,"
            f" and {profile.proxy} was asked for",
            f"--proxy {found}, or leave it out" if found else "leave --proxy out",
        )
    needed = profile.kubernetes.kube_proxy_mode if profile.kubernetes else ""
    if needed and found and found != needed:
        raise ClusterError(
            f"kube-proxy is in mode {found} on this cluster: {profile.name} follows it, and is not"
            " what its name says",
            f"set kube-proxy's mode to {needed}, or choose another profile",
        )
    return found


def _observed(nodes: Sequence[KubernetesNode]) -> str:
    for node in nodes:
        try:
            said = node.run(["python3", "-I", "-S", "-c", _ASK], timeout=20, check=False)
        except CnibenchError:
            return ""
        if said.returncode == 0 and said.stdout.strip() in PROXIES:
            return said.stdout.strip()
    return ""


def expected(profile: Profile) -> str:
    """What leads to Services with that profile, before the cluster was asked."""
    mode = asked_of_kind(profile)
    return "ebpf" if mode == "none" else mode


def asked_of_kind(profile: Profile) -> str:
    """``kubeProxyMode`` of a kind cluster for that profile."""
    own = profile.kubernetes
    if own is not None and not own.kube_proxy:
        usual = "none"
    else:
        usual = (own.kube_proxy_mode if own else "") or "iptables"
    return "none" if profile.proxy == "ebpf" else profile.proxy or usual
