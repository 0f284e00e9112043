"""The attestation notices each change of sabotages.yaml and passes clean deployments."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.ebpf import tc
from cnibench.clusters.lab.ebpf.maps import ALLOW_ALL
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError
from cnibench.model.cell import Attestation
from cnibench.model.profile import builtin
from cnibench.system.bpf import call
from tests.lab._profiles import buildable, lacking

pytestmark = pytest.mark.timeout(900)  # s: some hundred comparisons, on a machine that is busy
Make = Callable[..., LabDeployment]
SABOTAGES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "sabotages.yaml").read_text(encoding="utf-8")
)
_PROG_DETACH, _TCX_INGRESS = 9, 46  # of bpf(2)
_CLEAN = 2  # deployments of each profile; benchmarks/false_alarms.py makes more


def failed(found: list[Attestation]) -> set[str]:
    return {item.check for item in found if not item.passed}


def test_there_are_at_least_sixty_distinct_ones() -> None:
    names = {(profile, one["name"]) for profile, all_ in SABOTAGES.items() for one in all_}
    assert len(names) == sum(map(len, SABOTAGES.values())) >= 60


@pytest.mark.parametrize("profile", SABOTAGES)
def test_each_is_noticed_and_undone(make_stand: Make, profile: str) -> None:
    if missing := lacking(profile):
        pytest.skip(f"this kernel lacks {', '.join(missing)}")
    deployment = make_stand(profile)
    assert not failed(deployment.verify())
    missed = []
    for one in SABOTAGES[profile]:
        ns = _place(deployment, one["at"])
        try:
            _apply(deployment, ns, one)
        except ClusterError as error:
            missed.append(f"{one['name']} could not be applied: {error.message}")
        caught = failed(deployment.verify())
        if f"kernel-state-{one['at'].replace(' ', '-')}" not in caught:
            missed.append(f"{one['name']}: {caught or 'nothing failed'}")
        if "traffic" in one:
            caught = failed(deployment.attest())
            if one["traffic"] not in caught:
                missed.append(f"{one['name']}, by traffic: {caught}")
        if one["undo"] == "deploy":
            deployment.remove()
            deployment = make_stand(profile)
        elif one["undo"] == "load":
            for node in deployment.nodes():
                deployment.datapath.load(node)  # type: ignore[attr-defined]
        else:
            _run(ns, _filled(deployment, one["at"], one["undo"]))
        if wrong := [item for item in deployment.verify() if not item.passed]:
            missed.append(f"{one['name']} cannot be undone: {wrong}")
            deployment.remove()
            deployment = make_stand(profile)
    assert not missed, "\n".join(missed)


def _place(deployment: LabDeployment, name: str) -> Namespace:
    pods = {pod.name: pod.ns for pod in deployment.pods()}
    nodes = {node.name: node.ns for node in deployment.nodes()}
    return {**pods, **nodes, **deployment.datapath.namespaces()}[name]


def _filled(deployment: LabDeployment, at: str, command: str) -> str:
    client, server = deployment.pair("inter")
    veth = (server if at == "b" else client).host_end
    if "{stranger}" in command:
        stranger = deployment.stranger(deployment.b if at == "b" else deployment.a)
        command = command.replace("{stranger}", stranger.addresses[4])
    return command.replace("{veth}", veth)


def _apply(deployment: LabDeployment, ns: Namespace, one: dict[str, Any]) -> None:
    if "python" not in one:
        _run(ns, _filled(deployment, one["at"], one["do"]))
        return
    if one["python"] == "detach":
        _detach(deployment, ns)
        return
    maps = deployment.datapath.maps["a"]  # type: ignore[attr-defined]
    server = deployment.pair("inter")[1].addresses[4]
    if one["python"] == "allow_all":
        maps.policy(0, ALLOW_ALL[:1])
    elif one["python"] == "identity":
        maps.identity(f"{server}/32", 0x4E77, "192.168.100.2")
    else:
        maps.identity(f"{server}/32", 0x4E01)


def _detach(deployment: LabDeployment, ns: Namespace) -> None:
    """Takes the server's program off its device, at TCX or at clsact."""
    _, server = deployment.pair("inter")
    if not tc.has_tcx():
        _run(ns, f"tc filter del dev {server.host_end} ingress")
        return
    maps = deployment.datapath.maps["b"]  # type: ignore[attr-defined]
    program = maps.program("cil_from_container", server.number + 1)
    with ns.inside():
        index = socket.if_nametoindex(server.host_end)
        call(_PROG_DETACH, struct.pack("=IIIIIIQ", index, program, _TCX_INGRESS, 0, 0, 0, 0))


def _run(ns: Namespace, command: str) -> None:
    ns.run(["sh", "-ec", command], timeout=20)


def test_clean_deployments_raise_no_false_alarm(make_stand: Make) -> None:
    wrong = []
    for name in buildable():
        if 4 not in builtin()[name].features.ip:
            continue
        for number in range(_CLEAN):
            deployment = make_stand(name)
            found = deployment.attest() if not number else deployment.verify()
            wrong += [f"{name}, {number}: {item}" for item in found if not item.passed]
            deployment.remove()
    assert not wrong


@pytest.mark.parametrize(
    "profile", ["flannel", "calico-wp-xsub", "kube-router", "cilium", "calico-ebpf", "swarm-vxlan"]
)
def test_more_pods_and_pods_that_went_are_no_change(make_stand: Make, profile: str) -> None:
    deployment = make_stand(profile)
    deployment.pair("inter", 1)
    deployment.add_pods(deployment.b, 2)
    assert not failed(deployment.verify())
    started = deployment.start_pods(deployment.a, 2, at_once=True)
    deployment.remove_pods([one.pod for one in started])
    assert not [item for item in deployment.verify() if not item.passed]
