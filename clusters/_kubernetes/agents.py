"""The node agents: one on each node that is looked at, with the rights that the cluster gives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from cnibench.cluster import Wire
from cnibench.clusters._kubernetes import objects, pods
from cnibench.clusters._kubernetes.access import Access, DeniedError
from cnibench.clusters._kubernetes.gateway import Gateway
from cnibench.clusters._kubernetes.nodes import Facts
from cnibench.clusters._kubernetes.objects import Making, Rights
from cnibench.clusters._kubernetes.places import KubernetesNode
from cnibench.errors import ClusterError, CnibenchError

_LEVELS: tuple[Rights, ...] = ("all", "network", "none")
_REFUSED = ("violates PodSecurity", "denied the request", "is forbidden", "not allowed", "admission webhook")


def make(access: Access, making: Making, nodes: Sequence[Facts]) -> Making:
    """Our namespace, and in it the agents; what was allowed. They are waited for by ``connect``. Raises ClusterError.

    Whether privileged Pods are allowed is asked of the API server by a Pod that is never made (a DaemonSet's refusal is only an event).
    """
    access.apply(objects.namespace(making))
    making = _copy_secret(access, making)
    for rights in _LEVELS:
        making = replace(making, rights=rights)
        if not (refusal := refused(access, making, nodes[0].name)):
            break
    else:
        raise DeniedError(
            f"no Pod of ours may run on this cluster: {refusal}", "have its policies let in the namespace, or name one: -n NAME"
        )
    access.apply(objects.agent(making, [node.name for node in nodes]))
    return making


def refused(access: Access, making: Making, node: str) -> str:
    """Why the API server lets no agent with these rights run, '' when it does. Raises ClusterError when it cannot be asked."""
    done = access.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(objects.agent_pod(making, node)), check=False)
    if done.returncode == 0:
        return ""
    if not any(sign in done.stderr for sign in _REFUSED):
        raise access.error(done)
    return done.stderr.strip()


def _copy_secret(access: Access, making: Making) -> Making:
    """An image pull secret works in its own namespace only: a copy goes to ours. Raises ClusterError."""
    if not making.pull_secret:
        return making
    where, _, name = making.pull_secret.rpartition("/")
    found = access.get("secret", name, "-n", where or "default")
    metadata = {"name": name, "namespace": making.namespace, "labels": making.labels()}
    access.apply({"apiVersion": "v1", "kind": "Secret", "type": found["type"], "metadata": metadata, "data": found["data"]})
    return replace(making, pull_secret=name)


def connect(access: Access, making: Making, nodes: Sequence[Facts]) -> list[KubernetesNode]:
    """The agents' connections, in the order of ``nodes``. Raises ClusterError, LimitError with the reason why one does not run."""
    ready = pods.wait_ready(access, making.namespace, f"{objects.ROLE}={objects.AGENT}", len(nodes))
    names = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in ready}
    found = []
    for number, facts in enumerate(nodes):
        short = letter(number)
        if facts.name not in names:
            raise ClusterError(f"no agent runs on node {facts.name}", "does it tolerate the node's taints? --toleration")
        gateway = Gateway(access, making.namespace, names[facts.name], f"the agent on node {short}")
        found.append(KubernetesNode(short, facts, gateway, host=not making.confined))
    return found


def letter(number: int) -> str:
    """a, b, ... z, n26, n27, ...: a node's name in what is published."""
    return chr(ord("a") + number) if number < 26 else f"n{number}"


def device(node: KubernetesNode) -> str:
    """The device that has the node's own address, '' when it cannot be told."""
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
    """What that device is: ``veth``, ``virtio`` or ``nic``."""
    script = 'd=/sys/class/net/$1/device; [ -e "$d" ] && basename "$(readlink -f "$d/driver")" || echo none'
    try:
        driver = node.run(["sh", "-c", script, "sh", node.device], timeout=20).stdout.strip()
    except CnibenchError:
        return "nic"
    return "virtio" if driver.startswith("virtio") else "veth" if driver == "none" else "nic"
