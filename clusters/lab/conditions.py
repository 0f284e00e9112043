"""Conditions of a cell in a deployment: policies through the profile's own datapath, features of
the pair's veths and of the wire.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cnibench.clusters.lab import services
from cnibench.clusters.lab.namespaces import features, links, wire
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.errors import ClusterError, UnsupportedError
from cnibench.model.cell import Cell
from cnibench.model.conditions import TSO, Conditions, Offload, Policies
from cnibench.testbed.deployment import undone

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment


@contextlib.contextmanager
def apply_conditions(
    deployment: LabDeployment,
    asked: Conditions,
    client: LabPod,
    server: LabPod,
    cell: Cell | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """As CellConditions.apply_conditions."""
    records: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        if asked.services is not None:
            if cell is not None and cell.path != "pod":
                deployment.address(cell, server)  # made and proven before the others
            records += stack.enter_context(services.apply(deployment, asked.services))
        if asked.policy is not None:
            records += stack.enter_context(_policies(deployment, asked.policy))
        if asked.offload is not None:
            records += stack.enter_context(_offload(deployment, asked.offload, client, server))
        yield records


@contextlib.contextmanager
def _policies(deployment: LabDeployment, asked: Policies) -> Iterator[list[dict[str, Any]]]:
    if asked.layer == "L7":
        raise UnsupportedError(
            f"{deployment.label}: an HTTP rule is enforced by a proxy in user space, which the"
            " lab's model of a datapath does not have",
            "measure it with a real CNI: --cluster kind or --cluster existing",
        )
    if asked.api != "kubernetes" or asked.objects != "one":
        raise UnsupportedError(
            f"{deployment.label}: the lab has rules and map entries, no objects of an API",
            "leave policy.api and policy.objects out, or use a cluster",
        )
    with undone(deployment, "policies", lambda: _set(deployment, None)):
        seconds = _set(deployment, asked)
        found = deployment.datapath.policies_found()
        yield [
            {
                "condition": "policy",
                **asked.model_dump(mode="json"),
                "found": found,
                "seconds": seconds,
            }
        ]


def _set(deployment: LabDeployment, asked: Policies | None) -> float:
    """Loads the entries and counts them on both nodes; the seconds that loading took."""
    seconds = deployment.datapath.policies(asked)
    expected = deployment.datapath.policies_expected(asked)
    wrong = {
        place: count
        for place, count in deployment.datapath.policies_found().items()
        if count != expected
    }
    if wrong:
        seen = ", ".join(f"{count} on {place}" for place, count in wrong.items())
        raise ClusterError(
            f"{deployment.label}: {expected} policy rules were asked for, there are {seen}"
        )
    return seconds


@contextlib.contextmanager
def _offload(
    deployment: LabDeployment, asked: Offload, client: LabPod, server: LabPod
) -> Iterator[list[dict[str, Any]]]:
    wanted: list[tuple[Namespace, str, dict[str, bool]]] = []
    if asked.pods != "default":
        if not client.interface:
            raise UnsupportedError(f"{deployment.label}: its Pods have no interface of their own")
        tso = dict.fromkeys(TSO, asked.pods == "tso-on")
        for pod in (client, server):
            wanted.append((pod.ns, pod.interface, tso))
            # not every datapath has a device on the node for each Pod
            if links.exists(pod.node.ns, pod.host_end):
                wanted.append((pod.node.ns, pod.host_end, tso))
    if asked.wire != "default":
        wanted += [
            (
                node.ns,
                node.wire,
                {**wire.bits(asked.wire), **deployment.datapath.underlay_features(node)},
            )
            for node in deployment.nodes()
        ]
    before: list[tuple[Namespace, str, dict[str, bool]]] = []

    def restore() -> None:
        for ns, device, old in reversed(before):
            features.write(ns, device, old)

    with undone(deployment, "features", restore):
        records = []
        for ns, device, on in wanted:
            now = features.read(ns, device)
            before.append((ns, device, {name: now[name] for name in on if name in now}))
            features.write(ns, device, on)  # reads back, too
            earlier = {name: now.get(name, False) for name in on}
            records.append(
                {
                    "condition": "offload",
                    "place": ns.name.partition("-")[2],
                    "device": device,
                    "now": on,
                    "before": earlier,
                }
            )
        yield records
