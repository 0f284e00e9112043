"""Nothing carries over from cell to cell: connection tracking, connection tables of eBPF programs, TIME_WAIT sockets."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cnibench.cell import Cell
from cnibench.clusters.lab.datapaths.ebpf import Ebpf
from cnibench.clusters.lab.netns import Namespace
from cnibench.clusters.lab.stand import Stand
from cnibench.collectors import sizes
from cnibench.situation import Situation

Make = Callable[..., Stand]


def time_wait(ns: Namespace) -> int:
    found = re.search(r"\btw (\d+)", ns.read("/proc/net/sockstat"))
    assert found
    return int(found[1])


def tracked(ns: Namespace) -> int:
    """Entries of TCP connections to netserver's ports in the namespace's connection tracking table."""
    return sum(ns.run(["conntrack", "-L", "-f", family, "-p", "tcp"]).stdout.count("\n") for family in ("ipv4", "ipv6"))


def connect(stand: Stand, ip: int, test: str) -> None:
    """netperf between the nodes; tried again until the server listens."""
    client, server = stand.pair("inter")
    argv = ["netperf", f"-{ip}", "-H", server.addresses[ip], "-t", test, "-l", "1"]
    end = time.monotonic() + 30
    while (done := client.run(argv, timeout=30, check=False)).returncode:
        assert time.monotonic() < end, done.words()
        time.sleep(0.05)


@pytest.mark.parametrize("profile", ["flannel", "cilium"])
def test_settling_forgets_the_connections_of_the_last_cell(make_stand: Make, profile: str) -> None:
    stand = make_stand(profile, ip=(4, 6))
    client, server = stand.pair("inter")
    for ip in (4, 6):
        with server.spawn(["netserver", "-D", f"-{ip}"]):
            connect(stand, ip, "TCP_CRR")
        assert all(tracked(node.ns) > 10 for node in stand.nodes())
        assert time_wait(client.ns) + time_wait(server.ns) > 10
        stand.settle()
        assert [tracked(node.ns) for node in stand.nodes()] == [0, 0]
        assert {time_wait(pod.ns) for pod in stand.pods()} == {0}
        if isinstance(stand.datapath, Ebpf):
            assert [maps.connections(family) for maps in stand.datapath.maps.values() for family in (4, 6)] == [[]] * 4
        stand.settle()  # of nothing


def test_settling_leaves_what_listens(make_stand: Make) -> None:
    stand = make_stand("flannel")
    with stand.pair("inter")[1].spawn(["netserver", "-D", "-4"]) as server:
        connect(stand, 4, "TCP_CRR")
        stand.settle()
        connect(stand, 4, "TCP_RR")
        assert server.poll() is None


def test_sizes_are_read_from_the_tunnel_that_the_family_takes(make_stand: Make, tmp_path: Path) -> None:
    stand = make_stand("flannel", ip=(4, 6))
    client, server = stand.pair("inter")
    for ip, device in ((4, "flannel.1"), (6, "flannel-v6.1")):
        cell = Cell(label=stand.label, profile="flannel", placement="inter", workload="tcp-rr", ip=ip)
        s = Situation(cell, 0, stand, client, server, 1.0, 0.0, tmp_path, 0, 0)
        assert [(at, name) for at, _, name in sizes.path(s)] == [("pod", "eth0"), ("tunnel", device), ("wire", "eth0")]
        assert {stand.tunnel_on(node, ip) for node in stand.nodes()} == {device}
