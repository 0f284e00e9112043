"""Which CNI and which of its modes a cluster runs, and whether its rollout has finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cnibench.clusters.kubernetes.cni import recognise, wait
from cnibench.errors import LimitError
from cnibench.model.profile import builtin
from tests.unit._manifests import Cluster, node


def _workload(kind: str, generation: int = 2, **status: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {"name": "x", "generation": generation},
        "spec": {"replicas": 2},
        "status": status,
    }


@pytest.mark.parametrize(
    ("workload", "lacks"),
    [
        (_workload("DaemonSet", observedGeneration=1), "has not been looked at"),
        (_workload("DaemonSet", observedGeneration=2, desiredNumberScheduled=0), "is on no node"),
        (
            _workload(
                "DaemonSet",
                observedGeneration=2,
                desiredNumberScheduled=2,
                updatedNumberScheduled=1,
                numberAvailable=2,
            ),
            "1 of 2",
        ),
        (
            _workload(
                "DaemonSet",
                observedGeneration=2,
                desiredNumberScheduled=2,
                updatedNumberScheduled=2,
                numberAvailable=2,
            ),
            "",
        ),
        (
            _workload("Deployment", observedGeneration=2, updatedReplicas=2, availableReplicas=1),
            "1 of 2",
        ),
        (_workload("Deployment", observedGeneration=2, updatedReplicas=2, availableReplicas=2), ""),
    ],
)
def test_rollout(workload: Mapping[str, Any], lacks: str) -> None:
    words = wait.rollout(workload)
    assert (lacks in words) if lacks else not words


def _daemonset(namespace: str, name: str) -> dict[str, Any]:
    meta = {"namespace": namespace, "name": name}
    pod = {"hostNetwork": True, "containers": []}
    return {"kind": "DaemonSet", "metadata": meta, "spec": {"template": {"spec": pod}}}


def _flannel(backend: str, **more: object) -> list[dict[str, Any]]:
    text = json.dumps({"Network": "10.244.0.0/16", "Backend": {"Type": backend, **more}})
    meta = {"namespace": "kube-flannel", "name": "kube-flannel-cfg"}
    configuration = {"kind": "ConfigMap", "metadata": meta, "data": {"net-conf.json": text}}
    return [_daemonset("kube-flannel", "kube-flannel-ds"), configuration]


def _cilium(**data: str) -> list[dict[str, Any]]:
    meta = {"namespace": "kube-system", "name": "cilium-config"}
    return [
        _daemonset("kube-system", "cilium"),
        {"kind": "ConfigMap", "metadata": meta, "data": data},
    ]


def _calico(**network: object) -> list[dict[str, Any]]:
    spec = {"calicoNetwork": network}
    return [{"kind": "Installation", "metadata": {"name": "default"}, "spec": spec}]


@pytest.mark.parametrize(
    ("objects", "name"),
    [
        (_flannel("vxlan"), "flannel"),
        (_flannel("host-gw"), "flannel-host-gw"),
        (
            _cilium(
                **{
                    "routing-mode": "tunnel",
                    "tunnel-protocol": "vxlan",
                    "kube-proxy-replacement": "false",
                }
            ),
            "cilium",
        ),
        (_cilium(**{"routing-mode": "native", "enable-wireguard": "true"}), "cilium-wireguard"),
        (
            _cilium(
                **{
                    "routing-mode": "native",
                    "kube-proxy-replacement": "true",
                    "enable-bpf-masquerade": "true",
                }
            ),
            "cilium-kpr",
        ),
        (
            _calico(linuxDataplane="Iptables", ipPools=[{"encapsulation": "VXLAN"}]),
            "calico-np-vxlan",
        ),
        (_calico(linuxDataplane="BPF", ipPools=[{"encapsulation": "None"}]), "calico-ebpf"),
        (_calico(linuxDataplane="Iptables", ipPools=[{"encapsulation": "IPIP"}]), "calico-np-ipip"),
    ],
)
def test_recognition(objects: list[dict[str, Any]], name: str) -> None:
    found = recognise.current(Cluster(objects))  # type: ignore[arg-type]
    assert found.name == name
    assert builtin()[name].title in found.said


def test_no_cni(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognise, "_SETTLING", 0.0)  # kubelets are given time to say so
    message = (
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"
        " message: cni plugin not initialized"
    )
    bare, fine = node("bare", "False", message), node("fine")
    assert recognise.current(Cluster([bare])).said == recognise.NONE  # type: ignore[arg-type]
    assert recognise.current(Cluster([bare, fine])).said != recognise.NONE  # type: ignore[arg-type]


class _Nodes:
    """An API server's word on two nodes, one answer after the other; the last one stays."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    def listed(self, kind: str) -> list[dict[str, Any]]:
        assert kind == "nodes"
        said = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        status = {"y": "True", "n": "False"}
        conditions = [[{"type": "Ready", "status": status[letter]}] for letter in said]
        return [
            {"metadata": {"name": f"n{i}"}, "status": {"conditions": one}}
            for i, one in enumerate(conditions)
        ]


def test_a_node_that_is_ready_by_the_cni_before_is_not_believed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wait, "_STEP", 0.0)
    monkeypatch.setattr(wait, "_STALE", 0.2)
    profile = builtin()["bridge-static"]
    late = _Nodes("yy", "yy", "yn", "nn", "ny", "yy", "nn")
    wait.ready(late, profile, 10)  # type: ignore[arg-type]
    assert late.asked == 6, (
        "both were seen to turn, and are Ready by this CNI: nothing more is waited for"
    )
    never = _Nodes("yy")
    wait.ready(never, profile, 10)  # type: ignore[arg-type]
    assert never.asked > 2, "neither turned in all the time that it may take"
    with pytest.raises(LimitError, match="node n1 is not Ready"):
        wait.ready(_Nodes("yy", "yn"), profile, 0.3)  # type: ignore[arg-type]
