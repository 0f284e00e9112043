"""The changes of sabotages.yaml: each is applied to a deployment, looked for by its attestation and
undone.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import yaml

from cnibench.clusters.lab.attestation import comparison
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.ebpf import tc
from cnibench.clusters.lab.ebpf.maps import ALLOW_ALL
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError
from cnibench.listing import listing as listings
from cnibench.model.cell import Attestation
from cnibench.model.profile import builtin
from cnibench.system.bpf import call
from cnibench.testbed.cluster import Options
from tests.lab import _sabotage_ebpf, _sabotage_namespace

FILE = Path(__file__).parent / "sabotages.yaml"
_PROG_DETACH, _TCX_INGRESS = 9, 46  # of bpf(2)
_LIMIT = 20.0  # s
_CHANGES = {**_sabotage_ebpf.CHANGES, **_sabotage_namespace.CHANGES}
Noticed = Literal["comparison", "traffic", "nothing"]


class Sabotage(NamedTuple):
    """One entry of the file, which explains the fields. ``reason`` says why it is not noticed."""

    name: str
    at: str
    undo: str
    do: str = ""
    python: str = ""
    traffic: str = ""
    noticed: Noticed = "comparison"
    reason: str = ""


class Outcome(NamedTuple):
    """What noticed a sabotage; ``wrong`` says in what that is not as the file says."""

    profile: str
    name: str
    noticed: Noticed | None  # None: it could not be applied
    wrong: str


SABOTAGES: dict[str, list[Sabotage]] = {
    profile: [Sabotage(**one) for one in all_]
    for profile, all_ in yaml.safe_load(FILE.read_text(encoding="utf-8")).items()
}


def outcomes(make: Callable[[], LabDeployment], profile: str) -> Iterator[Outcome]:
    """Of every sabotage of a profile; ``make`` deploys it. Deployments are removed."""
    deployment = make()
    try:
        if wrong := _failed(deployment.verify()):
            raise AssertionError(f"{profile} is refuted without a sabotage: {wrong}")
        for one in SABOTAGES[profile]:
            noticed, wrong = _tried(deployment, one)
            if one.undo == "deploy" or (undone := _undone(deployment, one)):
                deployment.remove()
                deployment = make()
                undone = "" if one.undo == "deploy" else undone
            yield Outcome(profile, one.name, noticed, "; ".join(filter(None, (wrong, undone))))
        if left := _failed(deployment.verify()):
            raise AssertionError(f"{profile}: what was undone is still there: {left}")
    finally:
        deployment.remove()


def model_of(profile: str) -> str:
    """The model of a profile that has one."""
    datapath = builtin()[profile].datapath
    assert datapath is not None
    return datapath.model


def _failed(found: list[Attestation]) -> dict[str, str]:
    return {
        item.check: f"expected {item.expected}, observed {item.observed}"
        for item in found
        if not item.passed
    }


def _tried(deployment: LabDeployment, one: Sabotage) -> tuple[Noticed | None, str]:
    """What noticed it, and what about that is wrong."""
    try:
        _apply(deployment, one)
    except (ClusterError, OSError) as error:
        return None, f"could not be applied: {getattr(error, 'message', error)}"
    compared = _failed(_there(deployment, one.at))
    seen = bool(compared)
    traffic = _failed(deployment.attest()) if one.traffic or not seen else {}
    noticed: Noticed = "comparison" if seen else "traffic" if traffic else "nothing"
    if noticed != one.noticed:
        return noticed, f"noticed by {noticed}: {compared or traffic or 'no check failed'}"
    if one.traffic and one.traffic not in traffic:
        return noticed, f"traffic fails {sorted(traffic)}"
    return noticed, ""


def _undone(deployment: LabDeployment, one: Sabotage) -> str:
    """Undoes it: '' or why the deployment is not as it was."""
    try:
        if one.undo == "load":
            for node in deployment.nodes():
                deployment.datapath.load(node)  # type: ignore[attr-defined]
        else:
            _run(_place(deployment, one.at), _filled(deployment, one.at, one.undo))
    except ClusterError as error:
        return f"cannot be undone: {error.message}"
    left = _failed(_there(deployment, one.at))
    return f"is not undone: {left}" if left else ""


def _there(deployment: LabDeployment, name: str) -> list[Attestation]:
    """What ``verify`` says of one place: of the others only the devices are read, whose names
    neighbours are shown by. Nothing of a place that is not compared.
    """
    places = comparison.places(deployment)
    if name not in places:
        return []
    whole = listings._sections

    def sections(ns: Namespace, *more: Any) -> listings.Listing:
        return whole(ns, *more) if ns is places[name] else {}

    with patch.object(listings, "_sections", sections):
        now = listings.listing(places)
    expected = comparison._reference(deployment)
    return [comparison._compared(deployment, name, places[name], expected, now)]


def _place(deployment: LabDeployment, name: str) -> Namespace:
    pods = {pod.name: pod.ns for pod in deployment.pods()}
    nodes = {node.name: node.ns for node in deployment.nodes()}
    return {**pods, **nodes, **deployment.datapath.namespaces()}[name]


def _filled(deployment: LabDeployment, at: str, command: str) -> str:
    client, server = deployment.pair("inter")
    node = deployment.b if at == "b" else deployment.a
    veth = (server if at == "b" else client).host_end
    if "{stranger}" in command:
        command = command.replace("{stranger}", deployment.stranger(node).addresses[4])
    if "{daemon}" in command:
        own = [pid for name, pid in deployment.processes().items() if name.endswith(f"-{at}")]
        command = command.replace("{daemon}", str(own[-1]))
    return command.replace("{veth}", veth)


def _apply(deployment: LabDeployment, one: Sabotage) -> None:
    ns = _place(deployment, one.at)
    if not one.python:
        _run(ns, _filled(deployment, one.at, one.do))
    elif one.python == "detach":
        _detach(deployment, ns)
    elif one.python in _CHANGES:
        _CHANGES[one.python](deployment, ns, one.at)
    else:
        _maps(deployment, one.python, one.at)


def _maps(deployment: LabDeployment, change: str, at: str) -> None:
    """Entries of the maps of Cilium and of calico-ebpf."""
    maps = deployment.datapath.maps[at]  # type: ignore[attr-defined]
    server = deployment.pair("inter")[1].addresses[4]
    if change == "allow_all":
        maps.policy(0, ALLOW_ALL[:1])
    elif change == "identity":
        maps.identity(f"{server}/32", 0x4E77, "192.168.100.2")
    elif change == "bypass":
        maps.identity(f"{server}/32", 0x4E01)
    else:
        raise ValueError(change)


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
    ns.run(["sh", "-ec", command], timeout=_LIMIT)


def deploy(profile: str, number: int) -> LabDeployment:
    """The profile with the address family that it has, IPv4 where it has both."""
    chosen = builtin()[profile]
    return LabDeployment(profile, chosen, Options(ip=chosen.features.ip[:1]), number)
