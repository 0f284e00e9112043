"""flanneld's chains FLANNEL-POSTRTG and FLANNEL-FWD.

Follows flannel v0.28.9 pkg/trafficmngr/iptables/iptables.go (masqRules, masqIP6Rules,
forwardRules): both jumps are appended, so kube-proxy's, which are put at the head, come first.
"""

from __future__ import annotations

from cnibench.clusters.lab.rules.kubeproxy import MASQUERADE_MARK
from cnibench.clusters.lab.rules.ruleset import Part, end


def rules(family: int, cluster_cidr: str, pod_cidr: str) -> Part:
    """flanneld's part on a node whose Pods have ``pod_cidr`` out of the whole cluster's
    ``cluster_cidr``.
    """
    masq, forward = (
        '-m comment --comment "flanneld masq"',
        '-m comment --comment "flanneld forward"',
    )
    multicast = "224.0.0.0/4" if family == 4 else "ff00::/8"
    post = [
        f"-m mark --mark {MASQUERADE_MARK}/{MASQUERADE_MARK} {masq} -j RETURN",
        f"-s {pod_cidr} -d {cluster_cidr} {masq} -j RETURN",
        f"-s {cluster_cidr} -d {pod_cidr} {masq} -j RETURN",
        f"! -s {cluster_cidr} -d {pod_cidr} {masq} -j RETURN",
        f"-s {cluster_cidr} ! -d {multicast} {masq} -j MASQUERADE --random-fully",
        f"! -s {cluster_cidr} -d {cluster_cidr} {masq} -j MASQUERADE --random-fully",
    ]
    return (
        end("nat", "POSTROUTING", f"{masq} -j FLANNEL-POSTRTG"),
        *(end("nat", "FLANNEL-POSTRTG", rule) for rule in post),
        end("filter", "FORWARD", f"{forward} -j FLANNEL-FWD"),
        end("filter", "FLANNEL-FWD", f"-s {cluster_cidr} {forward} -j ACCEPT"),
        end("filter", "FLANNEL-FWD", f"-d {cluster_cidr} {forward} -j ACCEPT"),
    )
