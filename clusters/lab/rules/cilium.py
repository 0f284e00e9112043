"""The Cilium agent's chains CILIUM_*: in filter, raw, mangle and nat, each met first in its kernel
chain.

Follows cilium/cilium v1.15.19 pkg/datapath/iptables/iptables.go (ciliumChains,
installStaticProxyRules, installForwardChainRules, installHostTrafficMarkRule,
installMasqueradeRules, addProxyRules) with the chart's defaults (prependIptablesChains). The rule
that the agent adds where the kernel can match transparent sockets (xt_socket) is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cnibench.clusters.lab.rules.ruleset import IpSet, Line, Part, Table, chain, end, head

Masquerade = Literal["tunnel", "native", "none"]

# (table, chain, kernel's chain, for IPv6 too)
_CHAINS: tuple[tuple[Table, str, str, bool], ...] = (
    ("filter", "CILIUM_INPUT", "INPUT", True),
    ("filter", "CILIUM_OUTPUT", "OUTPUT", True),
    ("raw", "CILIUM_OUTPUT_raw", "OUTPUT", True),
    ("nat", "CILIUM_POST_nat", "POSTROUTING", True),
    ("nat", "CILIUM_OUTPUT_nat", "OUTPUT", False),
    ("nat", "CILIUM_PRE_nat", "PREROUTING", False),
    ("mangle", "CILIUM_POST_mangle", "POSTROUTING", False),
    ("mangle", "CILIUM_PRE_mangle", "PREROUTING", True),
    ("raw", "CILIUM_PRE_raw", "PREROUTING", True),
    ("filter", "CILIUM_FORWARD", "FORWARD", True),
)
# pkg/datapath/linux/linux_defaults/mark.go
_TO_PROXY, _PROXY_RETURN, _FROM_PROXY = "0x200/0xf00", "0xa00/0xfffffeff", "0xa00/0xe00"
_L7_UPSTREAM = "0x800/0xe00"
_ENCRYPTED, _DECRYPTED, _OVERLAY, _IDENTITY = (
    "0xe00/0xf00",
    "0xd00/0xf00",
    "0x400/0xf00",
    "0xf00/0xf00",
)
_HOST_MARK = "0xc00/0xf00"
_TO_DNS_PROXY = "0x3d900200"  # its port is another after each start
_NODES = {4: "cilium_node_set_v4", 6: "cilium_node_set_v6"}


def rules(
    family: int, cluster_cidr: str, pod_cidr: str, router: str, masquerade: Masquerade
) -> Part:
    """The agent's part on a node whose Pods have ``pod_cidr``; ``router`` is the address of
    cilium_host.

    ``masquerade``: as with a tunnel, as without one, or not here but by an eBPF program.
    """
    lines: list[Line] = [*_proxy(family), *_forward(), _mark_the_hosts()]
    if masquerade != "none":
        lines += _masquerade(family, pod_cidr, cluster_cidr, router, tunnel=masquerade == "tunnel")
    for table, name, kernel_chain, both in _CHAINS:
        if family == 4 or both:
            lines += [
                chain(table, name),
                head(
                    table, kernel_chain, f'-m comment --comment "cilium-feeder: {name}" -j {name}'
                ),
            ]
    return tuple(lines)


def nodes_set(family: int, addresses: Sequence[str]) -> IpSet:
    """The set of the nodes' own addresses, which the rules name when there is no tunnel."""
    return IpSet(_NODES[family], "hash:ip", family, tuple(addresses))


def _said(words: str) -> str:
    return f'-m comment --comment "{words}"'


def _proxy(family: int) -> list[Line]:
    devices = ("lxc+", "cilium_host") if family == 4 else ("cilium_host", "lxc+")
    upstream = ((_L7_UPSTREAM, "L7 proxy upstream traffic"),) if family == 4 else ()
    lines = [
        end(
            "raw",
            "CILIUM_PRE_raw",
            f"-m mark --mark {_TO_PROXY} {_said('cilium: NOTRACK for proxy traffic')} -j NOTRACK",
        ),
        end(
            "filter",
            "CILIUM_INPUT",
            f"-m mark --mark {_TO_PROXY} {_said('cilium: ACCEPT for proxy traffic')} -j ACCEPT",
        ),
    ]
    lines += [
        end(
            "raw",
            "CILIUM_OUTPUT_raw",
            f"-o {device} -m mark --mark {mark} {_said(f'cilium: NOTRACK for {words}')} -j NOTRACK",
        )
        for mark, words in ((_PROXY_RETURN, "proxy return traffic"), *upstream)
        for device in devices
    ]
    # TPROXY would be the target, which not every kernel has; nothing is marked for the proxy here,
    # so no packet comes to it
    said = _said("cilium: TPROXY to host cilium-dns-egress proxy")
    lines += [
        end(
            "mangle",
            "CILIUM_PRE_mangle",
            f"-p {kind} -m mark --mark {_TO_DNS_PROXY} {said} -j RETURN",
        )
        for kind in ("tcp", "udp")
    ]
    lines.append(
        end(
            "filter",
            "CILIUM_OUTPUT",
            f"-m mark --mark {_FROM_PROXY} {_said('cilium: ACCEPT for proxy traffic')} -j ACCEPT",
        )
    )
    if upstream:
        said = _said("cilium: ACCEPT for l7 proxy upstream traffic")
        lines.append(
            end("filter", "CILIUM_OUTPUT", f"-m mark --mark {_L7_UPSTREAM} {said} -j ACCEPT")
        )
    return lines


def _mark_the_hosts() -> Line:
    others = (_ENCRYPTED, _DECRYPTED, _OVERLAY, _FROM_PROXY, _L7_UPSTREAM, _IDENTITY)
    unmarked = " ".join(f"-m mark ! --mark {mark}" for mark in others)
    return end(
        "filter",
        "CILIUM_OUTPUT",
        f"{unmarked} {_said('cilium: host->any mark as from host')} -j MARK --set-xmark"
        f" {_HOST_MARK}",
    )


def _forward() -> list[Line]:
    accepted = (
        ("-o cilium_host", "any->cluster on cilium_host forward accept"),
        ("-i cilium_host", "cluster->any on cilium_host forward accept (nodeport)"),
        ("-i lxc+", "cluster->any on lxc+ forward accept"),
        ("-i cilium_net", "cluster->any on cilium_net forward accept (nodeport)"),
    )
    return [
        end("filter", "CILIUM_FORWARD", f"{device} {_said(f'cilium: {words}')} -j ACCEPT")
        for device, words in accepted
    ]


def _masquerade(
    family: int, pod_cidr: str, cluster_cidr: str, router: str, *, tunnel: bool
) -> list[Line]:
    name = "CILIUM_POST_nat"
    lines = []
    if not tunnel:  # NodeIpsetNeeded
        said = _said("exclude traffic to cluster nodes from masquerade")
        lines.append(
            end(
                "nat",
                name,
                f"-s {pod_cidr} -m set --match-set {_NODES[family]} dst {said} -j ACCEPT",
            )
        )
    inside = pod_cidr if tunnel else cluster_cidr
    lines += [
        end(
            "nat",
            name,
            f"-s {pod_cidr} ! -d {inside} ! -o cilium_+ {_said('cilium masquerade non-cluster')} -j"
            " MASQUERADE",
        ),
        end(
            "nat",
            name,
            f"-m mark --mark {_FROM_PROXY} {_said('exclude proxy return traffic from masquerade')}"
            " -j ACCEPT",
        ),
    ]
    source = f"-j SNAT --to-source {router}"
    if tunnel:
        lines.append(
            end(
                "nat",
                name,
                f"! -s {pod_cidr} ! -d {pod_cidr} -o cilium_host"
                f" {_said('cilium host->cluster masquerade')} {source}",
            )
        )
    loopback = "127.0.0.1/32" if family == 4 else "::1/128"
    said = _said(f"cilium host->cluster from {loopback.partition('/')[0]} masquerade")
    lines += [
        end("nat", name, f"-s {loopback} -o cilium_host {said} {source}"),
        end(
            "nat",
            name,
            f"-m mark --mark {_IDENTITY} -o cilium_host -m conntrack --ctstate DNAT "
            f"{_said('hairpin traffic that originated from a local pod')} {source}",
        ),
    ]
    return lines
