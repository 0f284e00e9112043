"""kube-router's firewall: KUBE-ROUTER-INPUT/FORWARD/OUTPUT, a KUBE-POD-FW- chain for each Pod, the
KUBE-NWPLCY- chains.

Follows cloudnativelabs/kube-router v2.11.1 pkg/controllers/netpol/npc_iptables.go
(ensureTopLevelChains, ensureCommonPolicyChain, ensureDefaultNetworkPolicyChain,
ensureTailChainPosition, ensureExplicitAccept), pod.go (syncPodFirewallChains, setupPodNetpolRules),
routing/network_routes_controller.go (enableForwarding) and routing/pod_egress.go; as deployed by
daemonset/kubeadm-kuberouter.yaml: router and firewall, services left to kube-proxy, no
NetworkPolicy objects.
"""

from __future__ import annotations

from collections.abc import Iterable

from cnibench.clusters.lab.rules.ruleset import (
    IpSet,
    Line,
    Part,
    Pod,
    base32_hash,
    chain,
    end,
    head,
)

_TOP = {
    "INPUT": "KUBE-ROUTER-INPUT",
    "FORWARD": "KUBE-ROUTER-FORWARD",
    "OUTPUT": "KUBE-ROUTER-OUTPUT",
}
_MATCHED, _PASSED = "0x10000/0x10000", "0x20000/0x20000"


def set_name(family: int, name: str) -> str:
    return name if family == 4 else f"inet6:{name}"


def ipsets(family: int, pod_cidrs: Iterable[str], nodes: Iterable[str]) -> tuple[IpSet, ...]:
    """The Pod subnets and the nodes' addresses, which the masquerading rule excepts."""
    return (
        IpSet(
            set_name(family, "kube-router-pod-subnets"),
            "hash:net",
            family,
            tuple(pod_cidrs),
            "timeout 0",
        ),
        IpSet(
            set_name(family, "kube-router-node-ips"), "hash:ip", family, tuple(nodes), "timeout 0"
        ),
    )


def rules(family: int, wire: str, service_cidr: str, pods: Iterable[Pod]) -> Part:
    """kube-router's whole part for one family of one node whose device on the wire is ``wire``."""
    lines: list[Line] = []
    for comment, device in (
        ("allow outbound traffic from pods", "-i kube-bridge"),
        ("allow inbound traffic to pods", "-o kube-bridge"),
        (
            "allow outbound node port traffic on node interface with which node ip is associated",
            f"-o {wire}",
        ),
    ):
        lines.append(
            head("filter", "FORWARD", f'-m comment --comment "{comment}" {device} -j ACCEPT')
        )
    for kernel_chain, name in _TOP.items():
        rule = _identified(
            kernel_chain, ["-m", "comment", "--comment", "kube-router netpol", "-j", name]
        )
        lines += [chain("filter", name), head("filter", kernel_chain, rule)]
    lines += _local_services(service_cidr)
    lines += _common(family)
    comment = "rule to mark traffic matching a network policy"
    lines.append(
        end(
            "filter",
            "KUBE-NWPLCY-DEFAULT",
            f'-m comment --comment "{comment}" -j MARK --set-xmark {_MATCHED}',
        )
    )
    lines.append(
        end(
            "filter",
            "KUBE-NWPLCY-TAIL",
            f'-m comment --comment "accept netpol-ok" -m mark --mark {_PASSED} -j ACCEPT',
        )
    )
    for pod in pods:
        lines += _pod(pod, pod.addresses[family])
    for name in _TOP.values():
        tail = "rule to explicitly handle traffic for network policies ACCEPT/REJECT decision"
        lines.append(end("filter", name, f'-m comment --comment "{tail}" -j KUBE-NWPLCY-TAIL'))
    for name in _TOP.values():
        accept = "rule to explicitly ACCEPT traffic that comply to network policies"
        lines.append(
            end(
                "filter",
                name,
                f'-m comment --comment "{accept}" -m mark --mark {_PASSED} -j ACCEPT',
            )
        )
    pods_set, nodes_set = (
        set_name(family, f"kube-router-{kind}") for kind in ("pod-subnets", "node-ips")
    )
    leaving = (
        f"-m set --match-set {pods_set} src -m set ! --match-set {pods_set} dst -m set !"
        f" --match-set {nodes_set} dst"
    )
    lines.append(end("nat", "POSTROUTING", f"{leaving} -j MASQUERADE --random-fully"))
    return tuple(lines)


def _identified(kernel_chain: str, words: list[str]) -> str:
    """A rule whose comment ends with a hash of itself (addUUIDForRuleSpec)."""
    place = words.index("--comment") + 1
    comment = f'"{words[place]} - {base32_hash(kernel_chain + "".join(words))}"'
    return " ".join([*words[:place], comment, *words[place + 1 :]])


def _local_services(service_cidr: str) -> Iterable[Line]:
    name = _TOP["INPUT"]
    to_services = [
        "-m",
        "comment",
        "--comment",
        "allow traffic to primary/secondary cluster IP range",
        "-d",
        service_cidr,
        "-j",
        "RETURN",
    ]
    yield end("filter", name, _identified(name, to_services))
    for protocol in ("tcp", "udp", "sctp"):
        comment = f"allow LOCAL {protocol.upper()} traffic to node ports"
        yield end(
            "filter",
            name,
            _identified(
                name,
                [
                    "-p",
                    protocol,
                    "-m",
                    "comment",
                    "--comment",
                    comment,
                    "-m",
                    "addrtype",
                    "--dst-type",
                    "LOCAL",
                    "-m",
                    "multiport",
                    "--dports",
                    "30000:32767",
                    "-j",
                    "RETURN",
                ],
            ),
        )


def _common(family: int) -> Iterable[Line]:
    name, icmp = (
        "KUBE-NWPLCY-COMMON",
        "-p icmp --icmp-type" if family == 4 else "-p icmpv6 --icmpv6-type",
    )
    yield end(
        "filter",
        name,
        r'-m comment --comment "\"rule to drop invalid state for pod\"" -m conntrack --ctstate'
        " INVALID -j DROP",
    )
    yield end(
        "filter",
        name,
        r'-m comment --comment "\"rule for stateful firewall for pod\"" -m conntrack --ctstate'
        " RELATED,ESTABLISHED -j ACCEPT",
    )
    kinds = ["echo-request", "destination-unreachable", "time-exceeded"]
    for kind in kinds + (
        ["neighbor-solicitation", "neighbor-advertisement", "echo-reply"] if family == 6 else []
    ):
        words = "echo requests" if kind == "echo-request" else f"{kind.replace('-', ' ')} messages"
        yield end(
            "filter", name, f'-m comment --comment "allow icmp {words}" {icmp} {kind} -j ACCEPT'
        )


def pod_chain(pod: Pod) -> str:
    """KUBE-POD-FW- and sixteen letters of base32(SHA-256), but of a hash without the time."""
    return "KUBE-POD-FW-" + base32_hash(pod.namespace + pod.name)


def _pod(pod: Pod, address: str) -> Iterable[Line]:
    name, who = pod_chain(pod), f"{pod.namespace}/{pod.name}"
    forward, unmatched = _TOP["FORWARD"], f"-m mark ! --mark {_MATCHED}"
    inbound, outbound = (
        f'-m comment --comment "{who} in" -d {address}',
        f'-m comment --comment "{who} out" -s {address}',
    )
    yield chain("filter", name)
    yield end("filter", forward, f"{inbound} -j {name}")
    yield end("filter", _TOP["OUTPUT"], f"{inbound} -j {name}")
    yield end("filter", forward, f"-m physdev --physdev-is-bridged {inbound} -j {name}")
    for top in _TOP.values():
        yield end("filter", top, f"{outbound} -j {name}")
    yield end("filter", forward, f"-m physdev --physdev-is-bridged {outbound} -j {name}")
    for rule in (
        '-m comment --comment "common netpol rules" -j KUBE-NWPLCY-COMMON',
        (
            f'-m comment --comment "from local node" -m addrtype --src-type LOCAL -d {address} -j'
            " ACCEPT"
        ),
        f'-s {address} -m comment --comment "default egress" -j KUBE-NWPLCY-DEFAULT',
        f'-d {address} -m comment --comment "default ingress" -j KUBE-NWPLCY-DEFAULT',
        (
            f'-m comment --comment "{who} log-drop" {unmatched} -m limit --limit 10/minute'
            " --limit-burst 10 -j NFLOG --nflog-group 100"
        ),
        f'-m comment --comment "{who} reject" {unmatched} -j REJECT',
        "-j MARK --set-mark 0/0x10000",
        f'-m comment --comment "set netpol-ok mark" -j MARK --set-mark {_PASSED}',
    ):
        yield end("filter", name, rule)
