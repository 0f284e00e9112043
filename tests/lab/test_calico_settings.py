"""Calico's models have the settings that Felix 3.32.1 and its plugin make: of connection tracking,
of the reverse path filter, of Pods and their routes, of routes through VXLAN, for ARP, and where
programs are attached.

Sources: felix/dataplane/linux/int_dataplane.go (configureKernel, defaultRPFilter), endpoint_mgr.go
(configureProcSysForInterface, CompleteDeferredWork), vxlan_mgr.go (tunnelRoute), bpf_ep_mgr.go
(setRPFilter, setAcceptLocal), felix/bpf/tc/attach.go (AttachProgram) and
cni-plugin/pkg/dataplane/linux/dataplane_linux.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.ebpf import tc
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.listing.listing import listing

Make = Callable[..., LabDeployment]


def setting(ns: Namespace, key: str) -> str:
    return ns.read(f"/proc/sys/net/{key}").strip()


@pytest.mark.parametrize("name", ["calico-wp-xsub", "calico-np-vxlan", "calico-ebpf"])
def test_connections_are_counted(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name)
    for node in deployment.nodes():
        assert setting(node.ns, "netfilter/nf_conntrack_acct") == "1"
    client, server = deployment.pair("inter")
    assert setting(client.ns, "netfilter/nf_conntrack_acct") == "0"
    del server


@pytest.mark.parametrize("default", ["0", "1", "2"])
def test_a_pods_device_has_the_nodes_own_reverse_path_filter(
    make_deployment: Make, default: str
) -> None:
    deployment = make_deployment("calico-wp-xsub")
    deployment.a.ns.sysctl({"net/ipv4/conf/default/rp_filter": default})
    (pod,) = deployment.add_pods(deployment.a, 1)
    assert setting(deployment.a.ns, f"ipv4/conf/{pod.host_end}/rp_filter") == default  # type: ignore[attr-defined]
    assert setting(deployment.b.ns, f"ipv4/conf/{deployment.b.wire}/rp_filter") == "0"


def test_the_programs_mode_has_no_strict_filter(make_deployment: Make) -> None:
    deployment = make_deployment("calico-ebpf")
    ns, wire = deployment.a.ns, deployment.a.wire
    assert setting(ns, "ipv4/conf/all/rp_filter") == "0"
    assert setting(ns, f"ipv4/conf/{wire}/rp_filter") == "2"
    assert setting(ns, f"ipv4/conf/{wire}/accept_local") == "1"
    pod, _ = deployment.pair("intra")
    assert setting(ns, f"ipv4/conf/{pod.host_end}/rp_filter") == "0"


def test_routes_through_vxlan_name_the_tunnels_mtu(make_deployment: Make) -> None:
    deployment = make_deployment("calico-wp-vxlan")
    for node, to in ((deployment.a, "10.244.1.0/24"), (deployment.b, "10.244.0.0/24")):
        route = node.ns.run(["ip", "route", "show", to], timeout=20).stdout
        assert "dev vxlan.calico" in route
        assert "mtu 1450" in route


def test_a_pod_forwards_nothing_and_has_one_queue(make_deployment: Make) -> None:
    deployment = make_deployment("calico-np-xsub", ip=(4, 6))
    pod, _ = deployment.pair("intra")
    assert setting(pod.ns, "ipv4/ip_forward") == "0"
    assert setting(pod.ns, "ipv6/conf/all/forwarding") == "0"
    node = deployment.a.ns
    for ns, name, length in ((pod.ns, pod.interface, 1000), (node, pod.host_end, 0)):
        (link,) = json.loads(ns.run(["ip", "-j", "-d", "link", "show", name], timeout=20).stdout)
        assert (link["num_tx_queues"], link["num_rx_queues"]) == (1, 1)
        assert link.get("txqlen", 0) == length
    assert setting(node, f"ipv6/conf/{pod.host_end}/proxy_ndp") == "1"
    assert setting(node, f"ipv4/conf/{pod.host_end}/proxy_arp") == "1"


def test_routes_to_pods_have_felixs_metric(make_deployment: Make) -> None:
    deployment = make_deployment("calico-np-vxlan")
    pod, _ = deployment.pair("intra")
    shown = ["ip", "-d", "-j", "route", "show", pod.addresses[4]]
    (route,) = json.loads(deployment.a.ns.run(shown, timeout=20).stdout)
    assert (route["protocol"], route["metric"], route["dev"]) == ("boot", 1024, pod.host_end)


def test_felix_filters_arp_for_each_pod(make_deployment: Make) -> None:
    deployment = make_deployment("calico-np-vxlan")
    (pod,) = deployment.add_pods(deployment.a, 1)
    listed = ["nft", "-s", "list", "table", "arp", "calico-arp"]
    said = deployment.a.ns.run(listed, timeout=20).stdout
    assert f'"{pod.host_end}" : goto filter-cali-arp-{pod.host_end}' in said  # type: ignore[attr-defined]
    assert f"arp operation reply arp saddr ip {pod.addresses[4]} counter drop" in said
    deployment.remove_pods([pod])
    said = deployment.a.ns.run(listed, timeout=20).stdout
    assert pod.addresses[4] not in said


@pytest.mark.parametrize(("name", "tcx"), [("calico-ebpf", True), ("cilium", False)])
def test_programs_are_at_tcx_for_calico_and_at_clsact_for_cilium_1_15(
    make_deployment: Make, name: str, tcx: bool
) -> None:
    if not tc.has_tcx():
        pytest.skip("this kernel lacks TCX")
    deployment = make_deployment(name)
    filters = listing({"a": deployment.a.ns})["a: filters"]
    assert filters
    assert all((" tcx " in line) == tcx for line in filters)
    said = deployment.a.ns.run(["tc", "qdisc", "show"], timeout=20).stdout
    assert ("clsact" in said) != tcx


def test_without_tcx_calico_attaches_at_clsact(
    make_deployment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tc, "has_tcx", lambda: False)
    deployment = make_deployment("calico-ebpf")
    assert "clsact" in deployment.a.ns.run(["tc", "qdisc", "show"], timeout=20).stdout
    assert not [item for item in deployment.attest() if not item.passed]
