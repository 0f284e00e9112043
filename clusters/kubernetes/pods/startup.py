"""Pods whose start is timed: by the API's news of them, and by what the container runtime and the
CNI's plugins leave on the node.

Three clocks' worth of facts make a Pod's steps. The API server's watch tells when it was taken,
bound to its node, run and ready (the conditions themselves are in whole seconds, so the moment
counts at which the news arrives here). The runtime makes a network namespace for each Pod, mounts
it at a file, and calls the plugins; libcni (containernetworking/cni, libcni/api.go) writes their
result to
``/var/lib/cni/results`` when ADD has ended. The plugin host-local keeps a file for each address
that it gives. The times of those files are the node's, which its clock's distance from ours is
taken from. Where the node may not be looked into, the kubelet's condition PodReadyToStartContainers
ends one step for sandbox and network together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.clusters.kubernetes.pods.watch import Watch, watching
from cnibench.errors import ClusterError, CnibenchError, UnsupportedError
from cnibench.system.interrupt import cleaning_up
from cnibench.testbed.capabilities.pods.lifecycle import Started

BLIND = "sandbox-and-network"  # the step of a node that may not be looked into
_READY = 180.0  # s for all Pods of one call
_LOOKING = 20.0  # s for what a node tells of the Pods
_GONE = 60.0  # s
_PACKET = 30.0  # s until a ready Pod answers

# Name of each Pod to when its network namespace was made, when ADD had ended, when host-local gave
# the address; in s of the node's clock.
_ON_NODE = """
import glob, json, os, sys, time
root, wanted, found = sys.argv[1], set(json.loads(sys.argv[2])), {}
def changed(path):
    try:
        return os.stat(root + path.replace("/var/run/", "/run/", 1)).st_mtime
    except OSError:
        return None
for path in glob.glob(root + "/var/lib/cni/results/*"):
    try:
        with open(path) as file:
            kept, at = json.load(file), os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError):
        continue
    cni_args = dict(item for item in kept.get("cniArgs") or () if len(item) == 2)
    name, result = cni_args.get("K8S_POD_NAME"), kept.get("result") or {}
    if name not in wanted or cni_args.get("K8S_POD_NAMESPACE") != sys.argv[3] or kept.get("ifName") == "lo":
        continue
    spaces = [kept.get("netns") or ""] + [item.get("sandbox") or "" for item in result.get("interfaces") or ()]
    made = [when for when in (changed(space) for space in spaces if space.startswith("/")) if when]
    given = [str(item.get("address", "")).partition("/")[0] for item in result.get("ips") or ()]
    files = [one for address in given if address for one in glob.glob(root + "/var/lib/cni/networks/*/" + address)]
    found[name] = {"added": at, "made": min(made, default=None), "address": max((os.stat(one).st_mtime for one in files), default=None)}
print(json.dumps({"now": time.time(), "pods": found}))
"""  # noqa: E501
# How long each address takes to answer (a refused connection is an answer, too), and how often it
# was asked.
_ANSWERS = """
import socket, sys, time
end, left, tries = time.monotonic() + float(sys.argv[1]), sys.argv[2:], 0
first = time.monotonic()
while left and time.monotonic() < end:
    tries += 1
    for address in list(left):
        start = time.monotonic()
        try:
            socket.create_connection((address, 9), 0.5).close()
        except ConnectionRefusedError:
            pass
        except OSError:
            continue
        print(address, time.monotonic() - (start if tries == 1 else first))
        left.remove(address)
"""


def start(
    deployment: MeasuredPods, node: KubernetesNode, names: Sequence[str], at_once: bool
) -> list[Started]:
    """As PodLifecycle.start_pods, of Pods with these names; what was made is removed again when not
    all of it could be.
    """
    if deployment.profile.features.network_model == "host":
        raise UnsupportedError(
            f"{deployment.label}: its Pods use the node's network, so nothing is created for a Pod"
        )
    client, _ = deployment.pair("intra")
    try:
        with watching(deployment.access, deployment.making) as watch:
            groups = [names] if at_once else [[name] for name in names]
            made = [
                one for group in groups for one in _group(deployment, watch, client, node, group)
            ]
    except BaseException as error:
        with cleaning_up(error):
            remove(deployment, names)
        raise
    return made


def remove(deployment: MeasuredPods, names: Sequence[str]) -> None:
    """Removes such Pods and waits until their nodes have taken them off the network. Raises
    ClusterError, LimitError.
    """
    if names:
        labels = f"{objects.POD} in ({','.join(names)})"
        deployment.access.delete("pods", deployment.namespace, labels, grace=1, wait=_GONE)


def _group(
    deployment: MeasuredPods,
    watch: Watch,
    client: KubernetesPod,
    node: KubernetesNode,
    names: Sequence[str],
) -> list[Started]:
    """Pods that are asked for together."""
    items = [objects.pod(deployment.making, name, node.facts.name) for name in names]
    deployment.access.create(*items, timeout=_READY)
    watch.until_ready(names, _READY)
    family = deployment.families[0]
    answers = _answers(client, [watch.pods[name].addresses[family] for name in names])
    reported = _reported_times(deployment, node, names)
    asked = min(watch.pods[name].seen["asked"] for name in names)
    made = []
    for name in names:
        timed = watch.pods[name]
        if (packet := answers.get(timed.addresses[family])) is None:
            raise ClusterError(
                f"{deployment.label}: the new Pod {name} is not reached within {_PACKET:.0f} s"
            )
        steps, network = _steps(asked, timed.seen, reported.get(name, {}))
        pod = KubernetesPod(
            name,
            node,
            Gateway(
                deployment.access, deployment.namespace, name, f"the Pod {name} on node {node.name}"
            ),
            timed.addresses,
            False,
        )
        made.append(
            Started(
                pod,
                [*steps, ("first-packet", packet)],
                timed.seen["ready"] - asked + packet,
                network,
            )
        )
    return made


def _steps(
    asked: float, seen: Mapping[str, float], reported: Mapping[str, float | None]
) -> tuple[list[tuple[str, float]], float]:
    """(step, seconds) in their order, and the network's part: the plugins' ADD, or (not known)
    sandbox and network together.
    """
    steps = [("scheduled", seen["scheduled"] - asked)]
    last = seen["scheduled"]
    made, added, address = (reported.get(key) for key in ("made", "added", "address"))
    if made and added:
        network = added - made
        steps.append(("sandbox", made - last))
        if address and made <= address <= added:
            steps += [("ip-allocation", address - made), ("rest-of-cni-add", added - address)]
        else:
            steps.append(("cni-add", network))
        last = added
    else:
        end = seen.get("network", seen.get("running", seen["ready"]))
        network = end - last
        steps.append((BLIND, network))
        last = end
    for name, at in (("container", seen.get("running", seen["ready"])), ("ready", seen["ready"])):
        steps.append((name, at - last))
        last = max(last, at)
    return [(name, max(0.0, seconds)) for name, seconds in steps], max(0.0, network)


def _answers(client: KubernetesPod, addresses: Sequence[str]) -> dict[str, float]:
    """Address to the seconds until it answered: those of one connection where the first try was
    answered.
    """
    argv = [client.python, "-I", "-S", "-c", _ANSWERS, str(_PACKET), *addresses]
    said = client.run(argv, timeout=_PACKET * 2).stdout
    return {key: float(value) for key, value in (line.split() for line in said.splitlines())}


def _reported_times(
    deployment: MeasuredPods, node: KubernetesNode, names: Sequence[str]
) -> dict[str, dict[str, float | None]]:
    """What the node tells of each Pod, in s of our clock; nothing where it may not be looked
    into.
    """
    if not node.host:
        return {}
    argv = [
        node.python,
        "-I",
        "-S",
        "-c",
        _ON_NODE,
        HOST,
        json.dumps(list(names)),
        deployment.namespace,
    ]
    before = time.time()
    try:
        answer = json.loads(node.run(argv, timeout=_LOOKING).stdout)
    except (CnibenchError, ValueError):
        return {}
    after = time.time()
    # A difference that the way to the node may have taken is none.
    ahead = 0.0 if before <= answer["now"] <= after else answer["now"] - (before + after) / 2
    return {
        name: {key: at if at is None else at - ahead for key, at in times.items()}
        for name, times in answer["pods"].items()
    }
