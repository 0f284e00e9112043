"""The conditions ``offload.*`` on a cluster: TCP segmentation of the pair's own veths, features of
the NICs between their nodes.

Only the latter change something that is not ours; they are leased (offload/change.py), so that the
node restores them without us.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from cnibench.clusters.kubernetes.nodes.places import UNSEEN, KubernetesNode, KubernetesPod
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.clusters.lab.namespaces import wire
from cnibench.errors import ClusterError, UnsupportedError
from cnibench.model.conditions import TSO, Offload
from cnibench.offload.change import leased
from cnibench.system.ethtool import Feature
from cnibench.system.ethtool_output import parse_features
from cnibench.testbed.deployment import undone
from cnibench.testbed.place import Place

_LIMIT = 20.0  # s
Record = dict[str, Any]


@contextlib.contextmanager
def applied(
    deployment: MeasuredPods, asked: Offload, client: KubernetesPod, server: KubernetesPod
) -> Iterator[list[Record]]:
    """What was set, one record a device. Raises UnsupportedError for a device that cannot have it,
    ClusterError.
    """
    records: list[Record] = []
    with contextlib.ExitStack() as stack:
        if asked.wire != "default":
            for node in dict.fromkeys((client.node, server.node)):
                records += stack.enter_context(_on_wire(deployment, node, wire.bits(asked.wire)))
        if asked.pods != "default":
            for pod in (client, server):
                for place, device in _ends(deployment, pod):
                    tso = dict.fromkeys(TSO, asked.pods == "tso-on")
                    records += stack.enter_context(_on_veth(deployment, place, device, tso))
        yield records


@contextlib.contextmanager
def _on_wire(
    deployment: MeasuredPods, node: KubernetesNode, wanted: Mapping[str, bool]
) -> Iterator[list[Record]]:
    """Of the node's NIC: leased. A device that is so already (another pair of the same node has it
    so) is left alone.
    """
    if not node.host:
        raise UnsupportedError(
            f"{deployment.label}: node {node.name}: its NIC cannot be changed, for {UNSEEN}"
        )
    if not node.device:
        raise UnsupportedError(
            f"{deployment.label}: node {node.name}: the device that has its address is not known"
        )
    now = _read(node, node.device)
    changed = _changes(f"node {node.name}: {node.device}", now, wanted)
    if not changed:
        yield [_record(node, node.device, now, wanted)]
        return
    with leased(node, node.device, changed) as lease:
        lease.set(changed)  # reads back, too
        yield [_record(node, node.device, now, wanted)]


@contextlib.contextmanager
def _on_veth(
    deployment: MeasuredPods, place: Place, device: str, wanted: Mapping[str, bool]
) -> Iterator[list[Record]]:
    """Of an end of our Pod's own veth, which goes with the Pod whatever becomes of us."""
    now = _read(place, device)
    changed = _changes(f"{place.name}: {device}", now, wanted)
    with undone(
        deployment,
        "features",
        lambda: _write(place, device, {name: now[name].on for name in changed}),
    ):
        _write(place, device, changed)
        yield [_record(place, device, now, wanted)]


def _ends(deployment: MeasuredPods, pod: KubernetesPod) -> Iterator[tuple[Place, str]]:
    """The Pod's own device and, where its node has the other end (not every CNI gives a Pod a
    veth), that.
    """
    if not pod.interface:
        raise UnsupportedError(
            f"{deployment.label}: {pod.name} uses its node's network and has no interface of"
            " its own"
        )
    yield pod, pod.interface
    if not pod.node.host:
        return
    other = int(pod.read_text(f"/sys/class/net/{pod.interface}/iflink"))
    own = int(pod.read_text(f"/sys/class/net/{pod.interface}/ifindex"))
    for link in json.loads(
        pod.node.run(["ip", "-j", "-d", "link", "show", "type", "veth"], timeout=_LIMIT).stdout
        or "[]"
    ):
        if link.get("ifindex") == other and link.get("link_index") == own:
            yield pod.node, str(link["ifname"])


def _changes(where: str, now: Mapping[str, Feature], wanted: Mapping[str, bool]) -> dict[str, bool]:
    """What has to be changed; what the device does not know counts as off. Raises UnsupportedError
    for what cannot be.
    """
    changed = {name: on for name, on in wanted.items() if on != (name in now and now[name].on)}
    fixed = [name for name in changed if name not in now or now[name].fixed]
    if fixed:
        raise UnsupportedError(
            f"{where}: {', '.join(fixed)} cannot be turned {'on' if changed[fixed[0]] else 'off'}"
        )
    return changed


def _read(place: Place, device: str) -> dict[str, Feature]:
    return parse_features(place.run(["ethtool", "-k", device], timeout=_LIMIT).stdout)


def _write(place: Place, device: str, wanted: Mapping[str, bool]) -> None:
    """Raises ClusterError when one does not become what was asked."""
    if not wanted:
        return
    words = [word for name, on in wanted.items() for word in (name, "on" if on else "off")]
    place.run(["ethtool", "-K", device, *words], timeout=_LIMIT)
    now = _read(place, device)
    if wrong := [name for name, on in wanted.items() if now[name].on != on]:
        raise ClusterError(f"{place.name}: {device}: {', '.join(wrong)} cannot be changed")


def _record(
    place: Place, device: str, before: Mapping[str, Feature], wanted: Mapping[str, bool]
) -> Record:
    state = {name: name in before and before[name].on for name in wanted}
    return {
        "condition": "offload",
        "place": place.name,
        "device": device,
        "now": dict(wanted),
        "before": state,
    }
