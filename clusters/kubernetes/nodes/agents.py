"""The node agents: one on each node that is looked at, with the rights that the cluster gives
them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cnibench.clusters.kubernetes import images
from cnibench.clusters.kubernetes.api import objects, pods, resources
from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.api.operations import QUICK
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes import privileges
from cnibench.clusters.kubernetes.nodes.nodes import Facts
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, on_each
from cnibench.errors import ClusterError, CnibenchError
from cnibench.offload import change, facts, reading, stack
from cnibench.offload.nic import Nic
from cnibench.testbed.cluster import Wire
from cnibench.testbed.cluster_options import ClusterOptions

_STOPPING = 5  # s in which what a run did on a node ends with its connection


def plan(
    run: str,
    options: ClusterOptions,
    namespace: str = "",
    tolerations: Sequence[Mapping[str, str]] = (),
) -> Making:
    """What our objects have in common: images of ``--registry``, the secret of ``--pull-secret``;
    the namespace has the run's name.
    """
    workload, agent = (images.reference(kind, options.registry or "") for kind in images.KINDS)
    return Making(
        namespace or run,
        run,
        workload,
        agent,
        tolerations=tolerations,
        pull_secret=options.pull_secret or "",
        resources=resources.parse(options.pod_resources),
    )


def start(
    access: Access, making: Making, nodes: Sequence[Facts]
) -> tuple[Making, list[KubernetesNode]]:
    """(what was allowed, the nodes in their order): agents made and connected to, each node's
    device known.

    What an earlier run changed on a node and could not restore is restored. Raises ClusterError,
    LimitError.
    """
    making, found = _running(access, making, nodes)

    def look(node: KubernetesNode) -> None:
        node.device = device(node)
        if node.host:
            change.restore_left(node)

    on_each(found, look)
    return making, found


def _running(
    access: Access, making: Making, nodes: Sequence[Facts]
) -> tuple[Making, list[KubernetesNode]]:
    """The agents with the least rights that suffice, of those that the cluster admits."""
    access.apply(objects.namespace(making))
    making = _copy_secret(access, making)
    refusal = ""
    for rights in privileges.levels(access):
        making = making.given(rights)
        if refusal := privileges.refused(access, making, nodes[0].name):
            continue
        access.apply(objects.agent(making, [node.name for node in nodes]))
        try:
            found = connect(access, making, nodes)
        except pods.UnstartableError:
            if rights != "capabilities":
                raise
            continue  # a runtime that cannot give them
        if rights != "capabilities" or all(on_each(found, privileges.suffice)):
            return making, found
        for node in found:
            node.gateway.close()
    raise DeniedError(
        f"this cluster does not admit cnibench's Pods: {refusal}",
        "exempt the namespace from its policies, or name another one: -n NAME",
    )


def _copy_secret(access: Access, making: Making) -> Making:
    """An image pull secret works in its own namespace only: a copy goes to ours. Raises
    ClusterError.
    """
    if not making.pull_secret:
        return making
    where, _, name = making.pull_secret.rpartition("/")
    found = access.get("secrets", name, where or "default")
    metadata = {"name": name, "namespace": making.namespace, "labels": making.labels()}
    access.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": found["type"],
            "metadata": metadata,
            "data": found["data"],
        }
    )
    return replace(making, pull_secret=name)


def connect(access: Access, making: Making, nodes: Sequence[Facts]) -> list[KubernetesNode]:
    """The agents' connections, in the order of ``nodes``. Raises ClusterError, LimitError with the
    reason why one does not run.
    """
    selector = objects.agent_selector(making)
    ready = pods.wait_ready(access, making.namespace, selector, len(nodes))
    names = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in ready}
    found = []
    for number, known in enumerate(nodes):
        short = letter(number)
        if known.name not in names:
            raise ClusterError(
                f"no agent runs on node {known.name}",
                "does it tolerate the node's taints? --toleration",
            )
        gateway = Gateway(access, making.namespace, names[known.name], f"the agent on node {short}")
        found.append(KubernetesNode(short, known, gateway, host=not making.confined))
    return found


def letter(number: int) -> str:
    """a, b, ... z, n26, n27, ...: a node's name in what is published."""
    return chr(ord("a") + number) if number < 26 else f"n{number}"


def device(node: KubernetesNode) -> str:
    """The device that has the node's own address, '' when it is not known."""
    try:
        links = json.loads(node.run(["ip", "-j", "addr", "show"], timeout=20).stdout)
    except (CnibenchError, ValueError):
        return ""
    wanted = set(node.addresses.values())
    for link in links:
        if any(item.get("local") in wanted for item in link.get("addr_info", ())):
            return str(link["ifname"])
    return ""


def wire(node: KubernetesNode) -> Wire:
    """What that device is, or what lies below it: ``veth``, ``virtio`` or ``nic``."""
    script = 'for name; do basename "$(readlink -f "/sys/class/net/$name/device/driver")"; done'
    try:
        known = stack.there(node)
        devices = known.carrying(node.device) & known.hardware
        drivers = node.run(["sh", "-c", script, "sh", *sorted(devices)], timeout=20).stdout.split()
    except CnibenchError:
        return "nic"
    return (
        "virtio"
        if any(driver.startswith("virtio") for driver in drivers)
        else "nic"
        if devices
        else "veth"
    )


def nics(nodes: Sequence[KubernetesNode], every: bool) -> tuple[list[Nic], list[int]]:
    """As Cluster.nics, of those nodes: their hardware, and what reaches other nodes. Raises
    ClusterError.
    """

    found = on_each(nodes, lambda node: reading.of_node(node, node.device, node.name, every))
    return [nic for own, _ in found for nic in own], sorted(
        {port for _, ports in found for port in ports}
    )


def offload(nodes: Sequence[KubernetesNode]) -> dict[str, Any]:
    """What those nodes' NICs do for tunnels, for env.json; nothing where they may not be looked
    into.
    """
    if not all(node.host for node in nodes):
        return {}
    return {"offload": facts.short(facts.judged(*nics(nodes, every=False)))}


def restore(access: Access, namespace: str) -> None:
    """Has the agents that a run left restore what it changed on their nodes; their guardians would
    end with them. What a live run changed on the same nodes stays. The run may have ended just now.
    Raises ClusterError.
    """
    where = change.restoring(
        f"{objects.HOST}{change.FOLDER}", change.LEASE, change.LEASE + _STOPPING
    )
    for pod in access.listed("pods", namespace, labels=f"{objects.ROLE}={objects.AGENT}"):
        if pods.is_ready(pod):
            name = pod["metadata"]["name"]
            with contextlib.closing(Gateway(access, namespace, name, f"the Pod {name}")) as agent:
                agent.run(where, timeout=QUICK)
