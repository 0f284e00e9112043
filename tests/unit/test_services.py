"""Services: how a plan asks for them, names, what each implementation writes, what is refused."""

from __future__ import annotations

import ipaddress
import json
import re
from types import SimpleNamespace
from typing import cast

import pytest

from cnibench.cli.measurement import kernel_choice, request
from cnibench.clusters.existing.cluster import ExistingCluster
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.cni import suitability
from cnibench.clusters.kubernetes.nodes import proxy_mode, service_rules
from cnibench.clusters.kubernetes.nodes.nodes import facts
from cnibench.clusters.kubernetes.pods import other_services, unsupported
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.proxies import base, ebpf, iptables, nftables
from cnibench.clusters.lab.rules import kubeproxy, kubeproxy_nft
from cnibench.clusters.lab.rules.services import Service, default_services, many
from cnibench.clusters.ssh.cluster import SshCluster
from cnibench.clusters.ssh.inspection.report import Seen
from cnibench.errors import ClusterError, MeasureError, UsageError
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile, builtin, choose, with_proxies
from cnibench.planning import plans
from cnibench.planning.cells import cells
from cnibench.planning.plan import Plan, build_plan
from cnibench.registry import provider, providers
from cnibench.system import memory
from cnibench.testbed.cluster import Options
from cnibench.vm.accel import Accelerator
from cnibench.vm.kernel import Kernel
from tests.unit._call import call
from tests.unit._kubernetes_nodes import node
from tests.unit._manifests import Cluster, golden

CIDR, SERVICES = "10.244.0.0/16", "10.96.0.0/12"
ONE = Service("ns/web:http", "tcp", "10.96.0.7", 80, (("10.244.1.2", 8080), ("10.244.2.3", 8080)))


def test_several_implementations_are_labels_of_their_own() -> None:
    asked = with_proxies(choose(["flannel,kube-router"]), ["iptables", "ebpf"])
    assert list(asked) == [
        "flannel+iptables",
        "flannel+ebpf",
        "kube-router+iptables",
        "kube-router+ebpf",
    ]
    assert asked["flannel+ebpf"].proxy == "ebpf"
    assert list(with_proxies(choose(["flannel"]), ["nftables"])) == ["flannel"]
    assert with_proxies(choose(["flannel"]), [])["flannel"].proxy == ""


def test_a_plan_takes_them_and_nothing_else() -> None:
    assert build_plan({"proxy": "nftables"}).proxy == ("nftables",)
    with pytest.raises(UsageError, match="proxy"):
        build_plan({"proxy": ["userspace"]})
    with pytest.raises(UsageError, match="twice"):
        build_plan({"proxy": ["ebpf", "ebpf"]})


def test_the_plan_services_sweeps_the_number_of_services_for_each_implementation() -> None:
    plan = plans.named("services")
    found, notes = cells(plan, providers("workloads"), with_proxies(choose(plan.cni), plan.proxy))
    assert not notes
    crr = [cell for cell in found if cell.workload == "tcp-connect"]
    assert {cell.label for cell in crr} == {"flannel+iptables", "flannel+nftables", "flannel+ebpf"}
    assert {cell.params["services.count"] for cell in crr} == {1, 100, 1000, 10_000}
    assert {cell.path for cell in found} == {"clusterip"}


def test_conditions_of_services() -> None:
    own, around = conditions.split({"services.count": 5})
    assert not own
    assert around == {"services.count": 5, "services.endpoints": 1}
    for wrong in ({"services.count": 10_001}, {"services.endpoints": 0}):
        with pytest.raises(ValueError, match="services"):
            conditions.split(wrong)


def test_names_of_chains_are_hashes_as_kube_proxy_makes_them() -> None:
    # those of nftables are the examples in the comments of proxier.go
    svc, *endpoints = kubeproxy.chains_of(ONE)
    assert re.fullmatch(r"KUBE-SVC-[A-Z2-7]{16}", svc)
    assert all(re.fullmatch(r"KUBE-SEP-[A-Z2-7]{16}", name) for name in endpoints)
    assert kubeproxy_nft.chain_of(Service("ns1/svc1:p80", "tcp", "", 0, ())) == (
        "service-ULMVA6XW-ns1/svc1/tcp/p80"
    )
    endpoint = Service("ns1/svc1:p80", "tcp", "", 0, (("10.180.0.1", 80),))
    assert (
        kubeproxy_nft.chains_of(endpoint)[1] == "endpoint-5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80"
    )


def test_a_large_cluster_has_no_comments_for_endpoints() -> None:
    few, many_ = many(4, 1000, 1), many(4, 1001, 1)
    assert 'comment "cnibench/service-00000"' in kubeproxy.sync(4, CIDR, few, few)
    text = kubeproxy.sync(4, CIDR, many_, many_)
    assert 'comment "cnibench/service-00000"' not in text
    assert 'comment "cnibench/service-00000 cluster IP"' in text


def test_a_change_writes_all_that_leads_to_services_and_one_service() -> None:
    others = many(4, 20, 1)
    gone = kubeproxy.chains_of(others[0])
    text = kubeproxy.sync(4, CIDR, (*others[1:], ONE), [ONE], gone)
    assert text.count("-A KUBE-SERVICES -m comment --comment") == 21  # the last one: node ports
    svc, first, second = kubeproxy.chains_of(ONE)
    assert {f":{name} - [0:0]" for name in (svc, first, second, *gone)} <= set(text.splitlines())
    assert text.count("-A KUBE-SEP-") == 4
    assert [line for line in text.splitlines() if line.startswith("-X")] == [
        f"-X {name}" for name in gone
    ]


def test_an_endpoint_is_drawn_with_the_same_probability() -> None:
    text = kubeproxy.sync(4, CIDR, [ONE], [ONE])
    assert "--probability 0.5000000000" in text
    assert "numgen random mod 2 vmap { 0 : goto endpoint-" in kubeproxy_nft.added(4, CIDR, [ONE])


def test_many_services_have_names_addresses_and_endpoints_of_their_own() -> None:
    for family in (4, 6):
        found = many(family, 10_000, 3)
        assert len({one.name for one in found}) == len({one.address for one in found}) == 10_000
        assert len({each for one in found for each in one.endpoints}) == 30_000
    assert many(4, 2, 1) == many(4, 2000, 1)[:2]


def test_what_is_read_back_is_compared_by_one_digest() -> None:
    def saved(services: tuple[Service, ...]) -> str:
        lines = []
        for one in services:
            svc, *endpoints = kubeproxy.chains_of(one)
            lines += [
                f"-A KUBE-SERVICES -d {one.address}/32 -p tcp -m tcp --dport {one.port} -j {svc}",
                f"-A {svc} ! -s {CIDR} -j KUBE-MARK-MASQ",
            ]
            for name, (address, port) in zip(endpoints, one.endpoints, strict=True):
                lines += [
                    f"-A {svc} -j {name}",
                    f"-A {name} -s {address}/32 -j KUBE-MARK-MASQ",
                    f"-A {name} -p tcp -m tcp -j DNAT --to-destination {address}:{port}",
                ]
        return "\n".join(lines)

    services = many(4, 3, 2)
    expected = iptables.Iptables.expected(
        type("Proxy", (), {"services": {4: services}})(),  # type: ignore[arg-type]
        4,
    )
    text = saved(services)
    assert iptables._counted(text) == expected
    assert iptables._counted(text.replace(":8080", ":9", 1)).digest != expected.digest
    assert iptables._counted("\n".join(text.splitlines()[:-1])) != expected


def test_only_new_says_what_comes_and_what_goes() -> None:
    assert base.only_new(many(4, 3, 1), many(4, 5, 1)[1:]) == (
        list(many(4, 5, 1)[3:]),
        list(many(4, 1, 1)),
    )


def test_entries_of_ebpf_have_a_slot_for_each_endpoint() -> None:
    keys = [key for key, _ in ebpf._entries([ONE])]
    assert [int.from_bytes(key[8:], "little") for key in keys] == [0, 1, 2]
    assert {key[:4] for key in keys} == {bytes((10, 96, 0, 7))}
    assert nftables.Nftables.name == "nftables"


def cell(label: str, path: str = "clusterip", ip: int = 4, **params: object) -> Cell:
    return Cell(
        label=label,
        profile=label,
        placement="inter",
        workload="tcp-crr",
        path=path,
        ip=ip,
        params=dict(params),
    )


def test_what_cannot_be_is_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = LabCluster(Options())
    profiles = builtin()
    flannel = profiles["flannel"]
    assert lab.refuses(flannel, cell("flannel")) == ""
    assert lab.refuses(flannel, cell("flannel", "pod")) == ""
    without = flannel.model_copy(update={"proxy": "none"})
    assert "name --proxy iptables or nftables" in lab.refuses(without, cell("flannel"))
    assert "--proxy ebpf" in lab.refuses(profiles["cilium-kpr"], cell("cilium-kpr"))
    assert "in its model" in lab.refuses(profiles["veth-baseline"], cell("veth-baseline"))
    assert "left out of the model" in lab.refuses(profiles["cilium"], cell("cilium"))
    programs = flannel.model_copy(update={"proxy": "ebpf"})
    assert "IPv6" in lab.refuses(programs, cell("flannel", ip=6))
    monkeypatch.setattr(memory, "available", lambda: 64 << 20)
    many_services = {"services.count": 10_000, "services.endpoints": 10}
    assert "MiB are free" in lab.refuses(flannel, cell("flannel", **many_services))
    kind = provider("clusters", "kind")(Options())
    assert "MiB are free" in kind.refuses(flannel, cell("flannel", **many_services))
    few = {"services.count": 2000}
    assert not lab.refuses(flannel, cell("flannel", **few))
    both = LabCluster(Options(ip=(4, 6)))
    assert "MiB on two nodes by iptables" in both.refuses(flannel, cell("flannel", **few))
    (problem,) = lab.check(profiles["calico-wp-xsub"].model_copy(update={"proxy": "ipvs"}))
    assert problem.remedy == "--proxy iptables or nftables or ebpf or none, or leave it out"
    (problem,) = lab.check(profiles["veth-baseline"].model_copy(update={"proxy": "iptables"}))
    assert problem.remedy == "--proxy none, or leave it out"


def test_more_services_than_a_vm_has_memory_for_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vm = kernel_choice.Machine(
        cast(Kernel, SimpleNamespace(release="6.1.0")), Accelerator("kvm"), ""
    )
    monkeypatch.setattr(kernel_choice, "decide", lambda *given, **more: vm)
    monkeypatch.setattr(request, "check_machine", lambda *given: None)
    monkeypatch.setattr(LabCluster, "check", lambda *given: [])
    monkeypatch.setattr(memory, "available", lambda: 64 << 30)
    monkeypatch.setenv("CNIBENCH_VM_MEMORY", "1792")
    asked = ["run", "--dry-run", "--cni", "flannel", "--path", "clusterip", "--no-perf"]
    work = "tcp-crr:services.count=10000:services.endpoints=5"
    said = call([*asked, "--workload", work])
    assert said.exit_code == 2
    assert "about 1171 MiB on two nodes by iptables; the VM has 1024 MiB for them" in said.stderr
    monkeypatch.setenv("CNIBENCH_VM_MEMORY", "6144")
    assert call([*asked, "--workload", work]).exit_code == 0


def test_more_services_than_the_smallest_node_has_memory_for_are_refused() -> None:
    existing = ExistingCluster(Options())
    nodes = [node("large"), node("small"), node("silent")]
    for one, memory_of_one in zip(nodes, ("64Gi", "1048576Ki", ""), strict=True):
        one["status"]["allocatable"] = {"memory": memory_of_one}
    existing.__dict__["nodes"] = [facts(one) for one in nodes]
    flannel = builtin()["flannel"]
    many_services = {"services.count": 10_000, "services.endpoints": 10}
    said = existing.refuses(flannel, cell("flannel", **many_services))
    assert "1171 MiB on each node by iptables; the smallest has 1024 MiB:" in said
    faster = flannel.model_copy(update={"proxy": "ebpf"})
    assert not existing.refuses(faster, cell("flannel", **many_services))
    assert not existing.refuses(flannel, cell("flannel"))
    machines = SshCluster.at("ssh://root@one,ssh://root@two")(Options())
    for machine in machines.machines:
        machine.seen = Seen({"memory": "1048576"})
    assert "the smallest has 1024 MiB:" in machines.refuses(
        flannel, cell("flannel", **many_services)
    )
    existing.__dict__["nodes"] = [facts(nodes[2])]
    assert not existing.refuses(flannel, cell("flannel", **many_services))


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("2Ki", 2048),
        ("1.5Gi", 3 << 29),
        ("3M", 3_000_000),
        ("128k", 128_000),
        ("1e9", 10**9),
        ("7", 7),
        ("9000m", 9),
        ("much", 0),
        ("", 0),
    ],
)
def test_quantities_of_memory(quantity: str, size: int) -> None:
    status = {"allocatable": {"memory": quantity}}
    assert facts({"metadata": {"name": "a"}, "status": status}).memory == size


def test_what_nodes_know_of_services_is_read_from_cilium() -> None:
    """A map as bpftool prints it."""
    key = ["0x0a", "0x60", "0x00", "0x01", "0x01", "0xbb", "0x00", "0x00", *["0x00"] * 4]
    entry = {"key": key, "value": ["0x00"] * 12}
    assert service_rules.of_cilium(json.dumps([entry]) + "\n\n[]\n") == {"10.96.0.1"}


def test_services_of_a_cluster_have_endpoints_that_no_pod_is() -> None:
    making = Making("n", "r", "workload", "agent")
    seen = set()
    for number in range(3):
        made = other_services.endpoints(making, 4, number, 100)
        service = other_services.service(making, 4, number)
        name = service["metadata"]["name"]
        assert made["metadata"]["labels"]["kubernetes.io/service-name"] == name
        assert "selector" not in service["spec"]
        found = {one["addresses"][0] for one in made["endpoints"]}
        assert len(found) == 100
        assert not seen & found
        assert all(
            ipaddress.ip_address(one) in ipaddress.ip_network("198.18.0.0/15") for one in found
        )
        seen |= found


def test_connections_are_read_from_what_the_client_prints() -> None:
    workload = provider("workloads", "tcp-connect")
    parse = __import__("cnibench.workloads.tcp_connect", fromlist=["parse"]).parse
    found = {one.metric: one.value for one in parse("[3000, 1000, 2000]", "", 3).readings}
    assert found["latency_p50"] == pytest.approx(2e-6)
    assert found["latency_mean"] == pytest.approx(2e-6)
    for text, errors in (("", "Connection refused"), ("[1]", ""), ("[1, 2, 0]", ""), ("{}", "")):
        with pytest.raises(MeasureError):
            parse(text, errors, 3)
    assert workload.params({})["connections"] == 1000


def test_a_window_of_new_connections_may_end_when_netserver_gives_up() -> None:
    """netserver waits 4 s more for a connection that does not come."""
    workload = provider("workloads", "tcp-crr")
    assert workload.longest(workload.params({}), 1.0) > 1.0 + 4.0


def test_default_services_are_those_of_kubeadm() -> None:
    names = [one.name for one in default_services(4, "192.168.100.1", ["10.244.0.3"])]
    assert names[0] == "default/kubernetes:https"
    assert len(names) == 4


def test_a_plan_file_with_one_implementation() -> None:
    assert Plan.model_validate({"proxy": "ebpf"}).proxy == ("ebpf",)


def test_kube_proxys_mode_follows_the_profile_and_what_was_asked_for() -> None:
    flannel, kpr = builtin()["flannel"], builtin()["cilium-kpr"]
    assert proxy_mode.asked_of_kind(flannel) == "iptables"
    assert proxy_mode.asked_of_kind(kpr) == "none"
    asked = flannel.model_copy(update={"proxy": "nftables"})
    assert proxy_mode.asked_of_kind(asked) == "nftables"
    assert not suitability.proxy(asked)
    (problem,) = suitability.proxy(flannel.model_copy(update={"proxy": "ebpf"}))
    assert "iptables or nftables or ipvs or none" in problem.remedy
    (problem,) = suitability.proxy(kpr.model_copy(update={"proxy": "iptables"}))
    assert problem.remedy == "--proxy ebpf, or leave it out"


def test_a_cni_that_follows_kube_proxys_mode_is_refused_beside_another() -> None:
    """Felix of the operator's dataplane Nftables uses iptables where kube-proxy does."""
    calico = builtin()["calico-nftables"]
    assert proxy_mode.asked_of_kind(calico) == "nftables"
    (problem,) = suitability.proxy(calico.model_copy(update={"proxy": "iptables"}))
    assert problem.remedy == "--proxy nftables, or leave it out"
    node = SimpleNamespace(
        run=lambda argv, timeout, check: SimpleNamespace(returncode=0, stdout="iptables\n")
    )
    with pytest.raises(ClusterError, match="in mode iptables on this cluster"):
        proxy_mode.of(calico, [node])  # type: ignore[list-item]
    (problem,) = suitability.proxy_on_cluster(calico, Cluster(golden("kube-proxy")))  # type: ignore[arg-type]
    assert problem.lacks == "kube-proxy in mode nftables: the cluster's is in mode iptables"
    assert problem.remedy.startswith("choose another profile")
    flannel = builtin()["flannel"].model_copy(update={"proxy": "ipvs"})
    (problem,) = suitability.proxy_on_cluster(flannel, Cluster(golden("kube-proxy")))  # type: ignore[arg-type]
    assert problem.remedy.startswith("--proxy iptables, or set")
    usual = flannel.model_copy(update={"proxy": "iptables"})
    assert not suitability.proxy_on_cluster(usual, Cluster(golden("kube-proxy")))  # type: ignore[arg-type]
    assert not suitability.proxy_on_cluster(calico, Cluster([]))  # type: ignore[arg-type]
    assert not suitability.proxy_on_cluster(builtin()["flannel"], Cluster([]))  # type: ignore[arg-type]


def test_bare_machines_have_kube_proxy_in_its_usual_mode() -> None:
    machines = SshCluster.at("ssh://root@one,ssh://root@two")(Options())

    def refused(profile: Profile) -> bool:
        said = [one.lacks for one in machines.check(profile)]
        return any("kube-proxy is in mode iptables" in one for one in said)

    flannel = builtin()["flannel"]
    assert not refused(flannel.model_copy(update={"proxy": "iptables"}))
    assert refused(flannel.model_copy(update={"proxy": "nftables"}))
    assert refused(builtin()["calico-nftables"])


@pytest.mark.parametrize(("nft", "refused"), [("/usr/sbin/nft", True), (None, False)])
def test_a_mode_that_the_kernel_of_kinds_nodes_lacks_is_refused_where_that_is_known(
    monkeypatch: pytest.MonkeyPatch, nft: str | None, refused: bool
) -> None:
    monkeypatch.setattr(suitability.shutil, "which", lambda name: nft)
    lacking = {"nftables": False, "nft-services": False}
    monkeypatch.setattr(suitability.kernel, "found", lambda: lacking)
    asked = builtin()["flannel"].model_copy(update={"proxy": "nftables"})
    (found,) = suitability.proxy_on_this_kernel(asked) or [None]
    assert (found is not None) is refused
    assert not found or "CONFIG_NFT_NUMGEN" in found.lacks
    needing = suitability.on_this_kernel(builtin()["calico-nftables"])
    assert [one.lacks for one in needing] == ["CONFIG_NF_TABLES (nftables)"] * refused


@pytest.mark.parametrize(
    ("path", "refused"), [("pod", False), ("clusterip", True), ("nodeport", True)]
)
def test_a_path_through_services_that_nothing_implements_is_refused(
    path: str, refused: bool
) -> None:
    profile = builtin()["flannel"].model_copy(update={"proxy": "none"})
    assert bool(unsupported.refusal(profile, cell("flannel", path))) is refused


@pytest.mark.parametrize(("status", "said", "found"), [(0, "nftables\n", "nftables"), (1, "", "")])
def test_kube_proxy_is_asked_and_another_mode_is_refused(
    status: int, said: str, found: str
) -> None:
    node = SimpleNamespace(
        run=lambda argv, timeout, check: SimpleNamespace(returncode=status, stdout=said)
    )
    flannel = builtin()["flannel"]
    assert proxy_mode.of(flannel, [node]) == found  # type: ignore[list-item]
    with pytest.raises(ClusterError, match="ipvs was asked for"):
        proxy_mode.of(flannel.model_copy(update={"proxy": "ipvs"}), [node])  # type: ignore[list-item]
