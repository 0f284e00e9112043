"""The rules that Weave's router writes on a node without its policy controller (EXPECT_NPC=0).

Follows weaveworks/weave v2.8.1 net/bridge.go (configureIPTables: at the head of FORWARD, in this
order) and net/expose.go (exposeNAT: no masquerading inside the network). The rules for a bridge's
own DNS are left out: Kubernetes does not use it.
"""

from __future__ import annotations

from cnibench.clusters.lab.rules.ruleset import Part, end, head


def rules(family: int, bridge: str, cluster_cidr: str) -> Part:
    """Weave's part on one node; none for IPv6, which it does not have."""
    if family == 6:
        return ()
    forward = (
        f"-i {bridge} -o {bridge} -j ACCEPT",
        f"-i {bridge} ! -o {bridge} -j ACCEPT",
        f"-o {bridge} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    )
    nat = (
        f"-s {cluster_cidr} -d 224.0.0.0/4 -j RETURN",
        f"! -s {cluster_cidr} -d {cluster_cidr} -j MASQUERADE",
        f"-s {cluster_cidr} ! -d {cluster_cidr} -j MASQUERADE",
    )
    return (
        *(head("filter", "FORWARD", rule) for rule in reversed(forward)),
        *(end("nat", "WEAVE", rule) for rule in nat),
        end("nat", "POSTROUTING", "-j WEAVE"),
    )
