"""The kernel settings that matter to a measurement, set explicitly in every namespace and recorded.

What the host happens to have set must not decide a result, and nothing may carry over from one cell
to the next. The congestion control has a module of its own (congestion.py), as a namespace may not
choose it freely.
"""

from __future__ import annotations

from collections.abc import Mapping

_EVERYWHERE: Mapping[str, object] = {
    # TCP: what one connection learnt must not speed up or slow down the next; buffers as a current
    # kernel tunes itself.
    "net/ipv4/tcp_no_metrics_save": 1,
    "net/ipv4/tcp_rmem": "4096 131072 6291456",
    "net/ipv4/tcp_wmem": "4096 65536 6291456",
    "net/ipv4/tcp_timestamps": 1,
    "net/ipv4/tcp_sack": 1,
    "net/ipv4/tcp_ecn": 2,
    "net/ipv4/tcp_fin_timeout": 5,
    "net/ipv4/tcp_tw_reuse": 1,
    "net/ipv4/ip_local_port_range": "10000 65000",
    "net/core/somaxconn": 4096,
    # Addresses: usable at once and no chatter of their own on the wire (IGMP, MLD, router
    # solicitations, link-local addresses).
    "net/ipv4/igmp_link_local_mcast_reports": 0,
    "net/ipv6/conf/all/accept_dad": 0,
    "net/ipv6/conf/default/accept_dad": 0,
    "net/ipv6/conf/default/dad_transmits": 0,
    "net/ipv6/conf/all/router_solicitations": 0,
    "net/ipv6/conf/default/router_solicitations": 0,
    "net/ipv6/conf/default/accept_ra": 0,
    "net/ipv6/conf/default/addr_gen_mode": 1,
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/default/rp_filter": 0,
    "net/ipv4/ping_group_range": "0 0",
    "net/ipv4/icmp_ratelimit": 0,
    "net/ipv6/icmp/ratelimit": 0,
    # A new namespace inherits this one from the machine (net.core.devconf_inherit_init_net), and on
    # a Kubernetes node, whose machine forwards, Pods have it, too.
    "net/ipv4/ip_forward": 1,
}
_NODE: Mapping[str, object] = {
    "net/ipv6/conf/all/forwarding": 1,
    "net/ipv6/conf/default/forwarding": 1,
    "net/bridge/bridge-nf-call-iptables": 1,
    "net/bridge/bridge-nf-call-ip6tables": 1,
}


def pod() -> Mapping[str, object]:
    """Key (path under /proc/sys) to value for a Pod."""
    return _EVERYWHERE


def node() -> Mapping[str, object]:
    """Key to value for a node."""
    return {**_EVERYWHERE, **_NODE}
