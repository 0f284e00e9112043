"""The bridged and routed datapaths: each is built, proven, carries real traffic in both placements,
and a lie is caught.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cnibench.clusters.lab import kernel
from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import features, links
from cnibench.clusters.lab.rules import calico_node
from cnibench.errors import ClusterError
from cnibench.model.cell import Attestation
from tests.lab._profiles import transactions, with_options

Make = Callable[..., LabDeployment]

RUNNABLE = (
    "bridge-static",
    "flannel",
    "flannel-off",
    "flannel-host-gw",
    "kube-router",
    "kube-router-default",
    "calico-wp-xsub",
    "calico-np-xsub",
    "calico-bare-xsub",
    "calico-wp-vxlan",
    "calico-np-vxlan",
)
IPIP = ("calico-wp-ipip", "calico-np-ipip", "calico-bare-ipip", "kube-router-ipip")


def failed(found: list[Attestation]) -> set[str]:
    return {item.check for item in found if not item.passed}


@pytest.mark.parametrize("name", RUNNABLE)
def test_profile_is_built_proven_and_carries_traffic(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name, ip=(4, 6))
    found = deployment.attest()
    assert not [item for item in found if not item.passed]
    assert {item.ip for item in found} == {4, 6}
    for placement in ("intra", "inter"):
        client, server = deployment.pair(placement)  # type: ignore[arg-type]
        for family in (4, 6):
            assert transactions(client, server, server.addresses[family]) > 1
    assert deployment.alive() == ""


@pytest.mark.parametrize("name", IPIP)
def test_ip_in_ip_is_proven_where_the_kernel_has_it_and_refused_where_not(
    make_deployment: Make, name: str
) -> None:
    if kernel.found()["ipip"]:
        deployment = make_deployment(name)
        assert not failed(deployment.attest())
        pod = deployment.pair("inter")[0]
        wanted = 1500 if name == "kube-router-ipip" else 1480
        assert links.mtu(pod.ns, pod.interface) == wanted
    else:
        with pytest.raises(ClusterError):
            make_deployment(name)


@pytest.mark.parametrize(("name", "rules"), [("kube-router", 0), ("kube-router-default", 2)])
def test_an_overlay_of_kube_router_adds_a_routing_rule_within_a_subnet_too(
    make_deployment: Make, name: str, rules: int
) -> None:
    deployment = make_deployment(name, ip=(4, 6))
    for node in deployment.nodes():
        found = 0
        for family in (4, 6):
            said = node.run(["ip", f"-{family}", "rule"], timeout=10).stdout.splitlines()
            subnet = node.subnets[family].partition("/")[0]
            found += any(
                line.startswith("32765:") and f"from {subnet}/" in line and "lookup 77" in line
                for line in said
            )
        assert found == rules
        assert "tun-" not in node.run(["ip", "-br", "link"], timeout=10).stdout


@pytest.mark.parametrize("name", ["flannel", "calico-wp-xsub", "kube-router"])
def test_rules_load_through_legacy_iptables_too(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(with_options(name, iptables="legacy"), ip=(4, 6))
    assert not failed(deployment.attest())
    assert "KUBE-FORWARD" in deployment.a.run(["iptables-legacy-save"], timeout=10).stdout
    assert "KUBE-FORWARD" not in deployment.a.run(["iptables-nft-save"], timeout=10).stdout


def test_flannel_makes_what_its_source_says(make_deployment: Make) -> None:
    deployment = make_deployment("flannel")
    a = deployment.a
    device = a.run(["ip", "-d", "link", "show", "flannel.1"], timeout=10).stdout
    assert "vxlan id 1 local 192.168.100.1 dev eth0" in device
    assert "dstport 8472 nolearning" in device
    assert "inet 10.244.0.0/32" in a.run(["ip", "address", "show", "flannel.1"], timeout=10).stdout
    assert "10.244.1.0/24 via 10.244.1.0 dev flannel.1" in a.run(["ip", "route"], timeout=10).stdout
    assert "onlink" in a.run(["ip", "route", "show", "10.244.1.0/24"], timeout=10).stdout
    assert "PERMANENT" in a.run(["ip", "neigh", "show", "dev", "flannel.1"], timeout=10).stdout
    assert (
        "dst 192.168.100.2 self permanent"
        in a.run(["bridge", "fdb", "show", "dev", "flannel.1"], timeout=10).stdout
    )
    assert (
        "hairpin on" in a.run(["bridge", "-d", "link", "show", "dev", "veth0"], timeout=10).stdout
    )
    assert "promiscuity 0" in a.run(["ip", "-d", "link", "show", "cni0"], timeout=10).stdout


def test_calico_makes_what_its_source_says(make_deployment: Make) -> None:
    deployment = make_deployment("calico-np-vxlan")
    client, _ = deployment.pair("intra")
    a = deployment.a
    inside = client.run(["ip", "route"], timeout=10).stdout
    assert "default via 169.254.1.1 dev eth0" in inside
    assert "169.254.1.1 dev eth0 scope link" in inside  # protocol boot
    assert (
        f"{client.addresses[4]}/32"
        in client.run(["ip", "address", "show", "eth0"], timeout=10).stdout
    )
    host = a.run(["ip", "link", "show", client.host_end], timeout=10).stdout
    assert "ee:ee:ee:ee:ee:ee" in host
    assert a.read_text(f"/proc/sys/net/ipv4/conf/{client.host_end}/proxy_arp").strip() == "1"
    routes = a.run(["ip", "route"], timeout=10).stdout
    assert f"{client.addresses[4]} dev {client.host_end}" in routes
    assert "10.244.1.0/24 via 10.244.1.1 dev vxlan.calico onlink" in routes
    assert "blackhole 10.244.0.0/24 proto 80" in routes
    assert "vxlan id 4096" in a.run(["ip", "-d", "link", "show", "vxlan.calico"], timeout=10).stdout
    assert (
        "proto bird" in make_deployment("calico-np-xsub").a.run(["ip", "route"], timeout=10).stdout
    )


def test_a_route_beside_the_tunnel_is_caught(make_deployment: Make) -> None:
    deployment = make_deployment("flannel")
    for here, there in ((deployment.a, deployment.b), (deployment.b, deployment.a)):
        here.ns.run(["ip", "route", "del", there.subnets[4]])
        links.route(here.ns, there.subnets[4], via=there.addresses[4], dev=here.wire)
    assert {"encapsulation", "tunnel-device"} <= failed(deployment.attest())


def test_a_tunnel_where_none_is_claimed_is_caught(make_deployment: Make) -> None:
    flannel = with_options("flannel")
    assert flannel.datapath is not None
    lie = flannel.model_copy(
        update={"datapath": flannel.datapath.model_copy(update={"encapsulation": "none"})}
    )
    assert "encapsulation" in failed(make_deployment(lie).attest())


def test_flannel_off_with_its_offload_on_is_caught(make_deployment: Make) -> None:
    deployment = make_deployment("flannel-off", wire_offload="vxlan")
    assert not failed(deployment.attest())
    on = {"tx-udp_tnl-segmentation": True, "tx-udp_tnl-csum-segmentation": True}
    features.write(deployment.a.ns, deployment.a.wire, on)
    assert {"wire-features-a", "offload-inter"} <= failed(deployment.attest())


def test_flushed_policies_are_caught(make_deployment: Make) -> None:
    deployment = make_deployment("calico-wp-xsub")
    assert not failed(deployment.attest())
    for node in deployment.nodes():
        for chain in ("cali-to-wl-dispatch", "cali-from-wl-dispatch"):
            node.run(["iptables-nft", "-F", chain], timeout=10)
    assert {"denied-intra", "denied-inter", "denied-port"} <= failed(deployment.attest())


def test_a_policy_that_denies_what_it_should_allow_is_caught(make_deployment: Make) -> None:
    deployment = make_deployment("calico-wp-vxlan")
    deployment.b.run(["ipset", "flush", calico_node.peers_set(4)], timeout=10)
    found = failed(deployment.attest())
    assert "reach-inter" in found
    assert "reach-intra" not in found


@pytest.mark.parametrize("name", ["calico-wp-xsub", "kube-router", "flannel"])
def test_many_pods_at_once_talk_and_go_again(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name)
    near, far = deployment.add_pods(deployment.a, 12), deployment.add_pods(deployment.b, 12)
    for one, other in (
        (near[0], near[-1]),
        (near[-1], far[-1]),
        (far[0], deployment.pair("intra")[0]),
    ):
        assert probe.stream(one.ns, other.ns, other.addresses[4], 4, 1000) == ""
    before = deployment.a.run(["iptables-nft-save"], timeout=10).stdout
    deployment.remove_pods([near[3]])
    after = deployment.a.run(["iptables-nft-save"], timeout=10).stdout
    if name == "flannel":
        assert before.count("\n-A ") == after.count("\n-A ")  # no rule names a Pod
    else:
        assert before.count("\n:") - after.count("\n:") >= 1
        assert near[3].host_end not in after
    assert not failed(deployment.attest())


def test_profiles_stand_side_by_side(make_deployment: Make) -> None:
    deployments = [make_deployment(name) for name in ("flannel", "calico-wp-vxlan", "kube-router")]
    for deployment in deployments:
        assert not failed(deployment.attest())
    deployments[0].remove()
    assert not failed(deployments[1].attest())
