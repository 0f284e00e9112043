"""Felix's chains on one node; those of its Pods are in calico_workloads.py.

Follows projectcalico/calico v3.32.1 felix/rules: static.go, dispatch.go, endpoints.go, policy.go,
nat.go, rule_defs.go, with Felix's defaults (felix/config/config_params.go) and the manifest's
DefaultEndpointToHostAction ACCEPT; flow logs are off, there are no host endpoints, and chains that
nothing jumps to (the fail-safe ports) are not written, as Felix itself leaves them out.

Without policy objects a Pod's chains still exist (profiles accept); with them (``policy``)
Kubernetes NetworkPolicies select the Pods of the benchmark and allow the workloads' ports between
them, in both directions.
"""

from __future__ import annotations

from collections.abc import Iterable

from cnibench.clusters.lab.rules.calico_node import VXLAN_PORT, Node, set_name
from cnibench.clusters.lab.rules.calico_workloads import workloads
from cnibench.clusters.lab.rules.felix import (
    ACCEPT,
    ALL_MARKS,
    ESTABLISHED,
    SCRATCH0,
    Rule,
    chain_lines,
    clear_mark,
    goto,
    insert_lines,
    jump,
    marked,
    set_mark,
    unmarked,
)
from cnibench.clusters.lab.rules.ruleset import Line, Part

_LOCAL = "-m addrtype --dst-type LOCAL"
_FROM_LOCAL = "-m addrtype --src-type LOCAL"


def rules(node: Node) -> Part:
    """Felix's whole part for one family of one node."""
    return (*_raw(node), *_mangle(node), *_nat(node), *_filter(node), *workloads(node))


def _raw(node: Node) -> Iterable[Line]:
    notrack = (
        [Rule("--jump NOTRACK", f"-p udp --dport {VXLAN_PORT}")] if node.tunnels("vxlan") else []
    )
    yield from insert_lines("raw", "PREROUTING", [jump("cali-PREROUTING")])
    yield from insert_lines("raw", "OUTPUT", [jump("cali-OUTPUT")])
    yield from chain_lines(
        "raw",
        "cali-PREROUTING",
        [
            clear_mark(ALL_MARKS),
            *notrack,
            set_mark(SCRATCH0, "--in-interface cali+"),
            jump("cali-rpf-skip", marked(SCRATCH0)),
            Rule("--jump DROP", f"{marked(SCRATCH0)} -m rpfilter --invert --validmark"),
            jump("cali-from-host-endpoint", unmarked(SCRATCH0)),
            Rule("--jump ACCEPT", marked(ACCEPT)),
        ],
    )
    yield from chain_lines(
        "raw",
        "cali-OUTPUT",
        [
            clear_mark(ALL_MARKS),
            jump("cali-to-host-endpoint"),
            *notrack,
            Rule("--jump ACCEPT", marked(ACCEPT)),
        ],
    )
    for name in ("cali-rpf-skip", "cali-from-host-endpoint", "cali-to-host-endpoint"):
        yield from chain_lines("raw", name)


def _mangle(node: Node) -> Iterable[Line]:
    accepted = "Host endpoint policy accepted packet."
    yield from insert_lines("mangle", "PREROUTING", [jump("cali-PREROUTING")])
    yield from insert_lines("mangle", "POSTROUTING", [jump("cali-POSTROUTING")])
    yield from chain_lines(
        "mangle",
        "cali-PREROUTING",
        [
            Rule("--jump ACCEPT", ESTABLISHED),
            Rule("--jump ACCEPT", marked(ACCEPT)),
            jump("cali-from-host-endpoint"),
            Rule("--jump ACCEPT", marked(ACCEPT), (accepted,)),
        ],
    )
    leaving = " ".join(
        f"-m set{no} --match-set {set_name(node.family, identity)} {side}"
        for no, identity, side in (
            ("", "dscp-src-net", "src"),
            (" !", "network-ip-pools", "dst"),
            (" !", "this-host", "dst"),
        )
    )
    yield from chain_lines(
        "mangle",
        "cali-POSTROUTING",
        [
            jump("cali-egress-dscp", leaving, "set dscp for traffic leaving cluster."),
            Rule("--jump RETURN", marked(ACCEPT)),
            clear_mark(ALL_MARKS),
            jump("cali-to-host-endpoint", "-m conntrack --ctstate DNAT"),
            Rule("--jump RETURN", marked(ACCEPT), (accepted,)),
        ],
    )
    for name in ("cali-egress-dscp", "cali-from-host-endpoint", "cali-to-host-endpoint"):
        yield from chain_lines("mangle", name)


def _nat(node: Node) -> Iterable[Line]:
    masquerade = "--jump MASQUERADE --random-fully"
    yield from insert_lines("nat", "PREROUTING", [jump("cali-PREROUTING")])
    yield from insert_lines("nat", "OUTPUT", [jump("cali-OUTPUT")])
    # Last on purpose, so that kube-proxy's mark is cleared before (int_dataplane.go,
    # setUpIptablesNormal).
    yield from insert_lines("nat", "POSTROUTING", [jump("cali-POSTROUTING")], "end")
    yield from chain_lines("nat", "cali-PREROUTING", [jump("cali-fip-dnat")])
    yield from chain_lines("nat", "cali-OUTPUT", [jump("cali-fip-dnat")])
    post = [jump("cali-fip-snat"), jump("cali-nat-outgoing")]
    device = {
        "vxlan": "vxlan.calico" if node.family == 4 else "vxlan-v6.calico",
        "ipip": "tunl0",
    }.get(node.encapsulation, "")
    if node.tunnels(node.encapsulation) and device:
        to_tunnel = (
            f"--out-interface {device} -m addrtype ! --src-type LOCAL --limit-iface-out -m addrtype"
            " --src-type LOCAL"
        )
        post.append(Rule(masquerade, to_tunnel))
    yield from chain_lines("nat", "cali-POSTROUTING", post)
    pools, outside = (
        set_name(node.family, "masq-ipam-pools"),
        set_name(node.family, "network-ip-pools"),
    )
    outgoing = f"-m set --match-set {pools} src -m set ! --match-set {outside} dst"
    yield from chain_lines("nat", "cali-nat-outgoing", [Rule(masquerade, outgoing)])
    for name in ("cali-fip-dnat", "cali-fip-snat"):
        yield from chain_lines("nat", name)


def _filter(node: Node) -> Iterable[Line]:
    accepted = "Host endpoint policy accepted packet."
    to_port = f"-m multiport --destination-ports {VXLAN_PORT}"
    udp, peers = f"-p 17 {to_port}", set_name(node.family, "all-vxlan-net")
    vxlan_in, ipip_in, tunnel_out = [], [], []
    if node.tunnels("ipip"):
        hosts = set_name(4, "all-hosts-net")
        ipip_in = [
            Rule(
                "--jump ACCEPT",
                f"-p 4 -m set --match-set {hosts} src {_LOCAL}",
                ("Allow IPIP packets from Calico hosts",),
            ),
            Rule("--jump DROP", "-p 4", ("Drop IPIP packets from non-Calico hosts",)),
        ]
        match = f"-p 4 -m set --match-set {hosts} dst {_FROM_LOCAL}"
        tunnel_out = [Rule("--jump ACCEPT", match, ("Allow IPIP packets to other Calico hosts",))]
    if node.tunnels("vxlan"):
        vxlan_in = [
            Rule(
                "--jump ACCEPT",
                f"{udp} -m set --match-set {peers} src {_LOCAL}",
                (f"Allow IPv{node.family} VXLAN packets from allowed hosts",),
            ),
            Rule(
                "--jump DROP",
                f"{udp} {_LOCAL}",
                (f"Drop IPv{node.family} VXLAN packets from non-allowed hosts",),
            ),
        ]
        match = f"{udp} {_FROM_LOCAL} -m set --match-set {peers} dst"
        tunnel_out = [
            Rule(
                "--jump ACCEPT",
                match,
                (f"Allow IPv{node.family} VXLAN packets to other allowed hosts",),
            )
        ]
    yield from insert_lines("filter", "FORWARD", [jump("cali-FORWARD")])
    yield from insert_lines("filter", "INPUT", [jump("cali-INPUT")])
    yield from insert_lines("filter", "OUTPUT", [jump("cali-OUTPUT")])
    appended = [
        Rule("--jump ACCEPT", marked(ACCEPT), ("Policy explicitly accepted packet.",)),
        set_mark(ACCEPT),
    ]
    yield from insert_lines("filter", "FORWARD", appended, "end")
    yield from chain_lines(
        "filter",
        "cali-FORWARD",
        [
            clear_mark(ALL_MARKS & ~ACCEPT),
            jump("cali-from-hep-forward", unmarked(ACCEPT)),
            jump("cali-from-wl-dispatch", "--in-interface cali+"),
            jump("cali-to-wl-dispatch", "--out-interface cali+"),
            jump("cali-to-hep-forward"),
            jump("cali-cidr-block"),
        ],
    )
    yield from chain_lines(
        "filter",
        "cali-INPUT",
        [
            *ipip_in,
            *vxlan_in,
            goto("cali-wl-to-host", "--in-interface cali+"),
            Rule("--jump ACCEPT", marked(ACCEPT)),
            clear_mark(ALL_MARKS),
            jump("cali-from-host-endpoint"),
            Rule("--jump ACCEPT", marked(ACCEPT), (accepted,)),
        ],
    )
    yield from chain_lines(
        "filter",
        "cali-OUTPUT",
        [
            Rule("--jump ACCEPT", marked(ACCEPT)),
            Rule("--jump RETURN", "--out-interface cali+"),
            *tunnel_out,
            clear_mark(ALL_MARKS),
            jump("cali-to-host-endpoint", "-m conntrack ! --ctstate DNAT"),
            Rule("--jump ACCEPT", marked(ACCEPT), (accepted,)),
        ],
    )
    neighbours = [
        Rule("--jump ACCEPT", f"-p 58 -m icmp6 --icmpv6-type {kind}")
        for kind in (130, 131, 132, 133, 135, 136)
    ]
    host = Rule("--jump ACCEPT", "", ("Configured DefaultEndpointToHostAction",))
    yield from chain_lines(
        "filter",
        "cali-wl-to-host",
        [*(neighbours if node.family == 6 else ()), jump("cali-from-wl-dispatch"), host],
    )
    for name in (
        "cali-from-hep-forward",
        "cali-to-hep-forward",
        "cali-from-host-endpoint",
        "cali-to-host-endpoint",
        "cali-cidr-block",
    ):
        yield from chain_lines("filter", name)
