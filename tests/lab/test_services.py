"""Services through each implementation that this kernel has: traffic, the rules that it meets,
changes, ten thousand of them, and an attestation that notices what was taken away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from cnibench.clusters.lab import kernel, services
from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.attestation.comparison import compare
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.rules import kubeproxy
from cnibench.errors import ClusterError
from cnibench.model.cell import Cell
from cnibench.model.conditions import Conditions, Services
from cnibench.model.profile import builtin

MakeDeployment = Callable[..., LabDeployment]
# ipvs where the kernel has it: tests/e2e/test_vm_models.py runs these tests on a stock kernel.
IPVS = ("ipvs",) if kernel.found(["ipvs"]).get("ipvs") else ()
MODES = ("iptables", "nftables", "ebpf", *IPVS)


def made(
    make_deployment: MakeDeployment, mode: str, name: str = "flannel", **options: object
) -> LabDeployment:
    return make_deployment(builtin()[name].model_copy(update={"proxy": mode}), **options)


def cell(deployment: LabDeployment, placement: str = "inter", ip: int = 4) -> Cell:
    return Cell(
        label=deployment.label,
        profile=deployment.label,
        placement=placement,  # type: ignore[arg-type]
        workload="tcp-crr",
        path="clusterip",
        ip=ip,
    )


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (name, mode)
        for name in ("flannel", "calico-wp-xsub", "calico-np-xsub", "kube-router")
        for mode in (IPVS if name == "calico-np-xsub" else MODES)
        if (name, mode) != ("calico-wp-xsub", "ipvs")
    ],
)
def test_a_service_leads_to_its_server_on_both_nodes(
    make_deployment: MakeDeployment, name: str, mode: str
) -> None:
    deployment = made(make_deployment, mode, name)
    for placement in ("intra", "inter"):
        client, server = deployment.pair(placement)  # type: ignore[arg-type]
        asked = cell(deployment, placement)
        address = deployment.address(asked, server)
        assert address not in server.addresses.values()
        service = deployment._paths.of(asked, server)[0]
        services.prove(deployment, client, server, service)
        assert deployment.services.translated(client.node, service)
    assert not [one for one in compare(deployment) if not one.passed]


@pytest.mark.parametrize("mode", ["iptables", "nftables", *IPVS])
def test_services_of_ipv6(make_deployment: MakeDeployment, mode: str) -> None:
    deployment = made(make_deployment, mode, ip=(4, 6))
    client, server = deployment.pair("inter")
    asked = cell(deployment, ip=6)
    assert ":" in deployment.address(asked, server)
    assert deployment.services.translated(client.node, deployment._paths.of(asked, server)[0])


def test_cilium_in_kube_proxys_place(make_deployment: MakeDeployment) -> None:
    deployment = made(make_deployment, "ebpf", "cilium-kpr")
    for placement in ("intra", "inter"):
        _, server = deployment.pair(placement)  # type: ignore[arg-type]
        assert deployment.address(cell(deployment, placement), server)


@pytest.mark.parametrize("mode", MODES)
def test_without_its_entry_a_service_leads_nowhere(
    make_deployment: MakeDeployment, mode: str
) -> None:
    deployment = made(make_deployment, mode)
    client, server = deployment.pair("inter")
    service = deployment._paths.of(cell(deployment), server)[0]
    deployment.services.change(4, [], [service])
    deployment.services.forget()
    assert probe.stream(
        client.ns,
        server.ns,
        server.addresses[4],
        4,
        1,
        0.3,
        via=(service.address, service.port),
        port=service.port,
    )
    deployment.services.check()


@pytest.mark.parametrize("mode", MODES)
def test_many_services_are_there_during_a_cell_and_gone_after_it(
    make_deployment: MakeDeployment, mode: str
) -> None:
    deployment = made(make_deployment, mode)
    client, server = deployment.pair("inter")
    asked = Conditions(services=Services(count=300, endpoints=2))
    with deployment.apply_conditions(asked, client, server, cell(deployment)) as (record,):
        assert set(record["found"]) == {"a, IPv4", "b, IPv4"}
        assert len(set(record["found"].values())) == 1
        assert min(record["found"].values()) > 900
        assert record["proxy"] == mode
        services.prove(
            deployment, client, server, deployment._paths.of(cell(deployment), server)[0]
        )
    assert not [one for one in compare(deployment) if not one.passed]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", ["service", "endpoint"])
def test_a_change_makes_a_server_reachable_and_is_undone(
    make_deployment: MakeDeployment, mode: str, change: str
) -> None:
    deployment = made(make_deployment, mode)
    client, server = deployment.pair("inter")
    before = deployment.services.found()
    with deployment.service_change(cell(deployment), server, 5441, change) as coming:  # type: ignore[arg-type]
        via = {"via": (coming.address, coming.port), "port": 5441}

        def reached() -> str:
            target = server.addresses[4]
            return probe.stream(client.ns, server.ns, target, 4, 1, 0.3, **via)  # type: ignore[arg-type]

        assert reached()
        coming.make()
        assert not reached()
    assert deployment.services.found() == before


FLUSHED = {
    "iptables": "iptables-nft -t nat -F KUBE-SERVICES",
    "nftables": "nft flush map ip kube-proxy service-ips",
    **dict.fromkeys(IPVS, "ipvsadm --clear"),
}


@pytest.mark.parametrize("mode", FLUSHED)
def test_an_attestation_and_a_condition_notice_a_flushed_chain(
    make_deployment: MakeDeployment, mode: str
) -> None:
    deployment = made(make_deployment, mode)
    client, server = deployment.pair("inter")
    deployment.address(cell(deployment), server)
    flush = ["sh", "-c", FLUSHED[mode]]
    deployment.a.run(flush, timeout=20)
    wrong = [one.check for one in compare(deployment) if not one.passed]
    assert wrong == ["kernel-state-a"]
    asked = Conditions(services=Services(count=10))
    with (
        contextlib.suppress(ClusterError),
        pytest.raises(ClusterError, match="not as written"),
        deployment.apply_conditions(asked, client, server, cell(deployment)),
    ):
        deployment.b.run(flush, timeout=20)


def test_ebpf_notices_an_entry_that_is_gone(make_deployment: MakeDeployment) -> None:
    deployment = made(make_deployment, "ebpf")
    proxy = deployment.services
    table = proxy._loaded["a"].maps["lb_services"]  # type: ignore[attr-defined]
    table.delete(table.items()[0][0])
    with pytest.raises(ClusterError, match="not as written"):
        proxy.check()
    assert [one.check for one in compare(deployment) if not one.passed] == ["kernel-state-a"]


def test_the_legacy_iptables(make_deployment: MakeDeployment) -> None:
    deployment = made(make_deployment, "iptables", settings={"": {"iptables": "legacy"}})
    client, server = deployment.pair("inter")
    with deployment.apply_conditions(
        Conditions(services=Services(count=50)), client, server, cell(deployment)
    ):
        text = deployment.a.run(["iptables-legacy-save", "-t", "nat"], timeout=20).stdout
        service = deployment._paths.of(cell(deployment), server)[0]
        assert kubeproxy.chains_of(service)[0] in text


def test_ten_thousand_services_by_ebpf(make_deployment: MakeDeployment) -> None:
    deployment = made(make_deployment, "ebpf")
    client, server = deployment.pair("inter")
    with deployment.apply_conditions(
        Conditions(services=Services(count=10_000)), client, server, cell(deployment)
    ) as (record,):
        found = set(record["found"].values())
    assert len(found) == 1
    assert min(found) > 30_000  # the Service, its slot, its endpoint
