"""How many netfilter hooks one packet passes from Pod to Pod: the "chains" of Table III of qi2021,
counted for one datagram.

A counter at each of the five hooks of both nodes, before everything else, sees the datagram itself
and the one that carries it.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces.places import LabPod

Make = Callable[..., LabDeployment]

HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
PORT = 33999
UNDERLAY, OVERLAY = 6, 10
# Table III: hooks inside a node, hooks between nodes (both nodes added up).
TABLE_III = {
    "flannel": (3, OVERLAY),
    "flannel-host-gw": (3, UNDERLAY),
    "kube-router": (3, UNDERLAY),
    "calico-wp-xsub": (3, UNDERLAY),
    "calico-np-xsub": (3, UNDERLAY),
    "calico-bare-xsub": (3, UNDERLAY),
    "calico-wp-vxlan": (3, OVERLAY),
    "calico-np-vxlan": (3, OVERLAY),
    "bridge-static": (3, UNDERLAY),
}


def watch(deployment: LabDeployment) -> None:
    chains = "\n".join(
        f"chain {hook} {{ type filter hook {hook} priority -500; udp dport {{ {PORT}, 4789, 8472 }}"
        " counter; }"
        for hook in HOOKS
    )
    for node in deployment.nodes():
        node.run(["nft", "-f", "-"], timeout=10, input=f"table inet counted {{\n{chains}\n}}\n")


def counted(deployment: LabDeployment) -> int:
    total = 0
    for node in deployment.nodes():
        listing = json.loads(
            node.run(["nft", "-j", "list", "table", "inet", "counted"], timeout=10).stdout
        )
        for item in listing["nftables"]:
            for part in item.get("rule", {}).get("expr", ()):
                total += part.get("counter", {}).get("packets", 0)
    return total


def one_datagram(client: LabPod, server: LabPod, family: int) -> None:
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    with server.ns.inside():
        receiver = socket.socket(kind, socket.SOCK_DGRAM)
    with client.ns.inside():
        sender = socket.socket(kind, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.bind((server.addresses[family], PORT))
        sender.sendto(b"x", receiver.getsockname())
        assert select.select([receiver], [], [], 10)[0]


@pytest.mark.parametrize("name", sorted(TABLE_III))
def test_hooks_are_those_of_the_study(make_deployment: Make, name: str) -> None:
    deployment = make_deployment(name, ip=(4, 6))
    watch(deployment)
    for family in (4, 6):
        seen = []
        for placement in ("intra", "inter"):
            client, server = deployment.pair(placement)  # type: ignore[arg-type]
            before = counted(deployment)
            one_datagram(client, server, family)
            seen.append(counted(deployment) - before)
        assert tuple(seen) == TABLE_III[name], family
