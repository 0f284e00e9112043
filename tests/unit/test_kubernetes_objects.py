"""The objects that a run creates, and what is read from the status of its Pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cnibench.clusters.kind.containers import configuration
from cnibench.clusters.kubernetes.api import objects, pods
from cnibench.clusters.kubernetes.api.objects import Making, Rights
from cnibench.clusters.kubernetes.cni import subnets
from cnibench.clusters.kubernetes.pods import paths
from cnibench.errors import UnsupportedError

MAKING = Making("space", "run", "workload:1", "agent:1")


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
    assert template["hostPID"] is True
    assert "hostPID" not in confined
    for spec in (template, confined):
        assert all(volume.keys() == {"name", "emptyDir"} for volume in spec["volumes"])
        assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert confined["hostNetwork"] is True
    assert (
        "hostNetwork"
        not in objects.agent(Making("space", "run", "w", "a", rights="none"), ["x"])["spec"][
            "template"
        ]["spec"]
    )
    assert confined["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_agent_asks_for_the_capabilities_that_it_uses() -> None:
    def context(rights: Rights) -> dict[str, Any]:
        spec = objects.agent_pod(MAKING.given(rights), "x")["spec"]
        return dict(spec["containers"][0]["securityContext"])

    few = context("capabilities")
    assert "privileged" not in few
    assert few["capabilities"] == {"drop": ["ALL"], "add": list(objects.CAPABILITIES)}
    assert not {"SYS_MODULE", "SYS_BOOT", "SYS_RAWIO", "MKNOD"} & objects.CAPABILITIES.keys()
    assert few["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context("privileged")["privileged"] is True
    selector = objects.agent_selector(MAKING.given("privileged"))
    assert selector == "cnibench.io/role=agent,cnibench.io/rights=privileged"
    labels = objects.agent(MAKING.given("privileged"), ["x"])["spec"]["template"]["metadata"][
        "labels"
    ]
    assert {
        part.partition("=")[0]: part.partition("=")[2] for part in selector.split(",")
    }.items() <= (labels.items())


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
    four = configuration((4,), 2, "nftables")
    assert four["networking"]["disableDefaultCNI"] is True
    assert (four["networking"]["ipFamily"], four["networking"]["podSubnet"]) == (
        "ipv4",
        "10.244.0.0/16",
    )
    assert [item["role"] for item in four["nodes"]] == ["control-plane", "worker"]
    assert "apiServerAddress" not in four["networking"]
    assert configuration((6,), 2, "iptables")["networking"]["apiServerAddress"] == "127.0.0.1", (
        "podman forwards no port of ::1"
    )
    both = configuration((4, 6), 3, "none")
    assert (
        both["networking"]["ipFamily"],
        both["networking"]["kubeProxyMode"],
        len(both["nodes"]),
    ) == ("dual", "none", 3)
    patches = [json.loads(text) for text in both["kubeadmConfigPatches"]]
    (kubelet,) = [one for one in patches if one["kind"] == "KubeletConfiguration"]
    assert kubelet["nodeStatusUpdateFrequency"] == "2s", "an installation waits for a node's word"
