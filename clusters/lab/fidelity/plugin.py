"""Calls of a CNI plugin, as a container runtime makes them (CNI specification 0.3.1)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cnibench.clusters.lab.fidelity.nodes import NodeFiles
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.errors import ClusterError

NAMESPACE = "cnibench"
_LIMIT = 60.0  # s


class Made(NamedTuple):
    """What the plugin says that it made: the node's end of the veth pair ('' if it does not say),
    and the Pod's addresses by family.
    """

    port: str
    addresses: Mapping[int, str]


def add(files: NodeFiles, plugins: Path, config: Mapping[str, Any], pod: LabPod) -> Made:
    """ADD. Raises ClusterError with the plugin's own message."""
    said = files.run(
        [str(plugins / str(config["type"]))],
        limit=_LIMIT,
        text=json.dumps(config),
        env=_environment("ADD", plugins, pod),
    )
    return parsed(said)


def delete(files: NodeFiles, plugins: Path, config: Mapping[str, Any], pod: LabPod) -> None:
    """DEL. Raises ClusterError."""
    files.run(
        [str(plugins / str(config["type"]))],
        limit=_LIMIT,
        text=json.dumps(config),
        env=_environment("DEL", plugins, pod),
    )


def container(pod: LabPod) -> str:
    """The ID of the Pod's sandbox."""
    return f"cnibench-{pod.ns.name}"


def _environment(command: str, plugins: Path, pod: LabPod) -> dict[str, str]:
    names = f"K8S_POD_NAMESPACE={NAMESPACE};K8S_POD_NAME={pod.name}"
    return {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": container(pod),
        # not its path: the node has its mounts from before the Pod was made
        "CNI_NETNS": f"/proc/{os.getpid()}/fd/{pod.ns.fd}",
        "CNI_IFNAME": pod.interface,
        "CNI_PATH": str(plugins),
        "CNI_ARGS": f"IgnoreUnknown=1;{names};K8S_POD_INFRA_CONTAINER_ID={container(pod)}",
    }


def parsed(said: str) -> Made:
    """A plugin's answer. Raises ClusterError."""
    try:
        answer = json.loads(said)
        ports = [
            one["name"]
            for one in answer.get("interfaces", ())
            if not one.get("sandbox") and str(one["name"]).startswith(("veth", "lxc", "cali"))
        ]
        found = [str(one["address"]).partition("/")[0] for one in answer["ips"]]
    except (ValueError, KeyError, TypeError):
        raise ClusterError(f"the CNI plugin answers what is not a result: {said[:200]!a}") from None
    return Made(ports[0] if ports else "", {6 if ":" in one else 4: one for one in found})
