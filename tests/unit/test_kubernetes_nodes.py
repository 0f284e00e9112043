"""Which nodes are chosen, what is refused, what is asked of the API server: pure decisions over
objects of the API.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.kind import configuration
from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access, DeniedError, UnreachableError
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.api.tools import version
from cnibench.clusters.kubernetes.cni import subnets
from cnibench.clusters.kubernetes.nodes import pids_limit
from cnibench.clusters.kubernetes.nodes.environment import _device
from cnibench.clusters.kubernetes.nodes.nodes import (
    Facts,
    Taint,
    Wanted,
    choose,
    facts,
    matches,
    tolerated,
    toleration,
)
from cnibench.clusters.kubernetes.ownership import safety
from cnibench.clusters.kubernetes.pods import paths, pods
from cnibench.errors import InputError, UnsupportedError, UsageError
from cnibench.system.process import Done

MAKING = Making("space", "run", "workload:1", "agent:1")


def node(
    name: str, *, ready: bool = True, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """As the API gives it."""
    addresses = spec.pop("addresses", ["192.0.2.1"])
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {
            "addresses": (
                [{"type": "InternalIP", "address": item} for item in addresses]
                + [{"type": "Hostname", "address": name}]
            ),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "message": "cni plugin not initialized",
                }
            ],
            "nodeInfo": {
                "operatingSystem": spec.pop("system", "linux"),
                "architecture": spec.pop("arch", "arm64"),
                "kernelVersion": "6.1",
            },
        },
    }


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> dict[str, str]:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


CONTROL = node(
    "c",
    labels={"node-role.kubernetes.io/control-plane": ""},
    taints=[taint("node-role.kubernetes.io/control-plane")],
)


def chosen(
    *nodes: dict[str, Any], families: tuple[int, ...] = (4,), **wanted: Any
) -> tuple[str, str]:
    client, server = choose([facts(item) for item in nodes], Wanted(**wanted), families)
    return client.name, server.name


def test_driver_of_a_physical_nic_is_recorded() -> None:
    """ip link has a kind only for virtual devices."""
    said = {
        "-i": "driver: mlx5_core\nversion: 6.1.0\nbus-info: 0000:3b:00.0\n",
        "-k": "Features for eth0:\nrx-gro: on\ntx-lro: off\n",
    }
    one: Any = SimpleNamespace(
        device="eth0",
        read_text=lambda path: "1500\n" if path.endswith("/mtu") else "25000\n",
        run=lambda argv, timeout: Done(tuple(argv), 0, said[argv[1]], "", 0.0),
    )
    assert _device(one) == {
        "mtu": "1500",
        "speed": "25000",
        "features": {"rx-gro": "on"},
        "driver": "mlx5_core",
    }


def test_two_workers_are_chosen_before_the_control_plane() -> None:
    assert chosen(CONTROL, node("z"), node("y")) == ("y", "z")
    with pytest.raises(
        UsageError, match=r"c is tainted node-role\.kubernetes\.io/control-plane:NoSchedule"
    ):
        chosen(CONTROL, node("y"))
    assert chosen(
        CONTROL, node("y"), tolerations=(toleration("node-role.kubernetes.io/control-plane"),)
    ) == ("y", "c")


def test_names_and_selectors_choose() -> None:
    nodes = (
        node("x"),
        node("y", labels={"zone": "a", "disk": "ssd"}),
        node("z", unschedulable=True),
    )
    assert chosen(*nodes, client="y") == ("y", "x")
    assert chosen(*nodes, server="x") == ("y", "x")
    assert chosen(*nodes, client_selector="zone=a,disk!=hdd") == ("y", "x")
    assert chosen(*nodes, client="z", server="y") == ("z", "y")
    with pytest.raises(UsageError, match="there is no node 'w'"):
        chosen(*nodes, client="w")
    with pytest.raises(UsageError, match="z is cordoned"):
        chosen(node("x"), node("z", unschedulable=True))
    with pytest.raises(UsageError, match="has not the labels zone=b"):
        chosen(*nodes, server_selector="zone=b")
    with pytest.raises(UsageError, match="one node"):
        chosen(*nodes, client="x", server="x")


def test_a_node_that_only_lacks_its_cni_is_taken_and_others_that_are_not_ready_are_not() -> None:
    waiting = node("x", ready=False, taints=[taint("node.kubernetes.io/not-ready")])
    assert chosen(waiting, node("y")) == ("x", "y")
    with pytest.raises(UsageError, match="is not Ready"):
        chosen(node("x", ready=False), node("y"))
    with pytest.raises(UsageError, match="runs windows"):
        chosen(node("x", system="windows"), node("y"))


def test_families_are_asked_of_the_nodes() -> None:
    both = node("x", addresses=["192.0.2.1", "2001:db8::1"])
    six = node("y", addresses=["2001:db8::2"])
    assert facts(both).addresses == {4: "192.0.2.1", 6: "2001:db8::1"}
    assert chosen(both, six, families=(6,)) == ("x", "y")
    with pytest.raises(UsageError, match="y has no IPv4 address"):
        chosen(both, six, families=(4, 6))


def test_tolerations_are_the_schedulers() -> None:
    gpu = Taint("gpu", "a", "NoSchedule")
    for text, expected in (
        ("gpu", True),
        ("gpu=a", True),
        ("gpu=b", False),
        ("gpu=a:NoExecute", False),
        ("all", True),
        ("other", False),
    ):
        assert tolerated(gpu, [toleration(text)]) is expected, text
    for wrong in ("", ":NoSchedule", "gpu:Never"):
        with pytest.raises(UsageError, match="--toleration takes"):
            toleration(wrong)


def test_selectors() -> None:
    labels = {"a": "1", "b": ""}
    for text, expected in (
        ("", True),
        ("a=1", True),
        ("a==1,b", True),
        ("a!=1", False),
        ("!c", True),
        ("c", False),
        ("!a", False),
    ):
        assert matches(labels, text) is expected, text
    with pytest.raises(UsageError, match="set-based"):
        matches(labels, "a in (1,2)")


# Refusals


def pod(name: str, namespace: str = "shop", where: str = "x", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": where, **more},
        "status": {"phase": "Running"},
    }


def test_pods_of_the_system_and_our_own_are_no_strangers() -> None:
    found = safety.foreign(
        [
            pod("web"),
            pod("dns", "kube-system"),
            pod("old", where="y", labels={objects.OURS: objects.NAME}),
            pod("agent", "monitoring", priorityClassName="system-node-critical"),
            pod("db", where="y"),
        ]
    )
    assert found == [("x", "shop/web"), ("y", "shop/db")]


def test_load_beside_strangers_is_refused_unless_allowed() -> None:
    strangers = [("x", "shop/web"), ("z", "shop/db")]
    safety.check_load(safety.Allowed(), strangers, ["y"])
    safety.check_load(safety.Allowed(load=True), strangers, ["x", "y"])
    with pytest.raises(safety.RefusedError) as refused:
        safety.check_load(safety.Allowed(), strangers, ["x", "y"])
    assert (
        refused.value.message == "1 Pod of others (shop/web) on the chosen nodes would be disturbed"
    )
    assert "--allow-load" in refused.value.remedy
    assert refused.value.exit_code == 2


def test_a_cni_is_changed_only_where_that_was_allowed_by_name() -> None:
    with pytest.raises(safety.RefusedError, match="has no CNI, and installing one was not allowed"):
        safety.check_change(safety.Allowed(), "", "production", 30, [])
    safety.check_change(safety.Allowed(install=True), "", "production", 30, [])
    for allowed in (
        safety.Allowed(),
        safety.Allowed(install=True),
        safety.Allowed(replace="staging"),
    ):
        with pytest.raises(
            safety.RefusedError, match=r"'production' \(30 nodes\) has a CNI \(flannel\)"
        ):
            safety.check_change(allowed, "flannel", "production", 30, [])
    safety.check_change(safety.Allowed(replace="production"), "flannel", "production", 30, [])
    with pytest.raises(safety.RefusedError, match="no CNI is changed under them"):
        safety.check_change(
            safety.Allowed(replace="production"), "flannel", "production", 30, [("x", "shop/web")]
        )


def test_what_is_about_to_be_done_is_told() -> None:
    told = safety.lines(
        "prod",
        ["x", "y"],
        [("x", "shop/web")],
        safety.Allowed(load=True, max_rate=1e9),
        120.0,
        0.0,
        "nothing is changed",
    )
    assert told[:3] == [
        "context prod: clients on node x, servers on node y",
        "Pods of others on these nodes: 1 Pod of others (shop/web)",
        "load: at most 1.00 Gbit/s a Pod; about 2 min 00 s of windows",
    ]
    with pytest.raises(UsageError, match="--max-rate"):
        safety.Allowed.of({"max_rate": "1k"})


# The kubeconfig

CONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}, {name: there, context: {cluster: c, user: v}}]
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}]
users:
- {name: u, user: {token: very-secret-token}}
- {name: v, user: {client-key-data: a2V5LWRhdGE=, exec: {command: x, env: [{name: PASSWORD, value: hunter2hunter2}]}}}
"""  # noqa: E501


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return path


def test_contexts_are_checked_and_the_current_one_is_pinned(kubeconfig: Path) -> None:
    assert Access(kubeconfig).command("get", "pods")[:5] == [
        "kubectl",
        "--context",
        "here",
        "--kubeconfig",
        str(kubeconfig),
    ]
    with pytest.raises(UsageError, match="no context 'nowhere'"):
        Access(kubeconfig, "nowhere")
    with pytest.raises(InputError, match="No such file"):
        Access(kubeconfig.with_name("none"))
    kubeconfig.write_text("token: [very-secret-token")
    with pytest.raises(InputError) as error:
        Access(kubeconfig)
    assert "very-secret" not in error.value.message + error.value.remedy


def test_no_secret_of_the_kubeconfig_is_told(kubeconfig: Path) -> None:
    access = Access(kubeconfig)
    said = "Authorization: Bearer very-secret-token a2V5LWRhdGE= hunter2hunter2 rejected"
    error = access.error(Done(("kubectl", "get", "pods"), 1, "", said, 0.1))
    assert (
        error.message
        == "kubectl get pods ended with 1: Authorization: Bearer (secret) (secret) (secret)"
        " rejected"
    )


def test_what_kubectl_says_has_a_type(kubeconfig: Path) -> None:
    access = Access(kubeconfig)
    for said, kind in (
        (
            (
                "The connection to the server 192.0.2.1:6443 was refused - did you specify the"
                " right host or port?"
            ),
            UnreachableError,
        ),
        ("Unable to connect to the server: net/http: TLS handshake timeout", UnreachableError),
        (
            (
                'Error from server (Forbidden): nodes is forbidden: User "u" cannot list resource'
                ' "nodes"'
            ),
            DeniedError,
        ),
        ("error: You must be logged in to the server (Unauthorized)", DeniedError),
    ):
        assert type(access.error(Done(("kubectl", "get", "nodes"), 1, "", said, 0.1))) is kind, said


# Objects


def test_pods_are_pinned_tolerant_and_pull_only_when_they_must() -> None:
    spec = objects.pod(MAKING, "a0", "node-1")["spec"]
    fields = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ][0]["matchFields"]
    assert fields == [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert spec["automountServiceAccountToken"] is False
    assert "hostNetwork" not in spec
    assert objects.pod(MAKING, "ah0", "node-1", host=True)["spec"]["hostNetwork"] is True
    private = Making("space", "run", "w", "a", pull_secret="mine", rights="none")
    spec = objects.pod(private, "a0", "node-1")["spec"]
    assert spec["imagePullSecrets"] == [{"name": "mine"}]
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_agent_runs_on_the_chosen_nodes_only_and_without_rights_where_they_are_refused() -> (
    None
):
    template = objects.agent(MAKING, ["x", "y"])["spec"]["template"]["spec"]
    terms = template["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert [term["matchFields"][0]["values"] for term in terms] == [["x"], ["y"]]
    confined = objects.agent(Making("space", "run", "w", "a", rights="network"), ["x"])["spec"][
        "template"
    ]["spec"]
    assert "volumes" not in confined
    assert "hostPID" not in confined
    assert confined["hostNetwork"] is True
    assert (
        "hostNetwork"
        not in objects.agent(Making("space", "run", "w", "a", rights="none"), ["x"])["spec"][
            "template"
        ]["spec"]
    )
    assert confined["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_node_port_is_the_same_everywhere_and_no_two_ports_meet() -> None:
    service = paths.service(MAKING, "b0", "nodeport", (4,), 30000)
    ports = [port for port in service["spec"]["ports"] if port["protocol"] == "TCP"]
    assert all(
        port["port"] == port["targetPort"] == port["nodePort"] and 30000 <= port["port"] <= 32767
        for port in ports
    )
    assert len({port["port"] for port in ports}) == len(ports) == paths.node_ports().step
    assert paths.port(12866, 30000) in {port["port"] for port in ports}
    assert paths.port(12866, 0) == 12866
    assert (
        paths.service(MAKING, "b0", "clusterip", (4, 6), 0)["spec"]["ipFamilyPolicy"]
        == "RequireDualStack"
    )
    with pytest.raises(UnsupportedError):
        paths.port(9999, 30000)


def test_why_a_pod_does_not_run_is_found() -> None:
    def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
        return {
            "status": {
                "containerStatuses": [
                    {"state": {"waiting": {"reason": reason, "message": message}}, **more}
                ]
            }
        }

    assert pods.trouble(waiting("ImagePullBackOff", "Back-off pulling image")) == (
        "ImagePullBackOff",
        "Back-off pulling image",
    )
    assert pods.trouble(waiting("ContainerCreating")) == ("", "")
    crashed = waiting(
        "CrashLoopBackOff",
        "back-off 10s",
        lastState={"terminated": {"exitCode": 139, "reason": "Error"}},
    )
    assert pods.trouble(crashed) == ("CrashLoopBackOff", "its container ended with 139 Error")
    unscheduled = {
        "status": {
            "conditions": [
                {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
            ]
        }
    }
    assert pods.trouble(unscheduled) == ("Unschedulable", "0/2 nodes are available")
    evicted = {
        "status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}
    }
    assert pods.trouble(evicted) == ("Ended", "Evicted The node was low on memory")
    terminated = {
        "reason": "StartError",
        "message": "fork/exec containerd-shim-runc-v2: resource temporarily unavailable",
    }
    unstarted = {
        "status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": terminated}}]}
    }
    assert pods.trouble(unstarted) == (
        "Ended",
        "StartError fork/exec containerd-shim-runc-v2: resource temporarily unavailable",
    )
    assert pods.addresses({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}) == {
        4: "10.0.0.1",
        6: "fd00::1",
    }


def test_address_ranges_are_read_by_family() -> None:
    assert subnets._first("10.244.0.0/16,fd00:10:244::/56", 6) == "fd00:10:244::/56"
    assert subnets._first("fd00:10:244::/56", 4) == ""


def test_a_cluster_of_kind_is_asked_for_without_a_cni() -> None:
    four = configuration((4,), 2, True)
    assert four["networking"]["disableDefaultCNI"] is True
    assert (four["networking"]["ipFamily"], four["networking"]["podSubnet"]) == (
        "ipv4",
        "10.244.0.0/16",
    )
    assert [item["role"] for item in four["nodes"]] == ["control-plane", "worker"]
    assert "apiServerAddress" not in four["networking"]
    assert configuration((6,), 2, True)["networking"]["apiServerAddress"] == "127.0.0.1", (
        "podman forwards no port of ::1"
    )
    both = configuration((4, 6), 3, False)
    assert (
        both["networking"]["ipFamily"],
        both["networking"]["kubeProxyMode"],
        len(both["nodes"]),
    ) == ("dual", "none", 3)
    json.dumps(both)


def test_versions_are_read() -> None:
    assert version("Client Version: v1.34.4\nKustomize Version: v5.7.1\n") == (1, 34)
    assert version("kind v0.33.0 go1.26.8 linux/amd64") == (0, 33)
    assert version("v3.22.0+g144f4ff") == (3, 22)
    assert version("what?") is None


def test_facts_survive_a_node_that_tells_little() -> None:
    bare = facts({"metadata": {"name": "x"}})
    assert isinstance(bare, Facts)
    assert not bare.ready


@pytest.mark.parametrize(
    ("table", "file"),
    [
        (
            "9:name=systemd:/libpod_parent/libpod-abc/init.scope\n8:pids:/libpod_parent/libpod-abc/init.scope\n0::/libpod_parent/libpod-abc\n",
            "pids/libpod_parent/libpod-abc/pids.max",
        ),
        (
            "0::/machine.slice/libpod-abc.scope/container/init.scope\n",
            "machine.slice/libpod-abc.scope/pids.max",
        ),
        (
            "0::/system.slice/docker-abc.scope/init.scope\n",
            "system.slice/docker-abc.scope/pids.max",
        ),
        ("0::/\n", ""),
        ("", ""),
    ],
)
def test_where_the_limit_of_a_nodes_processes_stands(table: str, file: str, tmp_path: Path) -> None:
    assert pids_limit.limit_of(table, "abc", tmp_path) == (tmp_path / file if file else None)
