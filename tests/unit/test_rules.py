"""The packet filter texts: names and hashes that real nodes have, order, shape, and no jump to a
chain that is not there.
"""

from __future__ import annotations

import ipaddress
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.clusters.lab.rules import (
    calico,
    calico_arp,
    calico_node,
    calico_workloads,
    cilium,
    docker,
    felix,
    flannel,
    kubeproxy,
    kuberouter,
    services,
)
from cnibench.clusters.lab.rules.ruleset import IpSet, Pod, chain, end, head, ipset_text, save_text

CIDRS = {
    4: ("10.244.0.0/16", "10.244.0.0/24", "10.96.0.0/12"),
    6: ("fd00:10:244::/56", "fd00:10:244::/64", "fd00:10:96::/112"),
}
HOSTS = {4: ("192.168.100.1", "192.168.100.2"), 6: ("fd00:100::1", "fd00:100::2")}


def pods(count: int) -> tuple[Pod, ...]:
    v6 = ipaddress.IPv6Address("fd00:10:244::")
    return tuple(
        Pod(
            f"a{n}",
            {4: f"10.244.0.{n + 2}", 6: str(v6 + n + 2)},
            calico_node.interface_name("cnibench", f"a{n}"),
        )
        for n in range(count)
    )


def node(
    family: int = 4, encapsulation: str = "vxlan", count: int = 2, policy: bool = False
) -> calico_node.Node:
    members = pods(count)
    return calico_node.Node(
        family,
        encapsulation,
        HOSTS[family],
        CIDRS[family][0],
        HOSTS[family][:1],
        members,
        calico_node.Policy("cnibench/bench", ("80", "10000:65000")) if policy else None,
        frozenset(pod.name for pod in members[:-1]),
        tuple(pod.addresses[family] for pod in members[:-1]),
    )


def proxy(family: int = 4, **more: object) -> tuple[object, ...]:
    known = services.default_services(
        family,
        HOSTS[family][0],
        ["10.244.0.3", "10.244.0.4"] if family == 4 else ["fd00:10:244::3"],
    )
    return (*kubeproxy.kubelet(family), *kubeproxy.rules(family, CIDRS[family][0], known))


def of_chain(text: str, table: str, name: str) -> list[str]:
    part = text.split(f"*{table}\n")[1].split("COMMIT")[0]
    return [
        line.removeprefix(f"-A {name} ")
        for line in part.splitlines()
        if line.startswith(f"-A {name} ")
    ]


@cache
def every_text() -> dict[str, str]:
    found = {}
    for family in (4, 6):
        cluster, mine, services = CIDRS[family]
        found[f"flannel{family}"] = save_text([proxy(family), flannel.rules(family, cluster, mine)])
        found[f"kube-router{family}"] = save_text(
            [proxy(family), kuberouter.rules(family, "eth0", services, pods(3))]
        )
        found[f"docker{family}"] = save_text([docker.rules(family, "docker0", mine)])
        for masquerade in ("tunnel", "native", "none"):
            found[f"cilium-{masquerade}{family}"] = save_text(
                [proxy(family), cilium.rules(family, cluster, mine, "ROUTER", masquerade)]
            )
        for encapsulation in ("none", "vxlan", "ipip"):
            for policy in (False, True):
                found[f"calico-{encapsulation}-{policy}{family}"] = save_text(
                    [proxy(family), calico.rules(node(family, encapsulation, 20, policy))]
                )
    return found


def test_texts_are_whole_tables_without_dangling_jumps() -> None:
    for name, text in every_text().items():
        assert text.count("COMMIT\n") == 4, name
        for line in text.splitlines():
            assert len(line) < 1000
            assert line.count('"') % 2 == 0, (name, line)
            if line.startswith(":"):
                assert len(line.split()[0]) <= 29, (name, line)  # XT_EXTENSION_MAXNAMELEN


def test_a_jump_to_a_chain_that_nobody_makes_is_refused() -> None:
    with pytest.raises(ValueError, match="NOWHERE"):
        save_text([[end("filter", "FORWARD", "-j NOWHERE")]])


def test_parts_are_played_in_order() -> None:
    text = save_text(
        [
            [head("filter", "FORWARD", "-j ACCEPT")],
            [
                chain("filter", "X"),
                head("filter", "FORWARD", "-j X"),
                end("filter", "FORWARD", "-j DROP"),
            ],
        ]
    )
    assert of_chain(text, "filter", "FORWARD") == ["-j X", "-j ACCEPT", "-j DROP"]


def test_kube_proxy_names_its_chains_as_on_every_cluster() -> None:
    """The hashes of these four ports are the same on all clusters: they depend on name and protocol
    alone.
    """
    text = save_text([proxy()])
    for name in ("NPX46M4PTMTKRN6Y", "TCOU7JCQXEZGVUNU", "ERIFXISQEP7F7OF4", "JD5MR3NA4I4DYORP"):
        assert f":KUBE-SVC-{name} - [0:0]" in text
    assert len(of_chain(text, "nat", "KUBE-SERVICES")) == 5
    assert "KUBE-NODEPORTS" in of_chain(text, "nat", "KUBE-SERVICES")[-1]
    assert "--probability 0.5000000000" in text


def test_kube_proxy_puts_the_firewall_first_and_the_services_behind() -> None:
    order = [
        re.sub(".*-j ", "", rule) for rule in of_chain(save_text([proxy()]), "filter", "FORWARD")
    ]
    assert order == [
        "KUBE-PROXY-FIREWALL",
        "KUBE-FORWARD",
        "KUBE-SERVICES",
        "KUBE-EXTERNAL-SERVICES",
    ]


def test_kube_proxy_node_port() -> None:
    service = services.Service(
        "cnibench/web:http", "tcp", "10.96.7.7", 80, (("10.244.0.2", 80),), node_port=30080
    )
    text = save_text([kubeproxy.rules(4, CIDRS[4][0], [service])])
    assert any(
        "--dport 30080 -j KUBE-EXT-" in rule for rule in of_chain(text, "nat", "KUBE-NODEPORTS")
    )
    assert "--to-destination 10.244.0.2:80" in text


def test_flannel_comes_after_kube_proxy() -> None:
    text = every_text()["flannel4"]
    assert "FLANNEL-FWD" in of_chain(text, "filter", "FORWARD")[-1]
    assert [re.sub(".*-j ", "", rule) for rule in of_chain(text, "nat", "POSTROUTING")] == [
        "KUBE-POSTROUTING",
        "FLANNEL-POSTRTG",
    ]
    assert len(of_chain(text, "nat", "FLANNEL-POSTRTG")) == 6
    assert "ff00::/8" in every_text()["flannel6"]


def test_felix_rules_carry_the_hashes_of_real_nodes() -> None:
    """A hash covers its rule and all before it in the chain, so equal hashes mean equal chains
    (felix/fv/cali-iptables-dump.txt).
    """
    text = save_text([calico.rules(node(count=0))])
    real = {
        "Cz_u1IQiXIMmKD4c",
        "wUHhoiAYhphO9Mso",
        "tVnHkvAo15HuiPy0",
        "6gwbT8clXdHdC1b1",
        "O3lYWMrLQYEMJtB5",
        "0i8pjzKKPyA34aQD",
        "mp77cMpurHhyjLrM",
        "rnKNH2WxGcRQcIlD",
        "5W9XghKma9wuz47x",
        "wgnULo2gucg1umsA",
        "Jefg6QI5khJcHnVl",
        "MGhICIksKDnYMIkW",
        "Cg96MgVuoPm7UMRo",
        "nSZbcOoG1xPONxb8",
        "nYKhEzDlr11Jccal",
        "zTj6P0TIgYvgz-md",
        "7KNphB1nNHw80nIO",
        "e9dnSgSVNmIcpVhP",
        "r6XmIziWUJsdOK6Z",
    }
    assert not real - set(re.findall(r"cali:([\w-]{16})", text))


def test_felix_shortens_names_as_upstream() -> None:
    assert felix.limited("cali-tw-", "cali0123456789a") == "cali-tw-cali0123456789a"
    assert len(felix.limited("cali-pri-", "ksa.kube-system.a-very-long-account-name")) == 28
    assert felix.limited("cali-pri-", "ksa.kube-system.a-very-long-account-name")[9] == "_"


def test_felix_dispatches_through_a_tree_when_names_share_letters() -> None:
    names = ["cali1a", "cali1b", "cali2c"]
    text = save_text(
        [
            [
                *calico_workloads.dispatch(
                    "cali-to-wl-dispatch", "cali-tw-", names, lambda name: f"--out-interface {name}"
                ),
                *(chain("filter", f"cali-tw-{name}") for name in names),
            ]
        ]
    )
    root = of_chain(text, "filter", "cali-to-wl-dispatch")
    assert [re.sub(r".*cali:[\w-]{16}\" ", "", rule) for rule in root] == [
        "--out-interface cali1+ --goto cali-to-wl-dispatch-1",
        "--out-interface cali2c --goto cali-tw-cali2c",
        '-m comment --comment "Unknown interface" --jump DROP',
    ]
    assert len(of_chain(text, "filter", "cali-to-wl-dispatch-1")) == 3


def test_felix_endpoint_accepts_established_first_and_drops_last() -> None:
    member = pods(2)[0]
    for policy, jumps in ((False, 2), (True, 3)):
        text = save_text([calico.rules(node(policy=policy))])
        for letter in ("t", "f"):
            rules = of_chain(text, "filter", f"cali-{letter}w-{member.interface}")
            assert "RELATED,ESTABLISHED --jump ACCEPT" in rules[0]
            assert rules[-1].endswith('"Drop if no profiles matched" --jump DROP')
            assert sum("--jump cali-p" in rule for rule in rules) == jumps
    stranger = of_chain(text, "filter", f"cali-tw-{pods(2)[1].interface}")
    assert not any("cali-pi-" in rule for rule in stranger)


def test_policy_opens_its_ports_to_its_peers_only() -> None:
    described = node(policy=True)
    assert described.policy
    text = save_text([calico.rules(described)])
    rules = of_chain(text, "filter", calico_workloads.policy_chain(described.policy, "i"))
    assert len(rules) == 3  # mark and return for TCP, mark for UDP: the last return is left out
    assert (
        f"-p tcp -m set --match-set {calico_node.peers_set(4)} src -m multiport --destination-ports"
        " 80,10000:65000 --jump MARK" in rules[0]
    )
    sets = {item.name: item for item in calico_node.ipsets(described)}
    assert sets[calico_node.peers_set(4)].members == ("10.244.0.2",)


def test_names_and_hashes_are_those_of_a_real_felix() -> None:
    """As calico-node v3.32.1 wrote them for this Pod and for the policy of the lab."""
    assert calico_node.peers_set(4) == "cali40s:E0NJ9SiJyXUYgQHxdaGDSti"
    text = calico_arp.table([Pod("a0", {4: "10.244.0.2"}, "calid635176fd12")])
    assert re.findall("cali:([^;]+);", text) == [
        "M5ZyLTwdpKLA5dzX",
        "mNoxCVnxd-GKMMeq",
        "sTW69d973H-X0MF0",
    ]


def test_every_set_that_rules_name_is_made() -> None:
    for family in (4, 6):
        for encapsulation in ("none", "vxlan", "ipip"):
            described = node(family, encapsulation, 3, True)
            named = set(re.findall(r"--match-set (\S+)", save_text([calico.rules(described)])))
            assert named <= {item.name for item in calico_node.ipsets(described)}
            assert all(len(name) <= 31 for name in named)
    named = set(re.findall(r"--match-set (\S+)", every_text()["kube-router6"]))
    assert named == {item.name for item in kuberouter.ipsets(6, [], [])}


def test_ipip_lets_calico_hosts_in_and_others_not() -> None:
    text = save_text([calico.rules(node(encapsulation="ipip"))])
    rules = of_chain(text, "filter", "cali-INPUT")
    assert (
        "-p 4 -m set --match-set cali40all-hosts-net src -m addrtype --dst-type LOCAL --jump ACCEPT"
        in rules[0]
    )
    assert rules[1].endswith("-p 4 --jump DROP")
    assert any(
        "--out-interface tunl0" in rule for rule in of_chain(text, "nat", "cali-POSTROUTING")
    )
    assert "tunl0" not in save_text(
        [calico.rules(node(6, "ipip"))]
    )  # Calico has no IP-in-IP for IPv6


def test_kube_router_is_first_in_every_chain_with_its_own_identity() -> None:
    text = every_text()["kube-router4"]
    identities = {
        "INPUT": "4IA2OSFRMVNDXBVV",
        "FORWARD": "TEMCG2JMHZYE7H7T",
        "OUTPUT": "VEAAIY32XVBHCSCY",
    }
    for name, identity in identities.items():
        assert (
            of_chain(text, "filter", name)[0]
            == f'-m comment --comment "kube-router netpol - {identity}" -j KUBE-ROUTER-{name}'
        )
    forward = of_chain(text, "filter", "KUBE-ROUTER-FORWARD")
    assert len(forward) == 3 * 4 + 2
    assert "KUBE-NWPLCY-TAIL" in forward[-2]
    firewall = of_chain(text, "filter", kuberouter.pod_chain(pods(1)[0]))
    assert "KUBE-NWPLCY-COMMON" in firewall[0]
    assert firewall[-1].endswith("--set-mark 0x20000/0x20000")


def test_cilium_masquerades_as_its_mode_needs_and_comes_before_kube_proxy() -> None:
    for family in (4, 6):
        tunnel, native, none = (
            every_text()[f"cilium-{mode}{family}"] for mode in ("tunnel", "native", "none")
        )
        assert of_chain(tunnel, "nat", "POSTROUTING")[0].endswith("-j CILIUM_POST_nat")
        assert [
            len(of_chain(text, "nat", "CILIUM_POST_nat")) for text in (tunnel, native, none)
        ] == [5, 5, 0]
        assert any(
            "-j SNAT --to-source ROUTER" in rule
            for rule in of_chain(tunnel, "nat", "CILIUM_POST_nat")
        )
        named = cilium.nodes_set(family, HOSTS[family])
        assert f"--match-set {named.name} dst" in of_chain(native, "nat", "CILIUM_POST_nat")[0]
        assert "--match-set" not in tunnel + none
        assert ("CILIUM_PRE_nat" in tunnel) == (family == 4)


def test_docker_writes_twelve_rules() -> None:
    """The number that bruijn2017 gives for a host with Docker and no policies."""
    assert every_text()["docker4"].count("\n-A ") == 12
    assert "-A" not in every_text()["docker6"]


@given(st.lists(st.ip_addresses(v=4).map(str), max_size=20))
def test_ipset_text_makes_flushes_and_fills(members: list[str]) -> None:
    lines = ipset_text([IpSet("one", "hash:ip", 4, tuple(members), "timeout 0")]).splitlines()
    assert lines[:2] == ["create one hash:ip family inet timeout 0", "flush one"]
    assert lines[2:] == [f"add one {member}" for member in members]


@settings(max_examples=10, deadline=None)
@given(st.integers(min_value=0, max_value=60))
def test_every_pod_has_its_own_chains_and_no_interface_name_is_too_long(count: int) -> None:
    members = pods(count)
    text = save_text(
        [calico.rules(node(count=count)), kuberouter.rules(4, "eth0", CIDRS[4][2], members)]
    )
    assert len({pod.interface for pod in members}) == count
    assert all(len(pod.interface) == 15 for pod in members)
    assert len(set(re.findall(r"^:(cali-[tf]w-\S+)", text, re.M))) == 2 * count
    assert len(set(re.findall(r"^:(KUBE-POD-FW-\S+)", text, re.M))) == count
