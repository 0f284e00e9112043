"""Policies as a condition of a cell on a cluster: made, seen to be in force by a stranger's
connections, counted, and taken back.

The API takes a policy at once and its CNI some time later, or never. So a stranger on the client's
node connects to two ports of the server, of which the policies let it use one: that is what no
cluster without them does. Only the server's incoming packets are affected.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.nodes.places import KubernetesPod
from cnibench.clusters.kubernetes.pods import policy_objects, unsupported
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.clusters.kubernetes.pods.policy_objects import CANARY, FOR, Kind, Object
from cnibench.errors import ClusterError, CnibenchError, LimitError, UnsupportedError
from cnibench.model.cell import Cell
from cnibench.model.conditions import Policies
from cnibench.system import scratch
from cnibench.system.guest import patience
from cnibench.testbed.deployment import undone

_EFFECT = 90.0  # s: an agent may compile the datapath again for the first policy of a Pod
_NOTICE = 20.0  # s: what is there already
_QUICK, _EACH = 30.0, 0.1  # s for a request, and for each object of it
_UNDER, _OPEN, _CLOSED = "10", "11", "00"  # of the two ports: which can be connected to

_LISTEN = """
import select, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listeners = [socket.create_server((sys.argv[1], int(port)), family=family, backlog=64) for port in sys.argv[2:]]
print("ready", flush=True)
while True:
    for one in select.select(listeners, [], [])[0]:
        one.accept()[0].close()
"""  # noqa: E501
# Twice the same: one connection may also fail because the machine is busy.
_STATE = """
import socket, sys, time
target, ports, wanted, end = sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(","), time.monotonic() + float(sys.argv[4])
def answers(port):
    try:
        socket.create_connection((target, int(port)), 0.5).close()
        return "1"
    except OSError:
        return "0"
last = ""
while True:
    seen = "".join(answers(port) for port in ports)
    if seen in wanted and seen == last or time.monotonic() > end:
        break
    last = seen
    time.sleep(0.02)
print(seen)
"""  # noqa: E501


@contextlib.contextmanager
def applied(
    deployment: MeasuredPods, asked: Policies, server: KubernetesPod, cell: Cell | None = None
) -> Iterator[list[dict[str, Any]]]:
    """The policies for the block; one record. Raises UnsupportedError with the reason, ClusterError
    when they do not come into force.
    """
    if reason := unsupported.policy(deployment.profile, asked) or (
        "" if server.interface else unsupported.ON_NODE
    ):
        raise UnsupportedError(f"{deployment.label}: {reason}")
    kind = kind_of(deployment, asked)
    http = policy_objects.HTTP_PORT
    if asked.layer == "L7":
        _need_proxy(deployment)
        if cell is not None:  # each pair has a port of its own, and a path may choose
            http = deployment.port(cell, server, http + cell.pair)
    nodes = [
        address
        for node in deployment.nodes()
        for family, address in node.addresses.items()
        if family in deployment.families
    ]

    def build(tcp_only: bool) -> list[Object]:
        made = policy_objects.rules(
            asked, kind, deployment.families, nodes, tcp_only=tcp_only, http_port=http
        )
        return made.objects(deployment.making, kind, server.name, asked.objects == "many")

    passed = policy_objects.rules(asked, kind, deployment.families).passed
    objects = build(False)
    record = {
        "condition": "policy",
        **asked.model_dump(mode="json"),
        "kind": policy_objects.resource(kind),
        "server": server.name,
    }
    if not objects:
        yield [{**record, "found": {"objects": 0}, "seconds": 0.0}]
        return
    base = _state(deployment, server, (_OPEN, _CLOSED), _NOTICE)
    with undone(
        deployment, "policies", lambda: _take_back(deployment, kind, server, len(objects), base)
    ):
        began = time.monotonic()
        _create(deployment, objects)
        _await(deployment, server, base)
        found = {"objects": _count(deployment, kind, server.name)} | _entries(
            deployment, server, passed
        )
        if found["objects"] != len(objects):
            raise ClusterError(
                f"{deployment.label}: {len(objects)} policies were asked for, there are"
                f" {found['objects']}"
            )
        deployment.restrict[server.name] = (kind, build)
        try:
            yield [{**record, "found": found, "seconds": time.monotonic() - began}]
        finally:
            deployment.restrict.pop(server.name, None)


def kind_of(deployment: MeasuredPods, asked: Policies) -> Kind:
    """In which kind of object they are made."""
    if asked.api == "kubernetes" and asked.layer == "L4":
        return "kubernetes"
    if deployment.profile.cni == "cilium":
        return "cilium"
    answer = deployment.access.call("GET", "/apis/projectcalico.org/v3")
    return "calico" if answer.ok else "calico-crd"


def _create(deployment: MeasuredPods, objects: Sequence[Object]) -> None:
    deployment.access.create(*objects, timeout=_QUICK + _EACH * len(objects))


def delete(deployment: MeasuredPods, kind: Kind, of: str, count: int) -> None:
    """Raises ClusterError."""
    resource, limit = policy_objects.resource(kind), _QUICK + _EACH * count
    deployment.access.delete(resource, deployment.namespace, f"{FOR}={of}", timeout=limit)


def _count(deployment: MeasuredPods, kind: Kind, of: str) -> int:
    return len(
        deployment.access.listed(
            policy_objects.resource(kind), deployment.namespace, labels=f"{FOR}={of}"
        )
    )


def _take_back(
    deployment: MeasuredPods, kind: Kind, server: KubernetesPod, count: int, base: str
) -> None:
    delete(deployment, kind, server.name, count)
    if (seen := _state(deployment, server, (base,), _EFFECT)) != base:
        raise ClusterError(f"{_EFFECT:.0f} s after the policies were deleted {_words(seen)}")


def _await(deployment: MeasuredPods, server: KubernetesPod, base: str) -> None:
    """Until they are in force. Raises UnsupportedError when nothing changed at all, LimitError."""
    seen = _state(deployment, server, (_UNDER,), _EFFECT)
    if seen == base == _OPEN:
        raise UnsupportedError(
            f"{deployment.label}: the policies exist in the API, but nothing enforces them:"
            f" {_EFFECT:.0f} s later a stranger is let in",
            "measure a CNI that does",
        )
    if seen != _UNDER:
        raise LimitError(
            f"{deployment.label}: the policies were not in force within {_EFFECT:.0f} s:"
            f" {_words(seen)}"
        )


def _words(state: str) -> str:
    said = [
        f"port {CANARY + number} {'lets' if letter == '1' else 'does not let'} a stranger in"
        for number, letter in enumerate(state)
    ]
    return " and ".join(said) or "nothing was seen"


def _state(
    deployment: MeasuredPods, server: KubernetesPod, wanted: Sequence[str], limit: float
) -> str:
    """Which of the two ports a stranger can connect to, as soon as it is one of ``wanted``, or
    after ``limit`` seconds.
    """
    stranger = deployment.add_stranger()
    address = server.addresses[deployment.families[0]]
    ports = [str(CANARY), str(CANARY + 1)]
    listen = [server.python, "-I", "-S", "-u", "-c", _LISTEN, address, *ports]
    with (
        scratch.nameless() as out,
        scratch.nameless() as err,
        server.spawn(listen, stdout=out, stderr=err) as listener,
    ):
        end = time.monotonic() + _NOTICE * patience()
        while "ready" not in out.read_text():
            if listener.poll() is not None or time.monotonic() > end:
                said = err.read_text().strip()[-200:] or "it said nothing"
                raise ClusterError(f"{server.name} does not listen for a stranger: {said}")
            time.sleep(0.01)
        argv = [
            stranger.python,
            "-I",
            "-S",
            "-c",
            _STATE,
            address,
            ",".join(ports),
            ",".join(wanted),
            str(limit),
        ]
        return stranger.run(argv, timeout=limit + _NOTICE).stdout.strip()


def _entries(deployment: MeasuredPods, server: KubernetesPod, least: int) -> dict[str, int]:
    """Entries of the Pod's policy map in the kernel, where the CNI is Cilium and they can be read;
    ``least`` of them are waited for.
    """
    if deployment.profile.cni != "cilium" or not server.node.host:
        return {}
    try:
        number = int(
            deployment.access.get("ciliumendpoints.cilium.io", server.pod, deployment.namespace)[
                "status"
            ]["id"]
        )
    except (CnibenchError, KeyError, ValueError):
        return {}
    script = (
        f"bpftool -j map dump pinned $(ls {HOST}/sys/fs/bpf/tc/globals/cilium_policy_*{number:05d}"
        " | head -n 1)"
    )
    end = time.monotonic() + _EFFECT * patience()
    while True:
        done = server.node.run(["sh", "-c", script], timeout=_QUICK, check=False)
        if done.returncode:
            return {}
        found = len(json.loads(done.stdout or "[]"))
        if found >= least:
            return {f"entries of the policy map of {server.name}": found}
        if time.monotonic() > end:
            raise LimitError(
                f"{deployment.label}: {least} policy entries were asked for, the policy map of"
                f" {server.name} has {found}"
            )
        time.sleep(0.2)


def _need_proxy(deployment: MeasuredPods) -> None:
    """Raises UnsupportedError where Cilium has no Envoy: it would take the policy and let nothing
    through.
    """
    assert deployment.profile.kubernetes is not None
    agent = next(
        one for one in deployment.profile.kubernetes.ready if one.rollout.startswith("daemonset/")
    )
    config = deployment.access.get("configmaps", "cilium-config", agent.namespace)["data"]
    if config.get("enable-l7-proxy", "true") == "false":
        raise UnsupportedError(
            f"{deployment.label}: its agent has HTTP rules switched off (enable-l7-proxy)",
            "--set l7Proxy=true",
        )
    access = deployment.access
    if access.find("daemonsets", "cilium-envoy", agent.namespace):
        return
    workload = access.look_up(agent.rollout, agent.namespace)
    there = pods.of_workload(access, workload) if workload else []
    if not any(_has_envoy(access, pod) for pod in there[:1]):
        raise UnsupportedError(
            f"{deployment.label}: HTTP rules are enforced by Envoy, which is neither in the image"
            " of its agent nor in a DaemonSet of its own",
            "use an image that has it, or --set envoy.enabled=true",
        )


def _has_envoy(access: Access, pod: Mapping[str, Any]) -> bool:
    meta = pod["metadata"]
    look = ("sh", "-c", "command -v cilium-envoy")
    stream = access.start(meta["namespace"], meta["name"], look, container="cilium-agent")
    with contextlib.closing(stream):
        while stream.read(1 << 16):
            pass
        return stream.code == 0
