"""The comparison of what a cluster's kernels have: what others cause is left out, and nothing
else. The lines are those of a kind cluster with flannel, shortened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from cnibench.clusters.kubernetes.kernel_state import looks
from cnibench.clusters.kubernetes.kernel_state.difference import State, compare
from cnibench.clusters.kubernetes.kernel_state.looks import changes

OWN = ["cnibench-one/", "10.244.1.2"]
BEFORE = [
    ":KUBE-SERVICES -",
    ":KUBE-SVC-ERIFXISQEP7F7OF4 -",
    ":KUBE-SEP-Z3YR3DZJJBAQLYKK -",
    ":KUBE-SVC-AAAAAAAAAAAAAAAA -",
    "-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT",
    '-A KUBE-SERVICES -d 10.96.0.10/32 -m comment --comment "kube-system/kube-dns:dns-tcp"'
    " -j KUBE-SVC-ERIFXISQEP7F7OF4",
    '-A KUBE-SVC-ERIFXISQEP7F7OF4 -m comment --comment "kube-system/kube-dns:dns-tcp -> x:53"'
    " -j KUBE-SEP-Z3YR3DZJJBAQLYKK",
    '-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "cnibench-one/b0" -j ACCEPT',
    "-A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.0.0/16 -j RETURN",
]
OTHERS = [
    ":KUBE-SVC-BBBBBBBBBBBBBBBB -",
    "-A KUBE-SERVICES -d 10.96.7.7/32 -j KUBE-SVC-BBBBBBBBBBBBBBBB",
    ":CNI-DN-0123456789abcdef01234 -",
    "-A CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-0123456789abcdef01234",
    "-A POSTROUTING -s 10.244.1.9/32 -j MASQUERADE",
    "-A FORWARD -i veth0a1b2c3d -j ACCEPT",
]


def state(rules: Sequence[str], **sections: Sequence[str]) -> State:
    return State(
        {f"a: {name}": list(lines) for name, lines in sections.items()},
        {"a": {"iptables-nft-save": list(rules)}},
        frozenset({"10.96.0.10", "10.96.7.7", "10.244.1.9", "fd00::9"}),
        {"a": frozenset({"veth0a1b2c3d", "lxc1"})},
    )


def failed(before: State, after: State) -> Mapping[str, str]:
    return {
        check: f"{expected} | {observed}"
        for check, expected, observed, passed in compare(before, after, ["a"], OWN)
        if not passed
    }


def test_what_others_cause_is_not_compared() -> None:
    before = state(BEFORE, routes=["10.244.1.0/24 dev cni0"], sysctls=["core/a 1"])
    after = state(
        [*BEFORE[:4], *OTHERS, *BEFORE[4:5], *BEFORE[7:]],
        routes=["10.244.1.0/24 dev cni0", "10.244.1.9/32 dev cni0", "fd00:0::9/128 dev lxc1"],
        sysctls=["core/a 1", "core/of-a-module 7"],
    )
    assert failed(before, after) == {}


@pytest.mark.parametrize("gone", [4, 7, 8])
def test_a_rule_that_is_gone_is_found(gone: int) -> None:
    after = [line for number, line in enumerate(BEFORE) if number != gone]
    assert BEFORE[gone] in failed(state(BEFORE), state(after))["kernel-state-a"]


NO_ENDPOINTS = (
    '-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment "{} has no endpoints" -m addrtype'
    " --dst-type LOCAL -m tcp --dport 30271 -j REJECT --reject-with icmp-port-unreachable"
)


def test_a_node_port_of_others_without_endpoints_is_not_compared() -> None:
    """Its rule has no address: the Pods of a Service may go before it does."""
    before, after = state([*BEFORE, NO_ENDPOINTS.format("others/early")]), state(BEFORE)
    assert not failed(before, after)
    assert not failed(after, before)


def test_a_node_port_of_ours_that_has_no_endpoints_is_found() -> None:
    found = failed(state(BEFORE), state([*BEFORE, NO_ENDPOINTS.format("cnibench-one/b0")]))
    assert "has no endpoints" in found["kernel-state-a"]


def test_the_order_of_rules_counts() -> None:
    after = [*BEFORE[:4], BEFORE[8], *BEFORE[5:8], BEFORE[4]]
    assert "FLANNEL-POSTRTG" in failed(state(BEFORE), state(after))["kernel-state-a"]


@pytest.mark.parametrize(
    ("section", "before", "after"),
    [
        (
            "sysctls",
            "netfilter/nf_conntrack_tcp_be_liberal 0",
            "netfilter/nf_conntrack_tcp_be_liberal 1",
        ),
        ("routes", "10.244.1.0/24 dev flannel.1", "10.244.1.0/24 dev eth0"),
        ("programs", "program cil_from_container tag 12", "program cil_from_container tag 13"),
        ("offload", "eth0 features tx-tcp-segmentation", "eth0 features"),
        ("neighbours", "neighbour eth0 10.244.1.90", "neighbour eth0 10.244.1.91"),
    ],
)
def test_a_changed_line_is_named(section: str, before: str, after: str) -> None:
    found = failed(state(BEFORE, **{section: [before]}), state(BEFORE, **{section: [after]}))
    assert found == {"kernel-state-a": f"{section}: {before} | {section}: {after}"}


def test_the_lines_of_nft_are_compared_with_the_chain_they_are_in() -> None:
    def of(verdict: str, chain: str) -> State:
        lines = ["table ip own {", f"\tchain {chain} {{", f"\t\t{verdict}", "\t}", "}"]
        return State({}, {"a": {"nft": lines}}, frozenset(), {})

    assert failed(of("accept", "fwd"), of("accept", "fwd")) == {}
    assert "chain fwd: drop" in failed(of("accept", "fwd"), of("drop", "fwd"))["kernel-state-a"]
    other = "service-ABCD2345-default/late/tcp/p"
    assert failed(of("accept", other), of("drop", other)) == {}


def of_map(*elements: str) -> State:
    """A map as 'nft list ruleset' writes it: elements end with commas, the last with a brace."""
    first, *more = elements
    lines = ["table ip kube-proxy {", "\tmap service-ips {", "\t\ttype ipv4_addr : verdict"]
    lines += [f"\t\telements = {{ {first}", *(f"\t\t\t     {one}" for one in more)]
    ended = [*(f"{line}," if "goto" in line else line for line in lines[:-1]), f"{lines[-1]} }}"]
    nft = {"a": {"nft": [*ended, "\t}", "}"]}}
    return State({}, nft, frozenset({"10.96.7.7", "10.96.9.9"}), {})


OURS = "10.96.0.10 : goto service-ABCD2345-cnibench-one/b0/tcp/p"
THEIRS = [f"10.96.{n}.{n} : goto service-{n}BCD2345-default/late/tcp/p" for n in (7, 9)]


@pytest.mark.parametrize("after", [[*THEIRS, OURS], [OURS, *THEIRS], [THEIRS[0], OURS, THEIRS[1]]])
def test_elements_of_others_in_a_map_of_ours_are_not_compared(after: Sequence[str]) -> None:
    assert failed(of_map(OURS), of_map(*after)) == {}
    assert failed(of_map(*after), of_map(OURS)) == {}


def test_an_element_of_ours_that_changes_or_goes_is_found() -> None:
    changed = OURS.replace("goto", "jump")
    for after in (of_map(changed, THEIRS[0]), of_map(*THEIRS)):
        said = failed(of_map(OURS, THEIRS[0]), after)["kernel-state-a"]
        assert f"map service-ips: {OURS}" in said


def test_an_address_that_begins_like_one_of_ours_is_not_ours() -> None:
    other = "-A KUBE-SEP-CCCCCCCCCCCCCCCC -s 10.244.1.25/32 -j KUBE-MARK-MASQ"  # ours: 10.244.1.2
    assert failed(state([*BEFORE, other]), state(BEFORE)) == {}
    mine = "-A KUBE-SEP-DDDDDDDDDDDDDDDD -s 10.244.1.2/32 -j KUBE-MARK-MASQ"
    assert mine in failed(state([*BEFORE, mine]), state(BEFORE))["kernel-state-a"]


class Api:
    """Counts what is listed. A Service of somebody else has come after the installation."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def listed(self, kind: str) -> list[Any]:
        self.asked.append(kind)
        return [{"spec": {"clusterIPs": ["10.96.7.7"]}}] if kind == "services" else []


NODE = cast(Any, type("Node", (), {"name": "a", "addresses": {4: "192.0.2.1"}}))
LATE = "-A POSTROUTING -s 10.96.7.7/32 -j MASQUERADE"


@pytest.mark.parametrize(
    ("rules", "asked", "passed"),
    [
        (BEFORE, [], True),
        ([*BEFORE, LATE], ["pods", "services"], True),
        (BEFORE[:-1], 3 * ["pods", "services"], False),
    ],
)
def test_the_api_is_asked_for_others_only_where_something_differs(
    monkeypatch: pytest.MonkeyPatch, rules: Sequence[str], asked: Sequence[str], passed: bool
) -> None:
    api, unknown = Api(), frozenset({"10.96.0.10"})
    monkeypatch.setattr(looks, "_look", lambda *_: replace(state(rules), others=frozenset()))
    monkeypatch.setattr(looks, "_LASTS", 0.0)
    before = replace(state(BEFORE), others=unknown)
    found = changes(cast(Any, api), "cnibench-one", [NODE], before)
    assert [ok for *_, ok in found] == [passed]
    assert api.asked == asked
