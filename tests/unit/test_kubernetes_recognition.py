"""Which CNI and which of its modes a cluster runs, and whether its rollout has finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cnibench.clusters.kubernetes.cni import recognise, wait
from cnibench.errors import LimitError
from cnibench.model.installation import Fact
from cnibench.model.profile import builtin
from cnibench.system.process import Done


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


class Answers:
    """The API as far as recognition asks it: objects by KIND/NAMESPACE/NAME."""

    def __init__(
        self, objects: Mapping[str, Any], nodes: list[dict[str, Any]] | None = None
    ) -> None:
        self.objects = objects
        self.nodes = nodes or []

    def kubectl(self, *argv: str, check: bool = True, **_: object) -> Done:
        name = "/".join([argv[1], *([argv[argv.index("-n") + 1]] if "-n" in argv else []), argv[2]])
        found = self.objects.get(name)
        return Done(argv, 0, json.dumps(found) if found else "", "", 0.0)

    def get(self, what: str, *_: str) -> dict[str, Any]:
        return {"items": self.nodes if what == "nodes" else []}


def _flannel(backend: str, **more: object) -> dict[str, Any]:
    text = json.dumps({"Network": "10.244.0.0/16", "Backend": {"Type": backend, **more}})
    return {
        "daemonset/kube-flannel/kube-flannel-ds": {"kind": "DaemonSet"},
        "configmap/kube-flannel/kube-flannel-cfg": {"data": {"net-conf.json": text}},
    }


def _cilium(**data: str) -> dict[str, Any]:
    return {
        "daemonset/kube-system/cilium": {"kind": "DaemonSet"},
        "configmap/kube-system/cilium-config": {"data": data},
    }


def _calico(**network: object) -> dict[str, Any]:
    return {
        "installation.operator.tigera.io/default": {
            "kind": "Installation",
            "spec": {"calicoNetwork": network},
        }
    }


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
        (_cilium(**{"routing-mode": "native", "kube-proxy-replacement": "true"}), "cilium-kpr"),
        (
            _calico(linuxDataplane="Iptables", ipPools=[{"encapsulation": "VXLAN"}]),
            "calico-np-vxlan",
        ),
        (_calico(linuxDataplane="BPF", ipPools=[{"encapsulation": "None"}]), "calico-ebpf"),
        (_calico(), "calico-np-ipip"),
    ],
)
def test_recognition(objects: Mapping[str, Any], name: str) -> None:
    found, words = recognise.current(Answers(objects))  # type: ignore[arg-type]
    assert found == name
    assert builtin()[name].title in words


def test_a_mode_that_no_profile_describes_is_named() -> None:
    found, words = recognise.current(Answers(_flannel("vxlan", DirectRouting=True)))  # type: ignore[arg-type]
    assert found == ""
    assert "flannel, in a mode that no profile describes" in words
    assert "DirectRouting is 'true'" in words


def test_no_cni(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognise, "_SETTLING", 0.0)  # kubelets are given time to say so
    message = (
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"
        " message: cni plugin not initialized"
    )
    bare = {"status": {"conditions": [{"type": "Ready", "status": "False", "message": message}]}}
    assert recognise.current(Answers({}, [bare, bare])) == ("", recognise.NONE)  # type: ignore[arg-type]
    fine = {"status": {"conditions": [{"type": "Ready", "status": "True", "message": ""}]}}
    assert recognise.current(Answers({}, [bare, fine]))[1] != recognise.NONE  # type: ignore[arg-type]


def test_a_daemonsets_options_and_variables_are_facts() -> None:
    container = {"args": ["--enable-overlay=false"], "env": [{"name": "MODE", "value": "1"}]}
    workload = {"spec": {"template": {"spec": {"containers": [container]}}}}
    assert (
        recognise.observed(Fact(object="x", argument="--enable-overlay", equals=""), workload)
        == "false"
    )
    assert (
        recognise.observed(
            Fact(object="x", argument="--none", equals="", otherwise="true"), workload
        )
        == "true"
    )
    assert recognise.observed(Fact(object="x", variable="MODE", equals=""), workload) == "1"
    assert recognise.observed(Fact(object="x", variable="MODE", equals=""), None) == ""


class _Nodes:
    """An API server's word on two nodes, one answer after the other; the last one stays."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    def get(self, *what: str) -> dict[str, Any]:
        assert what == ("nodes",)
        said = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        status = {"y": "True", "n": "False"}
        conditions = [[{"type": "Ready", "status": status[letter]}] for letter in said]
        return {
            "items": [
                {"metadata": {"name": f"n{i}"}, "status": {"conditions": one}}
                for i, one in enumerate(conditions)
            ]
        }


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
