"""Felix's chains for the Pods of one node: dispatch by interface, endpoints, profiles, policies.

Follows projectcalico/calico v3.32.1 felix/rules: dispatch.go, endpoints.go, policy.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from cnibench.clusters.lab.rules.calico_node import VXLAN_PORT, Node, Policy, peers_set
from cnibench.clusters.lab.rules.felix import (
    ACCEPT,
    ESTABLISHED,
    PASS,
    Rule,
    chain_lines,
    clear_mark,
    goto,
    jump,
    limited,
    marked,
    set_mark,
    unmarked,
)
from cnibench.clusters.lab.rules.ruleset import Line


def workloads(node: Node) -> Iterable[Line]:
    """Dispatch to the Pods of the node, and their chains."""
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
        Rule("--jump ACCEPT", ESTABLISHED),
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
