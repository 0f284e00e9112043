"""BIG TCP: super-packets of more than 64 KiB through Cilium's programs, over both families."""

from __future__ import annotations

from collections.abc import Callable

from cnibench.clusters.lab import kernel
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import links, netlink
from cnibench.model.profile import builtin
from cnibench.testbed.cluster import Options
from tests.lab._profiles import transactions

Make = Callable[..., LabDeployment]
NAME, GSO_IPV4 = "cilium-bigtcp", 63  # IFLA_GSO_IPV4_MAX_SIZE


def test_streams_are_in_longer_packets_and_all_else_holds(make_deployment: Make) -> None:
    lacks = [one.kind for one in LabCluster(Options()).check(builtin()[NAME])]
    if not kernel.found(("big-tcp",))["big-tcp"]:
        assert lacks == ["kernel"]
        return
    assert not lacks
    deployment = make_deployment(NAME, ip=(4, 6))
    found = deployment.attest()
    assert not [item for item in found if not item.passed]
    assert {item.ip for item in found if item.check == "super-packets"} == {4, 6}
    for placement in ("intra", "inter"):
        client, server = deployment.pair(placement)  # type: ignore[arg-type]
        for family in (4, 6):
            assert transactions(client, server, server.addresses[family]) > 1


def test_usual_super_packets_are_found(make_deployment: Make) -> None:
    """As on a kernel that ignores the larger size."""
    deployment = make_deployment(NAME, ip=(4, 6))
    pod = deployment.pair("intra")[0]
    head = netlink.link(links.index(pod.ns, pod.interface))
    body = netlink.attribute(GSO_IPV4, 65536)
    netlink.ask(pod.ns, "smaller", netlink.NEWLINK, netlink.CHANGE, head + body)
    failed = {(item.check, item.ip) for item in deployment.attest() if not item.passed}
    assert ("super-packets", 4) in failed
    assert ("super-packets", 6) not in failed
