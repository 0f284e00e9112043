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

import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.nodes.gateway import Gateway
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod
from cnibench.clusters.kubernetes.pods import pods
from cnibench.errors import ClusterError, CnibenchError, LimitError, UnsupportedError
from cnibench.system import process as programs
from cnibench.system.guest import patience
from cnibench.testbed.capabilities.pod_lifecycle import Started

if TYPE_CHECKING:
    from cnibench.clusters.kubernetes.deployment import KubernetesDeployment

BLIND = "sandbox-and-network"  # the step of a node that may not be looked into
_READY = 180.0  # s for all Pods of one call
_WATCHING = 20.0  # s for the watch to begin
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
    told = dict(item for item in kept.get("cniArgs") or () if len(item) == 2)
    name, result = told.get("K8S_POD_NAME"), kept.get("result") or {}
    if name not in wanted or told.get("K8S_POD_NAMESPACE") != sys.argv[3] or kept.get("ifName") == "lo":
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


@dataclass
class _Timed:
    """When things were seen of one Pod, in s of our clock."""

    seen: dict[str, float] = field(default_factory=dict)
    addresses: Mapping[int, str] = field(default_factory=dict)
    trouble: tuple[str, str] = ("", "")


class _Watch:
    """The API's news of the Pods of one call, with the time at which each arrived."""

    def __init__(self, output: IO[bytes]) -> None:
        self.pods: dict[str, _Timed] = {}
        self._news: queue.Queue[tuple[float, dict[str, Any]] | None] = queue.Queue()
        threading.Thread(target=self._read, args=(output,), daemon=True).start()

    def _read(self, output: IO[bytes]) -> None:
        rest = b""
        while data := output.read(1 << 16):
            now = time.time()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    self._news.put((now, json.loads(line)))
        output.close()
        self._news.put(None)

    def begin(self) -> None:
        """Returns at the first news. Raises ClusterError."""
        with contextlib.suppress(queue.Empty):
            if news := self._news.get(timeout=_WATCHING * patience()):
                return self._take(*news)
        raise ClusterError("the API server reports nothing about cnibench's Pods")

    def until_ready(self, names: Sequence[str], limit: float) -> None:
        """Raises LimitError, ClusterError with the reason why a Pod does not come."""
        end = time.monotonic() + limit * patience()
        while waiting := [name for name in names if "ready" not in self._of(name).seen]:
            told = next(
                (self._of(name).trouble for name in waiting if self._of(name).trouble[0]), ("", "")
            )
            if told[0] and not told[0].startswith("Unschedulable"):
                raise ClusterError(
                    f"the Pod {waiting[0]} will not run: {' '.join(told).strip()}",
                    "kubectl describe pod says more",
                )
            try:
                news = self._news.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                said = f" ({' '.join(told)})" if told[0] else ""
                raise LimitError(
                    f"the Pods {', '.join(waiting[:3])} were not ready within {limit:.0f} s{said}"
                ) from None
            if news is None:
                raise ClusterError(
                    "the API server closed the watch on cnibench's Pods",
                    "is it still there? kubectl get pods",
                )
            self._take(*news)

    def _of(self, name: str) -> _Timed:
        return self.pods.setdefault(name, _Timed())

    def _take(self, at: float, news: Mapping[str, Any]) -> None:
        pod = news.get("object", {})
        if news.get("type") == "DELETED" or pod.get("kind") != "Pod":
            return
        timed = self._of(pod["metadata"]["name"])
        holds = {
            item["type"]
            for item in pod.get("status", {}).get("conditions", ())
            if item["status"] == "True"
        }
        states = pod.get("status", {}).get("containerStatuses", ())
        for step, there in (
            ("asked", True),
            ("scheduled", bool(pod["spec"].get("nodeName"))),
            ("network", "PodReadyToStartContainers" in holds),
            ("running", any("running" in item.get("state", {}) for item in states)),
            ("ready", "Ready" in holds),
        ):
            if there:
                timed.seen.setdefault(step, at)
        timed.addresses = pods.addresses(pod) or timed.addresses
        timed.trouble = pods.trouble(pod)


def start(
    deployment: KubernetesDeployment, node: KubernetesNode, count: int, at_once: bool
) -> list[Started]:
    """As Deployment.start_pods; what was made is removed again when not all of it could be."""
    if deployment.profile.features.network_model == "host":
        raise UnsupportedError(
            f"{deployment.label}: its Pods are the node itself, nothing is made for one"
        )
    deployment.started += 1
    names = [f"{node.name}s{deployment.started}-{number}" for number in range(count)]
    client, _ = deployment.pair("intra")
    try:
        with _watching(deployment) as watch:
            groups = [names] if at_once else [[name] for name in names]
            made = [
                one for group in groups for one in _group(deployment, watch, client, node, group)
            ]
    except BaseException:
        with contextlib.suppress(CnibenchError):
            remove(deployment, names)
        raise
    return made


def remove(deployment: KubernetesDeployment, names: Sequence[str]) -> None:
    """Removes such Pods and waits until their nodes have taken them off the network. Raises
    ClusterError, LimitError.
    """
    if names:
        options = ("--ignore-not-found", "--grace-period=1", f"--timeout={_GONE:.0f}s")
        deployment.access.kubectl(
            "delete", "pod", "-n", deployment.namespace, *options, *names, timeout=_GONE + 10
        )


@contextlib.contextmanager
def _watching(deployment: KubernetesDeployment) -> Iterator[_Watch]:
    """A watch of all our Pods; it has told of one that is there already when the block is entered,
    so it is late for none that comes.
    """
    path = f"/api/v1/namespaces/{deployment.namespace}/pods?watch=1&labelSelector={objects.RUN}%3D{deployment.making.run}"  # noqa: E501
    with contextlib.closing(programs.Errors()) as said:
        process, given, output = programs.converse(
            deployment.access.command("get", "--raw", path), said
        )
        with process, given:
            watch = _Watch(output)
            try:
                watch.begin()
            except ClusterError as error:
                told = deployment.access.hidden(said.text()[-300:])
                raise ClusterError(
                    f"cnibench's Pods cannot be watched: {told or error.message}",
                    "may we watch Pods there?",
                ) from None
            yield watch


def _group(
    deployment: KubernetesDeployment,
    watch: _Watch,
    client: KubernetesPod,
    node: KubernetesNode,
    names: Sequence[str],
) -> list[Started]:
    """Pods that are asked for together."""
    items = [objects.pod(deployment.making, name, node.facts.name) for name in names]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    deployment.access.kubectl("create", "-f", "-", timeout=_READY, input=text)
    watch.until_ready(names, _READY)
    family = deployment.families[0]
    answers = _answers(client, [watch.pods[name].addresses[family] for name in names])
    told = _told(deployment, node, names)
    asked = min(watch.pods[name].seen["asked"] for name in names)
    made = []
    for name in names:
        timed = watch.pods[name]
        if (packet := answers.get(timed.addresses[family])) is None:
            raise ClusterError(
                f"{deployment.label}: the new Pod {name} is not reached within {_PACKET:.0f} s"
            )
        steps, network = _steps(asked, timed.seen, told.get(name, {}))
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
    asked: float, seen: Mapping[str, float], told: Mapping[str, float | None]
) -> tuple[list[tuple[str, float]], float]:
    """(step, seconds) in their order, and the network's part: the plugins' ADD, or (not known)
    sandbox and network together.
    """
    steps = [("scheduled", seen["scheduled"] - asked)]
    last = seen["scheduled"]
    made, added, address = (told.get(key) for key in ("made", "added", "address"))
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


def _told(
    deployment: KubernetesDeployment, node: KubernetesNode, names: Sequence[str]
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
        told = json.loads(node.run(argv, timeout=_WATCHING).stdout)
    except (CnibenchError, ValueError):
        return {}
    after = time.time()
    # A difference that the way to the node may have taken is none.
    ahead = 0.0 if before <= told["now"] <= after else told["now"] - (before + after) / 2
    return {
        name: {key: at if at is None else at - ahead for key, at in times.items()}
        for name, times in told["pods"].items()
    }
