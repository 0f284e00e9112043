"""The Cilium agent's chains CILIUM_*: in filter, raw, mangle and nat, each met first in its kernel chain.

Follows cilium/cilium v1.15 pkg/datapath/iptables/iptables.go (ciliumChains, addProxyRules, installMasqueradeRules,
installForwardChainRules) with the chart's defaults (prependIptablesChains), without L7 proxies: their rules that need a
transparent socket match are left out.
"""

from __future__ import annotations

from cnibench.clusters.lab.rules.ruleset import Line, Part, Table, chain, end, head

_CHAINS: tuple[tuple[Table, str, str], ...] = (
    ("filter", "CILIUM_INPUT", "INPUT"),
    ("filter", "CILIUM_OUTPUT", "OUTPUT"),
    ("raw", "CILIUM_OUTPUT_raw", "OUTPUT"),
    ("nat", "CILIUM_POST_nat", "POSTROUTING"),
    ("nat", "CILIUM_OUTPUT_nat", "OUTPUT"),
    ("nat", "CILIUM_PRE_nat", "PREROUTING"),
    ("mangle", "CILIUM_POST_mangle", "POSTROUTING"),
    ("mangle", "CILIUM_PRE_mangle", "PREROUTING"),
    ("raw", "CILIUM_PRE_raw", "PREROUTING"),
    ("filter", "CILIUM_FORWARD", "FORWARD"),
)
# pkg/datapath/linux/linux_defaults/mark.go
_TO_PROXY, _PROXY_RETURN, _FROM_PROXY = "0x200/0xf00", "0xa00/0xfffffeff", "0xa00/0xe00"
_L7_UPSTREAM = "0x800/0xe00"
_HOST_MARK = "0xc00/0xf00"


def rules(family: int, cluster_cidr: str, pod_cidr: str, router: str, *, tunnel: bool) -> Part:
    """The agent's part on a node whose Pods have ``pod_cidr``; ``router`` is the address of cilium_host."""
    lines: list[Line] = [*_proxy(), *_forward()]
    lines += _masquerade(family, pod_cidr, pod_cidr if tunnel else cluster_cidr, router, tunnel=tunnel)
    for table, name, kernel_chain in _CHAINS:
        lines += [chain(table, name), head(table, kernel_chain, f'-m comment --comment "cilium-feeder: {name}" -j {name}')]
    return tuple(lines)


def _said(words: str) -> str:
    return f'-m comment --comment "{words}"'


def _proxy() -> list[Line]:
    unmarked = " ".join(f"-m mark ! --mark {mark}" for mark in ("0xe00/0xf00", "0xd00/0xf00", _FROM_PROXY, _L7_UPSTREAM))
    lines = [
        end("raw", "CILIUM_PRE_raw", f"-m mark --mark {_TO_PROXY} {_said('cilium: NOTRACK for proxy traffic')} -j NOTRACK"),
        end("filter", "CILIUM_INPUT", f"-m mark --mark {_TO_PROXY} {_said('cilium: ACCEPT for proxy traffic')} -j ACCEPT"),
    ]
    lines += [
        end("raw", "CILIUM_OUTPUT_raw", f"-o {device} -m mark --mark {mark} {_said(f'cilium: NOTRACK for {words}')} -j NOTRACK")
        for mark, words in ((_PROXY_RETURN, "proxy return traffic"), (_L7_UPSTREAM, "L7 proxy upstream traffic"))
        for device in ("lxc+", "cilium_host")
    ]
    lines += [
        end("filter", "CILIUM_OUTPUT", f"-m mark --mark {_PROXY_RETURN} {_said('cilium: ACCEPT for proxy return traffic')} -j ACCEPT"),
        end("filter", "CILIUM_OUTPUT", f"-m mark --mark {_L7_UPSTREAM} {_said('cilium: ACCEPT for l7 proxy upstream traffic')} -j ACCEPT"),
        end("filter", "CILIUM_OUTPUT", f"{unmarked} {_said('cilium: host->any mark as from host')} -j MARK --set-xmark {_HOST_MARK}"),
    ]
    return lines


def _forward() -> list[Line]:
    accepted = (
        ("-o cilium_host", "any->cluster on cilium_host"),
        ("-i cilium_host", "cluster->any on cilium_host"),
        ("-i lxc+", "cluster->any on lxc+"),
        ("-i cilium_net", "cluster->any on cilium_net"),
    )
    return [end("filter", "CILIUM_FORWARD", f"{device} {_said(f'cilium: {words} forward accept')} -j ACCEPT") for device, words in accepted]


def _masquerade(family: int, pod_cidr: str, inside: str, router: str, *, tunnel: bool) -> list[Line]:
    name = "CILIUM_POST_nat"
    lines = [
        end("nat", name, f"-s {pod_cidr} ! -d {inside} ! -o cilium_+ {_said('cilium masquerade non-cluster')} -j MASQUERADE"),
        end("nat", name, f"-m mark --mark {_FROM_PROXY} {_said('exclude proxy return traffic from masquerade')} -j ACCEPT"),
    ]
    source = f"-j SNAT --to-source {router}"
    if tunnel:
        lines.append(
            end("nat", name, f"! -s {pod_cidr} ! -d {pod_cidr} -o cilium_host {_said('cilium host->cluster masquerade')} {source}")
        )
    loopback = "127.0.0.1/32" if family == 4 else "::1/128"
    lines += [
        end("nat", name, f"-s {loopback} -o cilium_host {_said(f'cilium host->cluster from {loopback[:-3]} masquerade')} {source}"),
        end(
            "nat", name,
            f"-o cilium_host -m conntrack --ctstate DNAT {_said('hairpin traffic that originated from a local pod')} {source}",
        ),
    ]  # fmt: skip
    return lines
