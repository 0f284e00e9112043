"""Nothing carries over from cell to cell: connection tracking, connection tables of eBPF programs,
TIME_WAIT sockets.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cnibench.clusters.lab.builders.programs import Programs
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.collectors import sizes
from cnibench.model.cell import Cell
from cnibench.run.sample_context import SampleContext

Make = Callable[..., LabDeployment]


def time_wait(ns: Namespace) -> int:
    found = re.search(r"\btw (\d+)", ns.read("/proc/net/sockstat"))
    assert found
    return int(found[1])


def tracked(ns: Namespace) -> int:
    """Entries of the namespace's connection tracking table: the Pods' connections, or the flows of
    the tunnel that they are in.
    """
    return int(ns.run(["conntrack", "-C"]).stdout)


def connect(deployment: LabDeployment, ip: int, test: str) -> None:
    """A hundred transactions of netperf between the nodes, however long they take; tried again
    until the server listens.
    """
    client, server = deployment.pair("inter")
    argv = ["netperf", f"-{ip}", "-H", server.addresses[ip], "-t", test, "-l", "-100"]
    end = time.monotonic() + 30
    while (done := client.run(argv, timeout=30, check=False)).returncode:
        assert time.monotonic() < end, done.words()
        time.sleep(0.05)


@pytest.mark.parametrize("profile", ["flannel", "cilium"])
def test_settling_forgets_the_connections_of_the_last_cell(
    make_deployment: Make, profile: str
) -> None:
    deployment = make_deployment(profile, ip=(4, 6))
    client, server = deployment.pair("inter")
    for ip in (4, 6):
        with server.spawn(["netserver", "-D", f"-{ip}"]):
            connect(deployment, ip, "TCP_CRR")
        seen = {node.name: tracked(node.ns) for node in deployment.nodes()}
        assert min(seen.values()) > 10, (ip, seen)
        assert time_wait(client.ns) + time_wait(server.ns) > 10
        end = time.monotonic() + 20
        while left := settled(deployment):  # a packet that was still on its way is tracked again
            assert time.monotonic() < end, left
            time.sleep(0.1)


def settled(deployment: LabDeployment) -> list[str]:
    """What is left of connections after settling."""
    deployment.reset_state()
    left = [
        f"{ns.name}: {time_wait(ns)} in TIME_WAIT"
        for ns in (pod.ns for pod in deployment.pods())
        if time_wait(ns)
    ]
    left += [
        f"{node.name}: {tracked(node.ns)} tracked"
        for node in deployment.nodes()
        if tracked(node.ns)
    ]
    if isinstance(deployment.datapath, Programs):
        left += [
            str(found)
            for maps in deployment.datapath.maps.values()
            for family in (4, 6)
            if (found := maps.connections(family))
        ]
    return left


def test_settling_leaves_what_listens(make_deployment: Make) -> None:
    deployment = make_deployment("flannel")
    with deployment.pair("inter")[1].spawn(["netserver", "-D", "-4"]) as server:
        connect(deployment, 4, "TCP_CRR")
        deployment.reset_state()
        connect(deployment, 4, "TCP_RR")
        assert server.poll() is None


def test_sizes_are_read_from_the_tunnel_that_the_family_takes(
    make_deployment: Make, tmp_path: Path
) -> None:
    deployment = make_deployment("flannel", ip=(4, 6))
    client, server = deployment.pair("inter")
    for ip, device in ((4, "flannel.1"), (6, "flannel-v6.1")):
        cell = Cell(
            label=deployment.label, profile="flannel", placement="inter", workload="tcp-rr", ip=ip
        )
        s = SampleContext(cell, 0, deployment, client, server, 1.0, 0.0, tmp_path, 0, 0)
        assert [(at, name) for at, _, name in sizes.path(s)] == [
            ("pod", "eth0"),
            ("tunnel", device),
            ("wire", "eth0"),
        ]
        assert {deployment.tunnel_on(node, ip) for node in deployment.nodes()} == {device}
