"""Felix's chains and IP sets on one node: static ones, dispatch to workloads, endpoints, profiles,
policies.

Follows projectcalico/calico v3.32.1 felix/rules: static.go, dispatch.go, endpoints.go, policy.go,
nat.go, rule_defs.go, with Felix's defaults (felix/config/config_params.go) and the manifest's
DefaultEndpointToHostAction ACCEPT; flow logs are off, there are no host endpoints, and chains that
nothing jumps to (the fail-safe ports) are not written, as Felix itself leaves them out.

Without policy objects a Pod's chains still exist (profiles accept); with them (``policy``)
Kubernetes NetworkPolicies select the Pods of the benchmark and allow the workloads' ports between
them, in both directions.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from cnibench.clusters.lab.rules.felix import (
    ACCEPT,
    ALL_MARKS,
    PASS,
    SCRATCH0,
    Rule,
    chain_lines,
    clear_mark,
    goto,
    insert_lines,
    jump,
    limited,
    marked,
    set_mark,
    unmarked,
)
from cnibench.clusters.lab.rules.ruleset import IpSet, Line, Part, Pod

VXLAN_PORT = 4789
_ESTABLISHED = "-m conntrack --ctstate RELATED,ESTABLISHED"
_LOCAL = "-m addrtype --dst-type LOCAL"
_FROM_LOCAL = "-m addrtype --src-type LOCAL"


@dataclass(frozen=True)
class Policy:
    """A Kubernetes NetworkPolicy over the benchmark's Pods: peers are those Pods, ``ports`` as
    multiport takes them.
    """

    name: str
    ports: tuple[str, ...]
    protocols: tuple[str, ...] = ("tcp", "udp")


@dataclass(frozen=True)
class Node:
    """What Felix on one node knows. ``encapsulation`` is none, vxlan or ipip; ``selected`` names
    the Pods that ``policy`` selects.
    """

    family: int
    encapsulation: str
    hosts: tuple[str, ...]
    pool: str
    this_host: tuple[str, ...]
    pods: tuple[Pod, ...] = ()
    policy: Policy | None = None
    selected: frozenset[str] = frozenset()
    peers: tuple[str, ...] = ()

    def tunnels(self, kind: str) -> bool:
        return self.encapsulation == kind and (kind == "vxlan" or self.family == 4)


def set_name(family: int, identity: str) -> str:
    """``cali40...`` or ``cali60...``, at most 31 characters (felix/ipsets NameForMainIPSet)."""
    return f"cali{family}0{identity}"[:31]


def peers_set(family: int) -> str:
    """The set that stands for the policy's pod selector; Felix names it by a hash of the
    selector.
    """
    digest = hashlib.sha224(b"projectcalico.org/orchestrator == 'k8s' && role == 'bench'").digest()
    return set_name(family, "s:" + base64.urlsafe_b64encode(digest).decode())


def ipsets(node: Node) -> tuple[IpSet, ...]:
    """All sets that the rules of ``rules`` name."""

    def net(identity: str, members: Iterable[str]) -> IpSet:
        return IpSet(
            set_name(node.family, identity),
            "hash:net",
            node.family,
            tuple(members),
            "maxelem 1048576",
        )

    sets = [
        net("network-ip-pools", [node.pool]),
        net("masq-ipam-pools", [node.pool]),
        net("dscp-src-net", []),
        IpSet(
            set_name(node.family, "this-host"),
            "hash:ip",
            node.family,
            node.this_host,
            "maxelem 1048576",
        ),
    ]
    if node.tunnels("ipip"):
        sets.append(net("all-hosts-net", node.hosts))
    if node.tunnels("vxlan"):
        sets.append(
            net("all-vxlan-net", [host for host in node.hosts if host not in node.this_host])
        )
    if node.policy:
        sets.append(
            IpSet(peers_set(node.family), "hash:net", node.family, node.peers, "maxelem 1048576")
        )
    return tuple(sets)


def rules(node: Node) -> Part:
    """Felix's whole part for one family of one node."""
    return (*_raw(node), *_mangle(node), *_nat(node), *_filter(node), *_workloads(node))


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
            Rule("--jump ACCEPT", _ESTABLISHED),
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


def _workloads(node: Node) -> Iterable[Line]:
    names = sorted(pod.interface for pod in node.pods)
    yield from dispatch(
        "cali-from-wl-dispatch", "cali-fw-", names, lambda name: f"--in-interface {name}"
    )
    yield from dispatch(
        "cali-to-wl-dispatch", "cali-tw-", names, lambda name: f"--out-interface {name}"
    )
    for pod in node.pods:
        policy = node.policy if pod.name in node.selected else None
        profiles = (f"kns.{pod.namespace}", f"ksa.{pod.namespace}.default")
        yield from chain_lines(
            "filter", limited("cali-tw-", pod.interface), _endpoint(node, "i", policy, profiles)
        )
        yield from chain_lines(
            "filter", limited("cali-fw-", pod.interface), _endpoint(node, "o", policy, profiles)
        )
    for namespace in sorted({pod.namespace for pod in node.pods}):
        for letter, way in (("i", "ingress"), ("o", "egress")):
            yield from chain_lines(
                "filter",
                limited(f"cali-pr{letter}-", f"kns.{namespace}"),
                [set_mark(ACCEPT, "", f"Profile kns.{namespace} {way}")],
            )
            account = f"ksa.{namespace}.default"
            yield from chain_lines(
                "filter",
                limited(f"cali-pr{letter}-", account),
                [Rule("", "", (f"Profile {account} {way}",))],
            )
    if node.policy and any(pod.name in node.selected for pod in node.pods):
        yield from chain_lines(
            "filter",
            policy_chain(node.policy, "i"),
            _policy_rules(node, node.policy, "ingress", "src"),
        )
        yield from chain_lines(
            "filter",
            policy_chain(node.policy, "o"),
            _policy_rules(node, node.policy, "egress", "dst"),
        )


def policy_chain(policy: Policy, letter: str) -> str:
    """``cali-pi-knp/...`` (towards the Pod) or ``cali-po-knp/...`` (from it)."""
    return limited(f"cali-p{letter}-", f"knp/{policy.name}")


def _policy_rules(node: Node, policy: Policy, way: str, side: str) -> Sequence[Rule]:
    """Allow sets the accept mark and returns; the last return of a chain is left out
    (ProtoRulesToIptablesRules).
    """
    rules: list[Rule] = []
    for protocol in policy.protocols:
        match = (
            f"-p {protocol} -m set --match-set {peers_set(node.family)} {side} -m multiport"
            f" --destination-ports {','.join(policy.ports)}"
        )
        comments = (f"KubernetesNetworkPolicy {policy.name} {way}",) if not rules else ()
        rules += [set_mark(ACCEPT, match, *comments), Rule("--jump RETURN", marked(ACCEPT))]
    return rules[:-1]


def _endpoint(
    node: Node, letter: str, policy: Policy | None, profiles: Sequence[str]
) -> Sequence[Rule]:
    """cali-tw-* (``letter`` i: to the Pod) and cali-fw-* (o: from it): established first, then
    policies, then profiles.
    """
    rules = [
        Rule("--jump ACCEPT", _ESTABLISHED),
        Rule("--jump DROP", "-m conntrack --ctstate INVALID"),
        clear_mark(ACCEPT | PASS),
    ]
    if letter == "o":
        rules += [
            Rule(
                "--jump DROP",
                f"-p 17 -m multiport --destination-ports {VXLAN_PORT}",
                ("Drop VXLAN encapped packets originating in workloads",),
            ),
            Rule("--jump DROP", "-p 4", ("Drop IPinIP encapped packets originating in workloads",)),
        ]
    if policy:
        rules += [
            clear_mark(PASS, "Start of tier default"),
            jump(policy_chain(policy, letter), unmarked(PASS)),
            Rule("--jump RETURN", marked(ACCEPT), ("Return if policy accepted",)),
            Rule(
                "--jump DROP",
                unmarked(PASS),
                ("End of tier default. Drop if no policies passed packet",),
            ),
        ]
    for profile in profiles:
        rules += [
            jump(limited(f"cali-pr{letter}-", profile)),
            Rule("--jump RETURN", marked(ACCEPT), ("Return if profile accepted",)),
        ]
    return [*rules, Rule("--jump DROP", "", ("Drop if no profiles matched",))]


def dispatch(
    root: str, prefix: str, names: Sequence[str], match: Callable[[str], str]
) -> Iterable[Line]:
    """The shallow tree over interface names: a child chain for each next letter that several names
    share (dispatch.go).
    """
    last = Rule("--jump DROP", "", ("Unknown interface",))
    common = _common_start(names)
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(name[: len(common) + 1], []).append(name)
    top: list[Rule] = []
    for letters, members in groups.items():
        if len(members) == 1:
            top.append(goto(limited(prefix, members[0]), match(members[0])))
            continue
        child = limited(f"{root}-", letters[len(common) :])
        top.append(goto(child, match(f"{letters}+")))
        yield from chain_lines(
            "filter", child, [*(goto(limited(prefix, name), match(name)) for name in members), last]
        )
    yield from chain_lines("filter", root, [*top, last])


def _common_start(names: Sequence[str]) -> str:
    """The letters with which all names begin; one of a single name too."""
    first, last = min(names, default=""), max(names, default="")
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    )
    return first[:same]


def interface_name(namespace: str, pod: str) -> str:
    """``cali`` and eleven letters of SHA-1 of ``namespace.pod`` (libcalico-go
    VethNameForWorkload).
    """
    return "cali" + hashlib.sha1(f"{namespace}.{pod}".encode()).hexdigest()[:11]
