"""The listing of a namespace has what somebody put there, and not what the kernel adds later."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from cnibench.clusters.lab.namespaces import links, sysctls
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.listing import filters, legacy, listeners, netfilter, programs, queueing, routing
from cnibench.listing.devices import addresses, devices, neighbour_settings
from tests.lab import _sabotage_ebpf, _sabotage_namespace


@pytest.fixture
def ns() -> Iterator[Namespace]:
    with ExitStack() as made:
        here, there = Namespace("listing-a"), Namespace("listing-b")
        made.callback(here.remove)
        made.callback(there.remove)
        here.sysctl(sysctls.node())
        links.veth(here, "eth0", there, "eth0")
        yield here


def ip(ns: Namespace, words: str) -> str:
    return subprocess.run(
        ["nsenter", f"--net={ns.path}", *words.split()],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout


def listed(ns: Namespace) -> list[str]:
    names = {index: name for name, index in ns.links.items()}
    with ns.inside():
        return routing.routes(names) + routing.neighbours(names)


def test_a_router_s_anycast_addresses_and_their_groups_are_not_listed(ns: Namespace) -> None:
    """The kernel adds them some time after the address: within milliseconds, or not for seconds
    on a busy machine."""
    links.address(ns, "eth0", "fd00:100::1/64")
    end = time.monotonic() + 30.0
    while "fd00:100::" not in ip(ns, "ip -6 route show table local type anycast"):
        assert time.monotonic() < end, "no anycast route"
        time.sleep(0.01)
    assert "33:33:" in ip(ns, "bridge fdb show dev eth0")
    assert [line for line in listed(ns) if "type 4" in line or "33:33:" in line] == []


def test_what_somebody_added_is_listed(ns: Namespace) -> None:
    links.address(ns, "eth0", "fd00:100::1/64")
    ip(ns, "ip -6 route add anycast fd00:5::9/128 dev eth0")
    ip(ns, "bridge fdb add 02:00:00:00:00:07 dev eth0 self")
    found = listed(ns)
    assert any(line.startswith("fd00:5::9/128 type 4") for line in found), found
    assert any("02:00:00:00:00:07" in line for line in found), found


def test_an_address_s_route_that_somebody_tuned_is_listed(ns: Namespace) -> None:
    """What a connection within a node takes: a small MTU there makes it several times as slow."""
    links.address(ns, "eth0", "10.5.0.1/24")
    own = "local 10.5.0.1 dev eth0 table local proto kernel scope host src 10.5.0.1"
    before = listed(ns)
    ip(ns, f"ip route change {own} mtu 1500")
    assert [line for line in listed(ns) if line not in before and "mtu 1500" in line]
    own = "fd00:5::9/128 dev eth0 table local proto kernel"
    ip(ns, f"ip -6 route add local {own} congctl reno")
    assert not [line for line in listed(ns) if "fd00:5::9" in line], "as the lab's own"
    ip(ns, f"ip -6 route replace local {own} congctl reno advmss 500")
    assert [line for line in listed(ns) if "fd00:5::9" in line and "advmss 500" in line]


def test_chains_of_another_type_differ(ns: Namespace) -> None:
    """A chain of the type route finds the route again for a packet that was marked."""
    chains = []
    for kind in ("filter", "route"):
        ip(ns, "nft add table ip s")
        ns.run(["nft", f"add chain ip s o {{ type {kind} hook output priority 0; }}"])
        with ns.inside():
            chains.append(netfilter.nftables()["chain ip s o"])
        ip(ns, "nft delete table ip s")
    assert chains[0] != chains[1]


def test_sockets_that_cost_packets_time_are_listed_and_others_are_not(ns: Namespace) -> None:
    names = {ns.links["eth0"]: "eth0"}

    def found() -> list[str]:
        with ns.inside():
            return listeners.listeners(names)

    with ns.inside(), ExitStack() as opened:
        for protocol in (0x0003, 0x0800):  # a DHCP client's is of one protocol
            one = opened.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
            one.bind(("eth0", protocol))
        for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_ICMP):
            opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol))
        for groups in (0x1, 0x40):  # of conntrack, of nf_tables
            one = opened.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))
            one.bind((0, groups))
        every = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        opened.enter_context(every)
        assert found() == [
            "a netlink socket about conntrack",
            "a packet socket on all devices",
            "a packet socket on eth0",
            "a raw socket of TCP",
        ]
    assert found() == []


def test_another_xdp_program_is_listed_by_its_hash(ns: Namespace) -> None:
    """The kernel says what is at that hook with the device alone."""

    def xdp() -> list[str]:
        with ns.inside():
            there = list(programs.attached(devices()))
            assert [where for where, _ in there] == ["eth0 xdp"]
            return list(programs.program_lines([program for _, program in there], {}))

    _sabotage_ebpf.xdp(ns, "eth0", _sabotage_ebpf.GENERIC)
    before = xdp()
    _sabotage_ebpf.xdp(ns, "eth0", _sabotage_ebpf.GENERIC, register=2)
    assert len(before) == 1
    assert xdp() != before


def test_the_number_of_devices_does_not_change_the_settings_of_others(ns: Namespace) -> None:
    """A dump of both tables repeats their defaults, or lacks devices, as messages are filled."""

    def settings() -> list[str]:
        with ns.inside():
            return neighbour_settings({1: "lo"})

    before = settings()
    assert any(line.startswith("ndisc_cache default ") for line in before)
    for number in range(20):
        ns.run(["ip", "link", "add", f"x{number}", "type", "veth", "peer", "name", f"y{number}"])
        assert settings() == before, number


def test_an_address_is_listed_alike_before_and_after_it_is_known_to_be_the_only_one(
    ns: Namespace,
) -> None:
    def tentative() -> str:
        return ip(ns, "ip -6 address show dev x0 tentative")

    def found() -> list[str]:
        with ns.inside():
            mine = [one for one in devices() if one.name == "x0"]
            options = [line for one in mine for line in one.options if " ipv6.flags " in line]
            return addresses({one.number: one.name for one in mine}) + options

    ip(ns, "ip link add x0 type veth peer name x1")
    conf = "net.ipv6.conf.x0."
    ip(ns, f"sysctl -qw {conf}accept_dad=1 {conf}dad_transmits=1 {conf}router_solicitations=3")
    ip(ns, "ip link set x1 up")
    ip(ns, "ip link set x0 up")
    ip(ns, "ip address add fd00:9::1/64 dev x0")
    assert tentative()
    before = found()
    assert any("fd00:9::1" in line for line in before)
    deadline = time.monotonic() + 20
    while tentative():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert found() == before


def at_queues(ns: Namespace) -> list[str]:
    names = {ns.links["eth0"]: "eth0"}
    with ns.inside():
        lines, places = queueing.disciplines(names)
        return lines + [line for line, _ in filters.filters(names, places)]


@pytest.mark.parametrize(
    "change",
    [
        "class change dev eth0 parent 1: classid 1:10 htb rate 2gbit",
        "filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.5.0.9/32 flowid 1:10",
        "filter add dev eth0 parent 1:10 protocol ip u32 match ip dst 10.5.0.9/32 flowid 1:10",
        "filter add dev eth0 parent ffff: chain 7 protocol ip u32 match ip dst 10.5.0.9/32",
        "filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress mirror"
        " dev lo",
    ],
)
def test_classes_of_queues_and_filters_at_each_of_them_are_listed(
    ns: Namespace, change: str
) -> None:
    ip(ns, "tc qdisc add dev eth0 root handle 1: htb default 10")
    ip(ns, "tc class add dev eth0 parent 1: classid 1:10 htb rate 1gbit")
    ip(ns, "tc qdisc add dev eth0 ingress")
    before = at_queues(ns)
    ip(ns, f"tc {change}")
    after = at_queues(ns)
    assert after != before
    assert len(after) == len(set(after)), "each once"


def test_packets_do_not_change_what_is_listed_of_queues_and_filters(ns: Namespace) -> None:
    """HTB counts those that no class has, an action those that it was applied to, and when."""
    links.address(ns, "eth0", "10.5.0.1/24")
    ip(ns, "ip neigh add 10.5.0.2 lladdr 02:00:00:00:00:07 dev eth0")
    ip(ns, "tc qdisc add dev eth0 root handle 1: htb")
    match = "protocol ip u32 match ip dst 10.5.0.2/32 action mirred egress mirror dev lo"
    ip(ns, f"tc filter add dev eth0 parent 1: {match}")
    before = at_queues(ns)
    with ns.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(3):
            sender.sendto(b"x", ("10.5.0.2", 9))
    assert "3 pkt" in ip(ns, "tc -s filter show dev eth0")
    assert at_queues(ns) == before


def test_rules_of_arptables_are_listed_and_a_listing_makes_no_table(ns: Namespace) -> None:
    def found() -> dict[str, list[str]]:
        with ns.inside():
            return legacy.tables()

    def made() -> str:
        return ip(ns, "cat /proc/net/arp_tables_names")

    assert found() == {}
    assert made() == ""
    _sabotage_namespace.arptables(ns)
    assert made() == "filter\n"
    first = found()["arptables filter"]
    assert len(first) == 5, "a rule, three policies, the end"
    assert first[0] == first[1]
    _sabotage_namespace.arptables(ns)
    assert len(found()["arptables filter"]) == 6
