"""How a client reaches its server: Pod to Pod, through a Service, from or to the nodes' own
network.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.nodes.places import KubernetesPod
from cnibench.errors import ClusterError, UnsupportedError
from cnibench.registry import providers

ALL = ("pod", "clusterip", "nodeport", "host", "pod-to-host")
_ROOM = 16  # ports of a workload: that of the first pair and those after it
_LEAST, _MOST = 30000, 32767  # the range of node ports (kube-apiserver, --service-node-port-range)


@cache
def _ports() -> tuple[int, ...]:
    """The first port of each workload."""
    return tuple(
        sorted({port for workload in providers("workloads").values() for port in workload.ports})
    )


def node_ports() -> range:
    """The first of the node ports that each server may take: a block with room for the ports of all
    workloads.
    """
    block = _ROOM * len(_ports())
    return range(_LEAST, _MOST - block, block)


def on_host(path: str) -> tuple[bool, bool]:
    """Is (the client, the server) in its node's network namespace?"""
    return path == "host", path in ("host", "pod-to-host")


def through_service(path: str) -> bool:
    return path in ("clusterip", "nodeport")


def port(number: int, first: int) -> int:
    """Where a server that would listen on ``number`` listens when its node ports begin at ``first``
    (0: it has none, and listens there).

    A node port is the same on the node, on the Service and in the Pod: netperf sends its peer the
    port that it connects to.
    """
    if not first:
        return number
    for index, base in enumerate(_ports()):
        if base <= number < base + _ROOM:
            return first + index * _ROOM + number - base
    raise UnsupportedError(
        f"no Service has port {number}",
        f"a Service is for at most {_ROOM} ports of a workload: ask for fewer pairs",
    )


def service(
    making: Making, server: str, path: str, families: Sequence[int], first: int
) -> dict[str, Any]:
    """The Service that a path to that server needs."""
    ports = [port(base + more, first) for base in _ports() for more in range(_ROOM)]
    return objects.service(
        making, f"{server}-{path}", server, ports, node_port=bool(first), families=families
    )


def cluster_ips(service: Mapping[str, Any]) -> dict[int, str]:
    """4 and 6 to the Service's address, out of its object."""
    return {
        ipaddress.ip_address(item).version: item for item in service["spec"].get("clusterIPs", ())
    }


# kube-proxy (or what takes its place) writes a new Service's rules some time after it was made.
# Until then others may answer: a proxy on the cluster's way out accepts connections to any
# address.
_LISTEN = """
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
while True:
    with listener.accept()[0] as one:
        one.sendall(sys.argv[3].encode())
"""  # noqa: E501
_CONNECT = """
import socket, sys, time
word, end = sys.argv[3].encode(), time.monotonic() + float(sys.argv[4])
while True:
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), 1) as one:
            if one.recv(len(word), socket.MSG_WAITALL) == word:
                break
            said = "another server answers"
    except OSError as error:
        said = str(error)
    if time.monotonic() > end:
        sys.exit(said)
    time.sleep(0.05)
"""
_WRITTEN = 30.0  # s


def wait_reached(
    client: KubernetesPod, server: KubernetesPod, path: str, address: str, family: int, first: int
) -> None:
    """Until the client reaches the server through its Service. Raises ClusterError after a
    limit.
    """
    number = str(
        port(_ports()[-1] + _ROOM - 1, first)
    )  # no workload uses the last one unless there are that many pairs
    word = secrets.token_hex(16)
    listen = [server.python, "-I", "-S", "-c", _LISTEN, server.addresses[family], number, word]
    with server.spawn(listen):
        argv = [client.python, "-I", "-S", "-c", _CONNECT, address, number, word, str(_WRITTEN)]
        done = client.run(argv, timeout=_WRITTEN + 20, check=False)
    if done.returncode != 0:
        said = done.stderr.strip()
        raise ClusterError(
            f"{client.name} does not reach {server.name} by its {path} within {_WRITTEN:.0f} s:"
            f" {said}",
            "does kube-proxy run?",
        )
